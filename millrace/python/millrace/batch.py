"""What a feed brings: batches of rows, by columns. Nothing is copied unless it says so."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple

from millrace import _arrow, _capsule, _library, _pickles
from millrace._library import ArrowArray, ArrowSchema, Memory, Tensor, call, library
from millrace.error import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor as TorchTensor

__all__ = ["Batch", "Column"]

# NumPy's names for the types of a tensor (millrace_type), from 1 on.
_TYPES = (
    "<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8",
    "<i4", "<M8[ms]", "<M8[s]", "<M8[ms]", "<M8[us]", "<M8[ns]",
)  # fmt: skip
_DATE32 = 12
_CPU = 1
_TENSOR_SIZE = ctypes.sizeof(Tensor)


# Of as many columns, a program that reads more than one in so many is told of all tensors in one call.
_FEW = 16
# Bytes between columns that lie together: validity, offsets, columns of other types.
_ROOM = 1 << 20
# A Tensor as words of 8 bytes: where it lies; type and dimensions, rows, the second dimension; nulls.
_DATA = Tensor.data.offset // 8
_FORM = slice(Tensor.type.offset // 8, Tensor.shape.offset // 8 + 2)
_NULLS = Tensor.num_nulls.offset // 8


@functools.lru_cache(maxsize=None)
def _numpy() -> Any:
    import numpy

    return numpy


@functools.lru_cache(maxsize=64)
def _forms(words: bytes) -> "Tuple[List[Any], NDArray[Any]]":
    """Of columns with these words: shape and NumPy's type of each, None for what is copied or has more dimensions;
    and bytes, 0 for those."""
    found: List[Any] = []
    sizes = []
    for kind, ndim, rows, width in struct.iter_unpack("=iiqq", words):
        form, size = None, 0
        if 0 < ndim < 3 and kind not in (0, _DATE32):
            form = (rows, width)[:ndim], _numpy().dtype(_TYPES[kind - 1])
            size = math.prod(form[0]) * form[1].itemsize
        found.append(form if size else None)
        sizes.append(size)
    return found, _numpy().array(sizes)


@functools.lru_cache(maxsize=64)
def _keys(names: bytes) -> Dict[str, Tuple[int, bytes]]:
    """The names of columns, each followed by a zero, with their numbers and what the library calls them; not to be
    changed."""
    return {key.decode(): (number, key) for number, key in enumerate(names.split(b"\0")[:-1])}


class _Rows(Memory):
    """Those of a batch, which all that is made of them holds."""

    def __init__(self, pointer: int) -> None:
        super().__init__(pointer, library().millrace_batch_free)


class _Tensors:
    """Where the columns of a batch lie: asked for one by one, or in one call by a program that reads many."""

    def __init__(self, rows: _Rows, num_columns: int) -> None:
        self.rows = rows
        self._num_columns = num_columns
        self._num_asked = 0
        self._all: Optional[ctypes.Array[Tensor]] = None
        self._laid_out = False
        # One array over the memory of all columns, and where in it each begins. The rows must not hold that array, as
        # it holds them.
        self._memory: "Optional[NDArray[Any]]" = None
        self._forms: List[Any] = []
        self._begins: List[int] = []

    def tensor(self, number: Optional[int], key: bytes) -> Tensor:
        """That of a column, or of a struct's field, which has no number. Raises InvalidArgumentError if it is none."""
        if number is not None and (self._all is not None or self._ask()):
            assert self._all is not None
            found: Tensor = self._all[number]
            if found.type:
                return found
        tensor = Tensor(_TENSOR_SIZE)
        call("millrace_batch_tensor", self.rows.pointer, key, byref(tensor))
        return tensor

    def array(self, number: Optional[int]) -> "Optional[NDArray[Any]]":
        """A column of numbers without nulls where it lies, once all were asked for. None: it takes another way."""
        if self._all is None or number is None or self._num_columns < _FEW:
            return None
        if not self._laid_out:
            self._lay_out(self._all)
        if self._memory is None:
            return None
        form = self._forms[number]
        return None if form is None else _numpy().ndarray(form[0], form[1], self._memory, self._begins[number])

    def _ask(self) -> bool:
        self._num_asked += 1
        if self._num_asked * _FEW <= self._num_columns:
            return False
        tensors = (Tensor * self._num_columns)()
        tensors[0].struct_size = _TENSOR_SIZE
        call("millrace_batch_tensors", self.rows.pointer, tensors, self._num_columns)
        self._all = tensors
        return True

    def _lay_out(self, tensors: "ctypes.Array[Tensor]") -> None:
        """Makes one array of what was received together, of which to take parts costs a fifth of an array each."""
        self._laid_out = True
        np = _numpy()
        words = np.frombuffer(tensors, np.int64).reshape(self._num_columns, -1)
        forms, sizes = _forms(words[:, _FORM].tobytes())
        if words[:, _NULLS].any():
            forms = [None if nulls else form for form, nulls in zip(forms, words[:, _NULLS])]
        begins = words[:, _DATA]
        known = sizes > 0
        if not known.any():
            return
        begin = int(begins[known].min())
        size = int((begins + sizes)[known].max()) - begin
        if size <= sizes.sum() + _ROOM:  # else columns have memory of their own
            self._memory = np.asarray(_View(self.rows, begin, (size,), "|u1"))
            self._forms, self._begins = forms, (begins - begin).tolist()


