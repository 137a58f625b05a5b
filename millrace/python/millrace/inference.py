"""What nodes answered."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from millrace import _arrow, _capsule
from millrace._capsule import ArrowArrayStream, ArrowStream
from millrace._library import ArrowArray, ArrowSchema
from millrace.error import FailedPreconditionError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["InferenceResult"]

_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class InferenceResult:
    """One row of results for each row of the data, in its order; all are in memory, with or without the cluster.

    A stream to whatever speaks Arrow (`polars.DataFrame(result)`), and an iterator of pyarrow's record batches.
    It is read once, as a RecordBatchReader is; keep what `table()` returns.
    """

    def __init__(self, stream: ArrowArrayStream) -> None:
        self._stream = stream  # its owner
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<millrace.InferenceResult{'' if self._stream.release else ', which was read'}>"

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        with self._lock:
            if not self._stream.release:
                raise FailedPreconditionError(
                    "FAILED_PRECONDITION", "these results were read already; keep what table() returned"
                )
            source = ctypes.addressof(self._stream)
            return _capsule.stream_capsule(lambda target: _capsule.move(ArrowArrayStream, source, target))

    def reader(self) -> "pyarrow.RecordBatchReader":
        """As pyarrow's reader of record batches."""
        import pyarrow

        if hasattr(pyarrow.RecordBatchReader, "from_stream"):
            return pyarrow.RecordBatchReader.from_stream(self)
        capsule = self.__arrow_c_stream__()  # pyarrow before 15
        return pyarrow.RecordBatchReader._import_from_c(_capsule.address_of(capsule, b"arrow_array_stream"))

    def __iter__(self) -> "Iterator[pyarrow.RecordBatch]":
        return iter(self.reader())

    def table(self) -> "pyarrow.Table":
        """As one table of pyarrow."""
        return self.reader().read_all()

    def to_pylist(self) -> List[Dict[str, Any]]:
        """A dict for each row, without pyarrow."""
        stream = ArrowStream(self.__arrow_c_stream__())
        rows: List[Dict[str, Any]] = []
        while True:
            schema, array = ArrowSchema(), ArrowArray()
            if not stream.next(schema, array):
                return rows
            try:
                rows.extend(_arrow.to_pylist(schema, array, 0, array.length))
            finally:
                for struct in (schema, array):
                    _RELEASE(struct.release)(ctypes.addressof(struct))

    def __del__(self) -> None:
        if self._stream.release:
            _RELEASE(self._stream.release)(ctypes.addressof(self._stream))
