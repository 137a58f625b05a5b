"""Where the rows of a call come from."""

from __future__ import annotations

import ctypes
import itertools
import os
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from millrace import _capsule, _driver_library
from millrace._arguments import count
from millrace._capsule import ArrowArrayStream
from millrace._driver_library import OPEN_PARTITION, driver_library
from millrace._library import ArrowArray, ArrowSchema, Handle, library
from millrace._results import Builder
from millrace.error import InvalidArgumentError, MillraceError, code_of

__all__ = ["Source"]

_UNKNOWN = 2
_STREAM_SIZE = ctypes.sizeof(ArrowArrayStream)


class Source:
    """Partitions that are opened when they are fed, and not all in memory.

        Source(lambda partition, epoch: pyarrow.parquet.read_table(files[partition]), len(files))

    `open(partition, epoch)` returns a table with that partition's rows (of Arrow, pandas, a dict of columns),
    or a stream of them, such as pyarrow's RecordBatchReader. It is called from any thread, in every epoch, and
    again after the death of a node. `deterministic`: equal arguments mean equal rows in equal order; only then
    does training go on in the middle of a partition.
    """

    def __init__(
        self, open: Callable[[int, int], Any], num_partitions: int, deterministic: bool = False
    ) -> None:
        self.open = open
        self.num_partitions = num_partitions
        self.deterministic = deterministic


def _is_table(data: Any) -> bool:
    return (
        hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or isinstance(data, Mapping)
        or _is_pandas(data)
    )


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "columns") and any(
        kind.__module__.split(".")[0] == "pandas" for kind in type(data).__mro__
    )


def _no_table(data: Any) -> InvalidArgumentError:
    kind = type(data).__name__
    if hasattr(data, "_jdf"):
        what = f"a {kind} of Spark: run the cluster on Spark, Cluster.run(spark, program)"
    elif isinstance(data, (str, bytes, os.PathLike)):
        what = f"{data!r} is no table; read it: pyarrow.parquet.read_table({data!r})"
    else:
        what = (
            f"{kind} is no table; give one of Arrow, Polars, DuckDB or pandas, a dict of columns, a list of these "
            "(each is a partition), or an iterator of dicts"
        )
    return InvalidArgumentError("INVALID_ARGUMENT", what)


def _fill_from_columns(columns: Mapping[str, Any], stream: int) -> None:
    builder = Builder("data")
    for name, values in columns.items():
        builder.add(str(name), values)
    schema, array = ArrowSchema(), ArrowArray()
    builder.finish(schema, array)
    _driver_library.call("millrace_stream_of_batch", byref(schema), byref(array), stream)


def _columns_of_pandas(frame: Any) -> Dict[str, Any]:
    """Without Arrow."""
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if getattr(values.dtype, "kind", "O") in "biufM":
            columns[str(name)] = values.to_numpy()
        else:
            columns[str(name)] = values.astype(object).where(values.notna(), None).tolist()
    return columns


def _table_of_pandas(frame: Any) -> Any:
    """Without the index, of which a frame's own stream makes a column unless it just counts."""
    try:
        import pyarrow as pa
    except ImportError:
        return _columns_of_pandas(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table if hasattr(table, "__arrow_c_stream__") else _columns_of_pandas(frame)


def fill_stream(table: Any, stream: int) -> None:
    """Fills the ArrowArrayStream at that address with the rows of a table."""
    if _is_pandas(table):
        table = _table_of_pandas(table)
    if hasattr(table, "__arrow_c_stream__"):
        capsule = table.__arrow_c_stream__()
        _capsule.move(ArrowArrayStream, _capsule.address_of(capsule, b"arrow_array_stream"), stream)
    elif hasattr(table, "__arrow_c_array__"):
        schema, array = table.__arrow_c_array__()
        _driver_library.call(
            "millrace_stream_of_batch",
            _capsule.address_of(schema, b"arrow_schema"),
            _capsule.address_of(array, b"arrow_array"),
            stream,
        )
    elif isinstance(table, Mapping):
        _fill_from_columns(table, stream)
    else:
        raise _no_table(table)


def _column_of(values: List[Any]) -> Any:
    """Numbers and arrays of NumPy in rows as one array."""
    present = [value for value in values if value is not None]
    if len(present) < len(values) or not values or type(values[0]).__module__.split(".")[0] != "numpy":
        return values
    import numpy as np

    try:
        return np.stack(values)
    except ValueError:
        return values  # of several shapes: the builder says so


def _columns_of_rows(rows: Iterable[Any]) -> Dict[str, Any]:
    columns: Dict[str, List[Any]] = {}
    count = 0
    for row in rows:
        if not isinstance(row, Mapping):
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", f"row {count} is a {type(row).__name__}; each is to be a dict, as the first is"
            )
        for name in row:
            if name not in columns:
                columns[name] = [None] * count
        for name, values in columns.items():
            values.append(row.get(name))
        count += 1
    return {name: _column_of(values) for name, values in columns.items()}