class _View:
    """What NumPy looks at; the array that is made of it holds it, and it holds the rows."""

    def __init__(self, owner: _Rows, data: int, shape: Tuple[int, ...], kind: str) -> None:
        self._owner = owner
        self.__array_interface__ = {"version": 3, "data": (data, False), "shape": shape, "typestr": kind}


class _Exported:
    """A column as Arrow structs of its own."""

    def __init__(self, rows: _Rows, name: bytes) -> None:
        self.schema, self.array = ArrowSchema(), ArrowArray()
        call("millrace_batch_export_column", rows.pointer, name, byref(self.schema), byref(self.array))

    def __del__(self) -> None:
        for struct in (self.schema, self.array):
            if struct.release:
                ctypes.CFUNCTYPE(None, c_void_p)(struct.release)(ctypes.addressof(struct))


class Column:
    """One column of a batch, or a field of a struct: "point.x".

    Every array and tensor that is made of it holds the memory: it stays valid when the batch, the feed and
    the node are gone. The memory was received by this process and is nobody else's, so that NumPy's and
    PyTorch's views may be written to; whoever holds two views of one column sees in the one what was
    written to the other. What is handed out through Arrow must not change any more.
    """

    __slots__ = ("_tensors", "_num_rows", "_number", "_key", "name", "__weakref__")

    def __init__(self, tensors: _Tensors, name: str, num_rows: int, number: Optional[int], key: bytes) -> None:
        self._tensors = tensors
        self._num_rows = num_rows
        self._number = number  # None: a struct's field
        self._key = key  # the name, for the library
        self.name = name

    def __len__(self) -> int:
        return self._num_rows

    def __repr__(self) -> str:
        return f"<millrace.Column {self.name!r}: {self._num_rows} rows of {self.type}>"

    @property
    def _rows(self) -> _Rows:
        return self._tensors.rows

    @property
    def type(self) -> str:
        """Arrow's type: "fixed_size_list<float32>[784]"."""
        text = c_void_p()
        call("millrace_batch_column_type", self._rows.pointer, self._key, byref(text))
        return _library.take_text(text)

    @property
    def shape(self) -> Tuple[int, ...]:
        """(rows,) of numbers, (rows, 784) of lists of 784. Raises InvalidArgumentError for what is no tensor."""
        tensor = self._tensor()
        return tuple(tensor.shape[: tensor.ndim])

    def _tensor(self) -> Tensor:
        return self._tensors.tensor(self._number, self._key)

    def _export(self, schema: int, array: int) -> None:
        call("millrace_batch_export_column", self._rows.pointer, self._key, schema, array)

    def _is_text(self) -> bool:
        """Or bytes: what has no numbers."""
        return self.type.split(" ")[0] in ("utf8", "large_utf8", "binary", "large_binary")

    def numpy(self) -> "NDArray[Any]":
        """The numbers, dates or timestamps where they lie, and lists of equally many as further dimensions.
        Bools, text and days are copied. Raises InvalidArgumentError for nulls, structs, and lists of several
        lengths."""
        plain = self._tensors.array(self._number)
        return self._array()[0] if plain is None else plain

    def _array(self) -> "Tuple[NDArray[Any], bool]":
        """And whether it is a copy."""
        import numpy as np

        try:
            tensor = self._tensor()
        except InvalidArgumentError:
            kind = self.type
            if kind != "bool" and not self._is_text():
                raise
            return np.array(self._values(), dtype=np.bool_ if kind == "bool" else object), True
        self._refuse_nulls(tensor.num_nulls)
        shape = tuple(tensor.shape[: tensor.ndim])
        if not tensor.data:
            array = np.empty(shape, _TYPES[tensor.type - 1])
        else:
            array = np.asarray(_View(self._rows, tensor.data, shape, _TYPES[tensor.type - 1]))
        days = tensor.type == _DATE32
        return (array.astype("datetime64[D]") if days else array), days

    def _values(self) -> List[Any]:
        values = self.to_pylist()
        self._refuse_nulls(sum(value is None for value in values))
        return values

    def _refuse_nulls(self, count: int) -> None:
        if count > 0:
            raise InvalidArgumentError(
                "INVALID_ARGUMENT",
                f'column "{self.name}" has {count} nulls, which an array of numbers cannot say: fill them at '
                "the source, or read the column by to_pylist() or through Arrow",
            )

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "NDArray[Any]":
        array, copied = self._array()
        other = dtype is not None and array.dtype != dtype
        if copy is False and (copied or other):
            raise InvalidArgumentError(
                "INVALID_ARGUMENT",
                f'column "{self.name}" of {self.type} is no array of {dtype if other else array.dtype} without a copy, '
                "and copy=False: leave it out",
            )
        if other:
            return array.astype(dtype)
        return array.copy() if copy and not copied else array

    def torch(self) -> "TorchTensor":
        """The same as a tensor of PyTorch, where it lies. Raises InvalidArgumentError for dates, timestamps
        and what numpy() refuses, and for text."""
        import torch

        try:
            shared = self.__dlpack__()
        except InvalidArgumentError:
            if self.type != "bool":
                raise
            return torch.tensor(self._values(), dtype=torch.bool)
        made: TorchTensor = torch.utils.dlpack.from_dlpack(shared)
        return made

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object:
        """As DLPack has it: the memory itself, unless `copy` is True. `stream` and `max_version` change nothing.
        Raises BufferError for another device than the CPU."""
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != self.__dlpack_device__():
            raise BufferError(
                f'column "{self.name}" lies in the memory of the CPU, device {self.__dlpack_device__()}, and not in '
                f"that of {dl_device}: make a tensor of it, and move that"
            )
        tensor = c_void_p()
        call("millrace_batch_dlpack", self._rows.pointer, self._key, byref(tensor))
        assert tensor.value is not None
        shared = _capsule.dlpack_capsule(tensor.value)
        return self.numpy().copy().__dlpack__() if copy else shared

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CPU, 0)

    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]:
        return _capsule.arrow_capsules(self._export)

    def to_pylist(self) -> List[Any]:
        """Python's objects, copied; None for nulls."""
        exported = _Exported(self._rows, self._key)
        return _arrow.to_pylist(exported.schema, exported.array, 0, self._num_rows)


