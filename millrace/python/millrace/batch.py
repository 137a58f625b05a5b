"""What a feed brings: batches of rows, by columns. Nothing is copied unless it says so."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from ctypes import byref, c_void_p
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    ItemsView,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    ValuesView,
)

from millrace import _arrow, _capsule, _library, _pickles
from millrace._library import ArrowArray, ArrowSchema, Memory, Tensor, call, library
from millrace.error import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
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
_FORM = Tensor.type.offset // 8
_WORDS = [_DATA, _FORM, _FORM + 1, _FORM + 2, Tensor.num_nulls.offset // 8]


@functools.lru_cache(maxsize=None)
def _numpy() -> Any:
    import numpy

    return numpy


@functools.lru_cache(maxsize=64)
def _dtype(kind: int) -> "np.dtype[Any]":
    found: "np.dtype[Any]" = _numpy().dtype(_TYPES[kind - 1])
    return found


class _Layout(NamedTuple):
    """How the columns of a batch lie to each other."""

    # Shape, type, and the byte at which it begins; None for what is copied, has nulls or more dimensions.
    columns: "List[Optional[Tuple[Tuple[int, ...], np.dtype[Any], int]]]"
    begin: int  # of all of these, from the first column of the batch on
    size: int  # 0: there are none, or they have memory of their own


@functools.lru_cache(maxsize=64)
def _layout(words: bytes) -> _Layout:
    """Of columns with these words, where they lie being told from the first one on."""
    columns: "List[Optional[Tuple[Tuple[int, ...], np.dtype[Any], int]]]" = []
    for data, kind, ndim, rows, width, nulls in struct.iter_unpack("=qiiqqq", words):
        form = None
        if 0 < ndim < 3 and kind not in (0, _DATE32) and not nulls:
            form = (rows, width)[:ndim], _dtype(kind), data
        columns.append(form if form and math.prod(form[0]) > 0 else None)
    known = [(data, math.prod(shape) * dtype.itemsize) for shape, dtype, data in filter(None, columns)]
    begin = min((data for data, _ in known), default=0)
    size = max((data + length for data, length in known), default=0) - begin
    if size > sum(length for _, length in known) + _ROOM:
        size = 0
    return _Layout([form and (form[0], form[1], form[2] - begin) for form in columns], begin, size)


@functools.lru_cache(maxsize=64)
def _keys(names: bytes) -> Dict[str, int]:
    """The names of columns, each followed by a zero, with their numbers; not to be changed."""
    return {name.decode(): number for number, name in enumerate(names.split(b"\0")[:-1])}


class _Rows(Memory):
    """Those of a batch, which all that is made of them holds."""

    def __init__(self, pointer: int) -> None:
        super().__init__(pointer, library().millrace_batch_free)

    def bytes_at(self, data: int, size: int) -> Any:
        """That memory, for NumPy: an array that is made of it holds it, and it holds the rows."""
        memory: Any = (ctypes.c_char * size).from_address(data)
        memory.rows = self
        return memory


class _Tensors:
    """Where the columns of a batch lie: asked for one by one, or in one call by a program that reads many."""

    __slots__ = ("rows", "num_rows", "_num_columns", "_num_asked", "_all", "_layout", "_memory")

    def __init__(self, rows: _Rows, num_rows: int, num_columns: int) -> None:
        self.rows = rows
        self.num_rows = num_rows
        self._num_columns = num_columns
        self._num_asked = 0
        self._all: Optional[ctypes.Array[Tensor]] = None
        self._layout: Optional[_Layout] = None
        # One array over the memory of all columns, of which to take parts costs a tenth of an array each. The rows
        # must not hold it, as it holds them.
        self._memory: "Optional[NDArray[Any]]" = None

    def tensor(self, number: Optional[int], name: str) -> Tensor:
        """That of a column, or of a struct's field, which has no number. Raises InvalidArgumentError if it is none."""
        if number is not None and (self._all is not None or self._ask()):
            assert self._all is not None
            found: Tensor = self._all[number]
            if found.type:
                return found
        tensor = Tensor(_TENSOR_SIZE)
        call("millrace_batch_tensor", self.rows.pointer, name.encode(), byref(tensor))
        return tensor

    def array(self, number: Optional[int]) -> "Optional[NDArray[Any]]":
        """A column of numbers without nulls where it lies, once all were asked for. None: it takes another way."""
        if self._memory is None and not self._lay_out() or number is None:
            return None
        assert self._layout is not None
        form = self._layout.columns[number]
        return None if form is None else _numpy().ndarray(form[0], form[1], self._memory, form[2])

    def _ask(self) -> bool:
        self._num_asked += 1
        if self._num_asked * _FEW <= self._num_columns:
            return False
        tensors = (Tensor * self._num_columns)()
        tensors[0].struct_size = _TENSOR_SIZE
        call("millrace_batch_tensors", self.rows.pointer, tensors, self._num_columns)
        self._all = tensors
        return True

    def _lay_out(self) -> bool:
        """Makes one array of what was received together, if it pays."""
        if self._all is None or self._layout is not None or self._num_columns < _FEW:
            return False
        np = _numpy()
        words = np.frombuffer(self._all, np.int64).reshape(self._num_columns, -1)[:, _WORDS]
        first = int(words[0, 0])
        words[:, 0] -= first
        self._layout = _layout(words.tobytes())
        if self._layout.size == 0:
            return False
        memory = self.rows.bytes_at(first + self._layout.begin, self._layout.size)
        self._memory = np.ndarray((self._layout.size,), np.uint8, memory)
        return True


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

    __slots__ = ("_tensors", "_number", "name", "__weakref__")

    def __init__(self, tensors: _Tensors, name: str, number: Optional[int]) -> None:
        self._tensors = tensors
        self._number = number  # None: a struct's field
        self.name = name

    def __len__(self) -> int:
        return self._tensors.num_rows

    def __repr__(self) -> str:
        return f"<millrace.Column {self.name!r}: {len(self)} rows of {self.type}>"

    @property
    def _key(self) -> bytes:
        """The name, for the library."""
        return self.name.encode()

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
        return self._tensors.tensor(self._number, self.name)

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
            name = self.type
            if name != "bool" and not self._is_text():
                raise
            return np.array(self._values(), dtype=np.bool_ if name == "bool" else object), True
        self._refuse_nulls(tensor.num_nulls)
        kind, shape, data = tensor.type, tuple(tensor.shape[: tensor.ndim]), tensor.data
        dtype = _dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        array = np.ndarray(shape, dtype, self._rows.bytes_at(data, size)) if data and size else np.empty(shape, dtype)
        days = kind == _DATE32
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
        return _arrow.to_pylist(exported.schema, exported.array, 0, len(self))


class _Values(ValuesView[Column]):
    """Columns in their order, which need not be looked for by name."""

    def __init__(self, batch: "Batch") -> None:
        super().__init__(batch)
        self._batch = batch

    def __iter__(self) -> Iterator[Column]:
        return iter(self._batch._columns())


class _Items(ItemsView[str, Column]):
    """The same with their names."""

    def __init__(self, batch: "Batch") -> None:
        super().__init__(batch)
        self._batch = batch

    def __iter__(self) -> Iterator[Tuple[str, Column]]:
        return iter([(column.name, column) for column in self._batch._columns()])


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
        self._tensors = _Tensors(self._rows, self.num_rows, len(self._names))

    def __getitem__(self, name: str) -> Column:
        number = self._names.get(name)
        column = Column(self._tensors, name, number)
        if number is None:
            column.type  # raises where there is no such field either, naming the columns that there are
        return column

    def values(self) -> ValuesView[Column]:
        return _Values(self)

    def items(self) -> ItemsView[str, Column]:
        return _Items(self)

    def _columns(self) -> List[Column]:
        tensors = self._tensors
        return [Column(tensors, name, number) for name, number in self._names.items()]

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
