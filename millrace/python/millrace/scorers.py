"""Models of other libraries that answer for rows of columns: load() chooses one by the name of its file.

    scorer = millrace.scorers.load("digits.onnx")
    scorer({"image": images})["scores"]          # (n, 784) float32 to (n, 10) float32

| file | library | inputs | outputs |
| --- | --- | --- | --- |
| `.onnx` | ONNX Runtime | the model's, by name | the model's, by name |
| `.pt`, `.ts` (TorchScript) | PyTorch | the arguments of its `forward`, by name | `output`, or the keys of its dict |
| `.ubj`, `.json` (XGBoost's own) | XGBoost | `features` | `prediction` |
| `.txt` (LightGBM's own) | LightGBM | `features` | `prediction` |

Each library is imported when a model of it is loaded. A scorer is used by one thread at a time.
"""

from __future__ import annotations

import abc
import io
import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from millrace.error import InvalidArgumentError

if TYPE_CHECKING:
    import numpy

__all__ = ["Scorer", "load"]


class Scorer(abc.ABC):
    """A loaded model. Its members are read only."""

    inputs: Tuple[str, ...]  # the names of what it takes
    outputs: Tuple[str, ...]  # the names of what it answers
    takes_missing: bool = False  # whether NaN stands for a number that is not known

    @abc.abstractmethod
    def __call__(self, columns: Mapping[str, "numpy.ndarray[Any, Any]"]) -> Dict[str, "numpy.ndarray[Any, Any]"]:
        """One answer for each row: the arrays' first dimension is that of rows, here and there.

        Numbers are converted to the type that the model takes, and rows are brought into its shape if they have as
        many numbers. What the model refuses is its library's error.
        """


def _threads() -> int:
    """PySpark says in its workers how many cores a task has; anybody else may use all."""
    return int(os.environ.get("OMP_NUM_THREADS") or 0)


def _shaped(name: str, given: Any, dtype: Any, dims: List[Optional[int]]) -> Any:
    """`given` in the type and the shape of one row, `dims`, of which one may be open (None)."""
    import numpy as np

    rows = len(given)
    made = np.ascontiguousarray(given, dtype=dtype)
    if made.ndim == len(dims) + 1 and all(want in (None, have) for want, have in zip(dims, made.shape[1:])):
        return made
    shape = [-1 if dim is None else dim for dim in dims]
    size = made.size // max(rows, 1)
    known = 1
    for dim in shape:
        known *= dim if dim > 0 else 1
    if shape.count(-1) > 1 or (size % known if -1 in shape else size != known):
        wants = " x ".join("any" if dim is None else str(dim) for dim in dims) or "one number"
        raise InvalidArgumentError(
            "INVALID_ARGUMENT", f"the model's input {name!r} takes {wants} for each row, and a row has {size} numbers"
        )
    return made.reshape([rows, *(shape if rows or -1 not in shape else [max(dim, 0) for dim in shape])])


class _Onnx(Scorer):
    _TYPES = {
        "tensor(float)": "float32",
        "tensor(double)": "float64",
        "tensor(float16)": "float16",
        "tensor(int64)": "int64",
        "tensor(int32)": "int32",
        "tensor(int16)": "int16",
        "tensor(int8)": "int8",
        "tensor(uint8)": "uint8",
        "tensor(bool)": "bool",
        "tensor(string)": "object",
    }

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _threads()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._specs = {}
        for put in self._session.get_inputs():
            if put.type not in self._TYPES:
                raise InvalidArgumentError(
                    "INVALID_ARGUMENT", f"the model's input {put.name!r} is a {put.type}, which no column of numbers is"
                )
            dims = [dim if isinstance(dim, int) and dim > 0 else None for dim in put.shape[1:]]
            self._specs[put.name] = (self._TYPES[put.type], dims)
        self.inputs = tuple(self._specs)
        self.outputs = tuple(put.name for put in self._session.get_outputs())

    def __call__(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        given = {name: _shaped(name, columns[name], *spec) for name, spec in self._specs.items()}
        return dict(zip(self.outputs, self._session.run(None, given)))


class _TorchScript(Scorer):
    def __init__(self, model: bytes) -> None:
        import torch

        if threads := _threads():
            torch.set_num_threads(threads)
        self._model = torch.jit.load(io.BytesIO(model), map_location="cpu").eval()
        self.inputs = tuple(put.name for put in self._model.forward.schema.arguments[1:])
        self.outputs = ("output",)

    def __call__(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        import numpy as np
        import torch

        # By DLPack, for which the versions of NumPy and PyTorch need not fit.
        given = [torch.from_dlpack(np.require(columns[name], requirements=["C", "W"])) for name in self.inputs]
        with torch.inference_mode():
            answer = self._model(*given)
        if isinstance(answer, torch.Tensor):
            answer = {"output": answer}
        elif isinstance(answer, (list, tuple)):
            answer = {f"output_{i}": tensor for i, tensor in enumerate(answer)}
        return {name: np.from_dlpack(tensor) for name, tensor in answer.items()}


class _Trees(Scorer):
    """Of one matrix of numbers; every library of them has a way for numbers that are missing."""

    inputs = ("features",)
    outputs = ("prediction",)
    takes_missing = True

    def __init__(self, predict: Callable[[Any], Any]) -> None:
        self._predict = predict

    def __call__(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        import numpy as np

        given = np.asarray(columns["features"])
        return {"prediction": np.asarray(self._predict(given if given.ndim == 2 else given.reshape(len(given), 1)))}


def _xgboost(model: bytes) -> Scorer:
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(bytearray(model))
    if threads := _threads():
        booster.set_param({"nthread": threads})

    def predict(matrix: Any) -> Any:
        return booster.inplace_predict(matrix, validate_features=False)

    return _Trees(predict)


def _lightgbm(model: bytes) -> Scorer:
    import lightgbm

    booster = lightgbm.Booster(model_str=model.decode("utf-8"))

    def predict(matrix: Any) -> Any:
        return booster.predict(matrix, num_threads=_threads())

    return _Trees(predict)


_KINDS: Dict[str, Callable[[bytes], Scorer]] = {
    ".onnx": _Onnx,
    ".pt": _TorchScript,
    ".ts": _TorchScript,
    ".ubj": _xgboost,
    ".json": _xgboost,
    ".txt": _lightgbm,
}


def suffix_of(name: str) -> str:
    """What says the kind of a model in the name of its file. Raises InvalidArgumentError where nothing does."""
    suffix = pathlib.PurePosixPath(name).suffix.lower()
    if suffix not in _KINDS:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT", f"{name!r} is no model that can be loaded: names end with {', '.join(_KINDS)}"
        )
    return suffix


def load(path: Union[str, "os.PathLike[str]"], data: Optional[bytes] = None) -> Scorer:
    """The model in a file; or in `data`, of a file that had that name."""
    kind = _KINDS[suffix_of(os.fspath(path))]
    return kind(pathlib.Path(path).read_bytes() if data is None else data)