def _handle(pointer: c_void_p) -> Handle:
    assert pointer.value is not None
    return Handle(pointer.value, driver_library().millrace_source_free, "the source")


def _from_function(source: Source) -> Handle:
    def open_partition(partition: int, epoch: int, _: Any, stream: int, error: Any) -> int:
        try:
            fill_stream(source.open(partition, epoch), stream)
        except BaseException as why:  # it must not pass through C
            text = why.message if isinstance(why, MillraceError) else f"{type(why).__name__}: {why}"
            code = code_of(why) if isinstance(why, MillraceError) else _UNKNOWN
            return int(library().millrace_error_set(error, code, text.encode("utf-8", "replace")))
        return 0

    callback = OPEN_PARTITION(open_partition)
    made = c_void_p()
    _driver_library.call(
        "millrace_source_from_function",
        source.num_partitions, callback, None, int(source.deterministic), byref(made),
    )  # fmt: skip
    handle = _handle(made)
    handle.callback = callback  # type: ignore[attr-defined]  # it lives as long as the source
    return handle


def _from_partitions(tables: Sequence[Any]) -> Handle:
    streams = (ArrowArrayStream * len(tables))()
    address = ctypes.addressof(streams)
    filled = 0
    try:
        for i, table in enumerate(tables):
            fill_stream(table, address + i * _STREAM_SIZE)
            filled += 1
    except BaseException:
        for stream in streams[:filled]:
            ctypes.CFUNCTYPE(None, c_void_p)(stream.release)(ctypes.addressof(stream))
        raise
    made = c_void_p()
    _driver_library.call("millrace_source_from_memory", address, len(tables), byref(made))
    return _handle(made)


def _from_table(table: Any, num_partitions: int) -> Handle:
    stream = ArrowArrayStream()
    fill_stream(table, ctypes.addressof(stream))
    made = c_void_p()
    _driver_library.call("millrace_source_split", byref(stream), num_partitions, byref(made))
    return _handle(made)


def source_of(data: Any, num_partitions: Optional[int], default_partitions: int) -> Handle:
    """The library's source of whatever `train` and `inference` take."""
    if num_partitions is not None:
        num_partitions = count("num_partitions", num_partitions)
    if _is_table(data):
        return _from_table(data, num_partitions or default_partitions)
    if isinstance(data, (str, bytes, os.PathLike)) or not isinstance(data, (Source, Iterable)):
        raise _no_table(data)
    tables: List[Any] = []
    if not isinstance(data, Source):
        items = iter(data)
        first = next(items, None)
        if first is None:
            raise InvalidArgumentError("INVALID_ARGUMENT", "the data has neither a row nor a table")
        items = itertools.chain([first], items)
        if isinstance(first, Mapping) and not hasattr(first, "__arrow_c_array__"):
            return _from_table(_columns_of_rows(items), num_partitions or default_partitions)
        tables = list(items)
    if num_partitions is not None:
        raise InvalidArgumentError("INVALID_ARGUMENT", "num_partitions= is for one table; this data has partitions")
    return _from_function(data) if isinstance(data, Source) else _from_partitions(tables)
