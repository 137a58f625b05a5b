"""What nodes answer."""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import addressof, c_int, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

from millrace import _arrow, _capsule, _driver_library
from millrace._capsule import ArrowArrayStream
from millrace._library import ArrowArray, ArrowSchema, Handle
from millrace.error import FailedPreconditionError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["InferenceResult"]

_RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
_GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)


def _release(struct: Any) -> None:
    if struct.release:
        _RELEASE(struct.release)(addressof(struct))


def _release_stream(stream: ArrowArrayStream, source: Handle, _: int) -> None:
    """The source has what the library calls until then."""
    _release(stream)
    source.close()


class InferenceResult(Iterator["pyarrow.RecordBatch"]):
    """One row of results for each row of the data, in its order, as they come: rows are fed while results are read.

        for batch in cluster.inference(data):     # of pyarrow; in bounded memory
            ...

    An iterator of record batches, a stream to whatever speaks Arrow (`polars.DataFrame(result)`), or all at once:
    `table()`, `to_pylist()`. It is read once, and ends with the cluster. Results that nobody reads keep the nodes from
    answering another call: read them, or `close()` them, as the end of a `with` does. An error of the cluster is
    raised where it strikes, and stays.
    """

    def __init__(
        self,
        stream: ArrowArrayStream,
        source: Handle,
        stop: Callable[[bool], None],
        call: Callable[[Callable[[], None], Callable[[bool], None]], None],
    ) -> None:
        free = functools.partial(_release_stream, stream, source)
        self._stream = Handle(addressof(stream), free, "the inference")
        self._calls_python = hasattr(source, "callback")
        self._stop = stop  # ends a read under way
        self._call = call  # runs one, so that Ctrl-C ends it
        self._reading = threading.Lock()
        self._was_read = False
        self._was_given_away = False

    def __repr__(self) -> str:
        read = self._was_read or self._was_given_away
        what = ", which was read" if read else ", closed" if self._stream.closed else ""
        return f"<millrace.InferenceResult{what}>"

    # ---- reading --------------------------------------------------------------------------------------------

    def __iter__(self) -> "InferenceResult":
        self._refuse_again()
        return self

    def __next__(self) -> "pyarrow.RecordBatch":
        import pyarrow

        array, schema = ArrowArray(), ArrowSchema()
        if not self._read(lambda: self._next(addressof(array), addressof(schema))):
            raise StopIteration
        return pyarrow.RecordBatch._import_from_c(addressof(array), addressof(schema))

    def table(self) -> "pyarrow.Table":
        """As one table of pyarrow: what was not read before."""
        import pyarrow

        self._refuse_again()
        schema = self._schema()
        batches: List[pyarrow.RecordBatch] = []
        array = ArrowArray()

        def take_all() -> bool:
            while self._next(addressof(array)):
                batches.append(pyarrow.RecordBatch._import_from_c(addressof(array), schema))
            return False

        self._read(take_all)
        return pyarrow.Table.from_batches(batches, schema)

    def to_pylist(self) -> List[Dict[str, Any]]:
        """A dict for each row, without pyarrow."""
        self._refuse_again()
        rows: List[Dict[str, Any]] = []
        array, schema = ArrowArray(), ArrowSchema()
        self._fill_schema(addressof(schema))

        def take_all() -> bool:
            while self._next(addressof(array)):
                try:
                    rows.extend(_arrow.to_pylist(schema, array, 0, array.length))
                finally:
                    _release(array)
            return False

        try:
            self._read(take_all)
        finally:
            _release(schema)
        return rows

    def reader(self) -> "pyarrow.RecordBatchReader":
        """As pyarrow's reader of record batches, which raises what this does."""
        import pyarrow

        self._refuse_again()
        return pyarrow.RecordBatchReader.from_batches(self._schema(), self)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """For whatever reads Arrow streams, which ends the inference when it releases this one."""
        self._refuse_again()
        return _capsule.stream_capsule(self._give_away)

    def _give_away(self, target: int) -> None:
        """Fills the ArrowArrayStream at that address. A consumer may hold the GIL while it waits for rows that a
        Source of Python is to give: Arrow's stream calls back here, where others get it."""
        try:
            import pyarrow
        except ImportError:
            if self._calls_python:
                raise FailedPreconditionError(
                    "FAILED_PRECONDITION",
                    "the results of a Source become a stream of Arrow by pyarrow, which is not installed; "
                    "call to_pylist()",
                ) from None
            _capsule.move(ArrowArrayStream, self._stream.take(0.0), target)
        else:
            pyarrow.RecordBatchReader.from_batches(self._schema(), self)._export_to_c(target)
        self._was_given_away = True

    def _refuse_again(self) -> None:
        if self._was_read or self._was_given_away:
            raise FailedPreconditionError(
                "FAILED_PRECONDITION", "these results were read already; keep what table() returned"
            )

    def _read(self, take: Callable[[], bool]) -> bool:
        """What `take` returns; False at the end."""
        taken = False

        def run() -> None:
            nonlocal taken
            taken = take()

        with self._reading:
            if not self._was_read:
                self._call(run, self._stop)
                self._was_read = not taken
        return taken

    def _next(self, array: int, schema: Optional[int] = None) -> bool:
        """Fills the structs at these addresses; False at the end. The array is the caller's to release."""
        with self._stream as stream:
            failed = _GET(ArrowArrayStream.from_address(stream).get_next)(stream, array)
            if failed:
                _driver_library.call("millrace_stream_error", stream)
            if not ArrowArray.from_address(array).release:
                return False
        if schema is not None:
            self._fill_schema(schema)
        return True

    def _fill_schema(self, schema: int) -> None:
        with self._stream as stream:
            _GET(ArrowArrayStream.from_address(stream).get_schema)(stream, schema)  # it is there since the first batch

    def _schema(self) -> "pyarrow.Schema":
        import pyarrow

        schema = ArrowSchema()
        self._fill_schema(addressof(schema))
        return pyarrow.Schema._import_from_c(addressof(schema))

    # ---- the end --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the inference: what was not read is given up, and nodes can be fed again. Ends a read under way too.
        Batches stay valid."""
        if not self._stream.closed:
            self._stop(False)
        self._stream.close()

    def __enter__(self) -> "InferenceResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
