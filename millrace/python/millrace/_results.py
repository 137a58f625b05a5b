"""Rows that a program makes, for the library: from Arrow, NumPy, PyTorch or Python's own lists."""

from __future__ import annotations

import array as arrays
import ctypes
import itertools
from ctypes import byref, c_int64
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from millrace import _capsule
from millrace._library import MAX_DIMENSIONS, ArrowArray, ArrowSchema, Memory, Tensor, call, library
from millrace.batch import Column
from millrace.error import InvalidArgumentError

# millrace_type by NumPy's kind and size, and by unit of datetime64.
_NUMBERS: Dict[str, int] = {
    "i1": 1, "i2": 2, "i4": 3, "i8": 4, "u1": 5, "u2": 6, "u4": 7, "u8": 8, "f2": 9, "f4": 10, "f8": 11,
}  # fmt: skip
_TIMES: Dict[str, int] = {"s": 14, "ms": 15, "us": 16, "ns": 17}


class Builder:
    """Rows from columns of Python's, NumPy's or PyTorch's; `what` they are, for messages."""

    def __init__(self, what: str) -> None:
        self._what = what
        loaded = library()
        self._builder = Memory(loaded.millrace_builder_new(), loaded.millrace_builder_free)

    def _wrong(self, name: str, what: str) -> InvalidArgumentError:
        return InvalidArgumentError("INVALID_ARGUMENT", f'{self._what}, column "{name}": {what}')

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, Column):
            self._add_column(name, value)
        elif type(value).__module__.split(".")[0] == "torch":
            self._add_torch(name, value)
        elif hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            self._add_numpy(name, value)
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            self._add_list(name, value)
        else:
            raise self._wrong(
                name,
                f"{type(value).__name__} is no column; give an array of NumPy, a tensor, a column of a batch "
                "or a list, one row for each row of the batch",
            )

    def _add_tensor(
        self, name: str, kind: int, shape: Sequence[int], address: int, valid: Optional[bytes] = None
    ) -> None:
        if not 1 <= len(shape) <= MAX_DIMENSIONS:
            raise self._wrong(name, f"an array of {len(shape)} dimensions; the first is that of the rows")
        tensor = Tensor(ctypes.sizeof(Tensor), address, kind, len(shape))
        for i, size in enumerate(shape):
            tensor.shape[i] = size
        call("millrace_builder_add", self._builder.pointer, name.encode(), byref(tensor), valid)

    def _add_column(self, name: str, column: Column) -> None:
        try:
            tensor = column._tensor()
        except InvalidArgumentError:
            tensor = None  # text, bools
        if tensor is None or tensor.num_nulls > 0:
            self._add_list(name, column.to_pylist())
            return
        call("millrace_builder_add", self._builder.pointer, name.encode(), byref(tensor), None)

    def _add_torch(self, name: str, value: Any) -> None:
        import torch

        tensor = value.detach().cpu().contiguous()
        if tensor.dtype == torch.bool:
            data = bytes(tensor.to(torch.uint8).flatten().tolist())
            self._add_bools(name, data, tensor.shape)
            return
        kinds = {
            torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.uint8: 5,
            torch.float16: 9, torch.float32: 10, torch.float64: 11,
        }  # fmt: skip
        kind = kinds.get(tensor.dtype)
        if kind is None:
            raise self._wrong(name, f"Arrow has no {tensor.dtype}; call .float() on the tensor")
        self._add_tensor(name, kind, tuple(tensor.shape), tensor.data_ptr())

    def _add_numpy(self, name: str, value: Any) -> None:
        import numpy as np

        array = np.asarray(value)
        if array.ndim == 0:
            raise self._wrong(name, "a single value; a row is needed for each row of the batch")
        if array.dtype.kind in "OUS":
            self._add_list(name, array.tolist())
            return
        array = np.ascontiguousarray(array)
        kind: Optional[int]
        if array.dtype.kind == "b":
            self._add_bools(name, array.tobytes(), array.shape)
            return
        if array.dtype.kind == "M":
            unit = np.datetime_data(array.dtype)[0]
            if unit == "D":
                array, kind = array.astype("i4"), 12
            else:
                kind = _TIMES.get(unit)
        else:
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
            kind = _NUMBERS.get(array.dtype.str[1:])
        if kind is None:
            raise self._wrong(name, f"Arrow has no {array.dtype}; use another dtype")
        self._add_tensor(name, kind, array.shape, array.ctypes.data)

    def _add_bools(self, name: str, data: bytes, shape: Sequence[int], valid: Optional[bytes] = None) -> None:
        if len(shape) != 1:
            raise self._wrong(name, "bools of more than one dimension; convert them to uint8")
        call("millrace_builder_add_bools", self._builder.pointer, name.encode(), data, len(data), valid)

    def _add_list(self, name: str, values: Sequence[Any]) -> None:
        present = [value for value in values if value is not None]
        valid = None if len(present) == len(values) else bytes(value is not None for value in values)
        kinds = {type(value) for value in present}
        if kinds <= {bool} and kinds:
            self._add_bools(name, bytes(bool(value) for value in values), (len(values),), valid)
        elif kinds <= {int}:
            self._add_array(name, "q", [value or 0 for value in values], (len(values),), valid)
        elif kinds <= {int, float}:
            self._add_array(name, "d", [value or 0.0 for value in values], (len(values),), valid)
        elif kinds in ({str}, {bytes}):
            self._add_texts(name, values, kinds == {bytes}, valid)
        elif kinds <= {list, tuple} and valid is None:
            self._add_nested(name, values)
        else:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise self._wrong(name, f"rows of {names}; a column has one type: give it as an array of NumPy or of Arrow")

    def _add_array(
        self, name: str, code: str, values: List[Any], shape: Tuple[int, ...], valid: Optional[bytes] = None
    ) -> None:
        try:
            data = arrays.array(code, values)
        except OverflowError:
            raise self._wrong(name, "a number that does not fit into 64 bits") from None
        self._add_tensor(name, 4 if code == "q" else 11, shape, data.buffer_info()[0], valid)

    def _add_nested(self, name: str, rows: Sequence[Any]) -> None:
        """Lists of equally many numbers."""
        shape, values = [len(rows)], list(rows)
        while values and isinstance(values[0], (list, tuple)):
            sizes = {len(value) if isinstance(value, (list, tuple)) else -1 for value in values}
            if len(sizes) != 1 or not all(isinstance(value, (list, tuple)) for value in values):
                raise self._wrong(name, "lists of several lengths; give it as an array of Arrow")
            shape.append(sizes.pop())
            values = [item for value in values for item in value]
        kinds = {type(value) for value in values}
        if not kinds <= {int, float}:
            raise self._wrong(name, "lists of something other than numbers; give it as an array of Arrow")
        self._add_array(name, "q" if kinds <= {int} else "d", values, tuple(shape))

    def _add_texts(self, name: str, values: Sequence[Any], binary: bool, valid: Optional[bytes]) -> None:
        parts = [b"" if value is None else value if binary else value.encode() for value in values]
        ends = arrays.array("q", itertools.accumulate(map(len, parts), initial=0))
        offsets = (c_int64 * len(ends)).from_buffer(ends)
        call(
            "millrace_builder_add_strings", self._builder.pointer, name.encode(), b"".join(parts), offsets, len(parts),
            int(binary), valid,
        )  # fmt: skip

    def finish(self, schema: ArrowSchema, array: ArrowArray) -> None:
        call("millrace_builder_finish", self._builder.pointer, byref(schema), byref(array))


def structs_of(results: Any) -> Iterator[Tuple[ArrowSchema, ArrowArray]]:
    """`results` as pairs of Arrow structs, which who takes them over releases."""
    if isinstance(results, Mapping):
        schema, array = ArrowSchema(), ArrowArray()
        builder = Builder("results")
        for name, value in results.items():
            builder.add(name, value)
        builder.finish(schema, array)
        yield schema, array
    elif hasattr(results, "__arrow_c_array__"):
        # The capsules live until the library has moved their structs out.
        capsules = results.__arrow_c_array__()
        yield (
            ArrowSchema.from_address(_capsule.address_of(capsules[0], b"arrow_schema")),
            ArrowArray.from_address(_capsule.address_of(capsules[1], b"arrow_array")),
        )
    elif hasattr(results, "__arrow_c_stream__"):
        stream = _capsule.ArrowStream(results.__arrow_c_stream__())
        while True:
            schema, array = ArrowSchema(), ArrowArray()
            if not stream.next(schema, array):
                return
            yield schema, array
    else:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"results of {type(results).__name__}; give a dict of columns, a record batch or a table of Arrow",
        )