class Batch(Mapping[str, Column]):
    """Rows, as a mapping of columns. len() is the number of columns, num_rows that of rows.

    A column of a name that is not there raises NotFoundError, which is a KeyError too; "point.x" is the
    field x of the struct point. To Arrow it is a record batch.
    """

    def __init__(self, pointer: int) -> None:
        loaded = library()
        self.num_rows: int = loaded.millrace_batch_num_rows(pointer)
        size = ctypes.c_size_t()
        names = loaded.millrace_batch_names(pointer, byref(size))
        self._names = _keys(ctypes.string_at(names, size.value))
        self._rows = _Rows(pointer)
        self._tensors = _Tensors(self._rows, len(self._names))

    def __getitem__(self, name: str) -> Column:
        found = self._names.get(name)
        if found is not None:
            return Column(self._tensors, name, self.num_rows, found[0], found[1])
        field = Column(self._tensors, name, self.num_rows, None, name.encode())
        field.type  # raises where there is no such field either, naming the columns that there are
        return field

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {self[name].type}" for name in list(self)[:20])
        return f"<millrace.Batch of {self.num_rows} rows: {columns}>"

    def _export(self, schema: int, array: int) -> None:
        call("millrace_batch_export", self._rows.pointer, schema, array)

    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]:
        return _capsule.arrow_capsules(self._export)

    @property
    def has_objects(self) -> bool:
        """Whether the rows are elements of an RDD of Python objects."""
        return list(self._names) == [_pickles.COLUMN]

    def objects(self) -> List[Any]:
        """The elements of an RDD of Python objects: one for each row. Raises InvalidArgumentError for other rows."""
        if not self.has_objects:
            raise InvalidArgumentError(
                "INVALID_ARGUMENT",
                f"these rows are no Python objects but columns: {', '.join(self._names)}; read them by name",
            )
        exported = _Exported(self._rows, _pickles.COLUMN.encode())
        return _pickles.loads(_arrow.views(exported.schema, exported.array, 0, self.num_rows))

    def to_pydict(self) -> Dict[str, List[Any]]:
        """A list for each column, copied."""
        return {name: self[name].to_pylist() for name in self}

    def to_pylist(self) -> List[Dict[str, Any]]:
        """A dict for each row, copied."""
        columns = self.to_pydict()
        return [{name: values[row] for name, values in columns.items()} for row in range(self.num_rows)]
