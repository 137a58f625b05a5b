"""How a node reads the rows that it is fed, and answers them in inference."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_char_p, c_void_p
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from millrace import _capsule, _library, _pickles, _results
from millrace._arguments import text, whole
from millrace._library import FeedOptions, Handle, call, library
from millrace.batch import Batch
from millrace.error import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from millrace.torch_dataset import FeedDataset

__all__ = ["Columns", "Equal", "Feed", "Mode"]

# Names of columns, or pairs or a mapping (name in the data, name in the program).
Columns = Union[Sequence[str], Sequence[Tuple[str, str]], Mapping[str, str]]

Mode = Literal["train", "inference"]
Equal = Literal["drop", "pad"]

_MODES = ("train", "inference")
_EQUAL = (None, "drop", "pad")


def _column_names(columns: Columns) -> List[Tuple[str, str]]:
    if isinstance(columns, str):
        raise InvalidArgumentError("INVALID_ARGUMENT", f"columns={columns!r}; give a list of names")
    given = columns.items() if isinstance(columns, Mapping) else columns
    return [(each, each) if isinstance(each, str) else (each[0], each[1]) for each in given]


class Feed(Iterator[Batch]):
    """An iterator of batches. It ends when the driver has ended the feed, or the node is asked to stop.

    Asking for the next batch says that the one before has been used: it is acknowledged, and not fed again
    should this program die. One thread reads; another may call results(). While it waits for rows, other
    threads of the program run. Node.feed() makes it.
    """

    def __init__(
        self,
        node: Handle,
        cluster_id: str,
        batch: int,
        mode: Mode,
        queue: str,
        columns: Optional[Columns],
        equal: Optional[Equal] = None,
    ) -> None:
        if mode not in _MODES:
            raise InvalidArgumentError("INVALID_ARGUMENT", f'mode={mode!r}; it is "train" or "inference"')
        batch = whole("batch", batch)
        if batch < 1:
            raise InvalidArgumentError("INVALID_ARGUMENT", f"batch={batch}; a batch has at least 1 row")
        if equal not in _EQUAL:
            raise InvalidArgumentError("INVALID_ARGUMENT", f'equal={equal!r}; it is "drop", "pad" or None')
        pairs = _column_names(columns) if columns is not None else []
        if columns is not None and not pairs:
            raise InvalidArgumentError("INVALID_ARGUMENT", "columns is empty; None takes all columns")
        texts = c_char_p * len(pairs)
        options = FeedOptions(
            ctypes.sizeof(FeedOptions), int(mode == "inference"), text("queue", queue),
            texts(*[text("a column", column) for column, _ in pairs]), len(pairs),
            texts(*[text("a column's name", name) for _, name in pairs]),
        )  # fmt: skip
        if equal is not None:
            options.equal, options.batch_rows = _EQUAL.index(equal), batch
        feed = c_void_p()
        with node as pointer:
            call("millrace_feed_open", pointer, byref(options), byref(feed))
        assert feed.value is not None
        self._handle = Handle(feed.value, library().millrace_feed_close, "the feed")
        self._cluster_id = cluster_id
        self.batch = batch
        self.mode = mode
        self.equal = equal

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> Batch:
        batch = self.next(self.batch)
        if batch is None:
            raise StopIteration
        return batch

    def next(self, rows: int, most: Optional[int] = None) -> Optional[Batch]:
        """The next `rows` rows; fewer at the end of a Train call, or of a partition in inference, whose results are
        due before more is asked for. None at the end. With `equal` it has to be as many as the feed was opened for.

        most: for programs that use few rows at a time, and keep what they have not used: a multiple of `rows` rows, up
        to so many, if they have been received. It never waits for more than `rows`."""
        batch = c_void_p()
        least = whole("rows", rows)
        with self._handle as pointer:
            call(
                "millrace_feed_next_up_to", pointer, least, least if most is None else whole("most", most), byref(batch)
            )
        return Batch(batch.value) if batch.value else None

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """For whatever reads Arrow streams (`pyarrow.RecordBatchReader.from_stream(feed)`): waits for the first
        batch, which says what the columns are. The stream may outlive the feed."""

        def fill(stream: int) -> None:
            with self._handle as pointer:
                call("millrace_feed_stream", pointer, self.batch, stream)

        return _capsule.stream_capsule(fill)

    def torch(self) -> "FeedDataset":
        """The batches as an IterableDataset of PyTorch, for a DataLoader with batch_size=None."""
        from millrace.torch_dataset import FeedDataset

        return FeedDataset(self)

    def state_dict(self) -> Dict[str, Any]:
        """Training: which rows this program has been given of the Train call that it reads, the last batch among
        them, for a checkpoint. It is made of dicts, lists, texts and numbers."""
        position = c_void_p()
        with self._handle as pointer:
            call("millrace_feed_position", pointer, byref(position))
        return {"cluster": self._cluster_id, **json.loads(_library.take_text(position))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Training, before the first batch: the rows of `state` are left out, and count as used. Load the states of
        all nodes, one after another: what one node had read may come to any of them now. In a new cluster they hold
        for the first Train call, which has to feed the same rows in the same partitions. Raises
        FailedPreconditionError if a batch was read."""
        if not isinstance(state, Mapping) or not {"cluster", "feed", "rows"} <= set(state):
            raise InvalidArgumentError("INVALID_ARGUMENT", f"{state!r} is no state; load what state_dict() returned")
        feed = state["feed"] if state["cluster"] == self._cluster_id else ""
        with self._handle as pointer:
            call("millrace_feed_resume", pointer, json.dumps({"feed": feed, "rows": state["rows"]}).encode())

    @property
    def should_stop(self) -> bool:
        """No rows will come any more. Seeing True acknowledges the last batch."""
        with self._handle as pointer:
            return bool(library().millrace_feed_should_stop(pointer))

    def results(self, results: Any) -> None:
        """Inference: the results of the next rows, one for each, in the order in which batches brought them.

        A dict of columns (arrays of NumPy, tensors, lists, columns of the batch), or whatever speaks Arrow:
        a record batch, a table. Blocks while the driver does not take them. Raises FailedPreconditionError
        for more results than rows, InvalidArgumentError for columns of several lengths, or of other types
        than those of the results before.
        """
        self._refuse_training()
        for schema, array in _results.structs_of(results):
            with self._handle as pointer:
                call("millrace_feed_results", pointer, byref(schema), byref(array))

    def object_results(self, objects: Iterable[Any]) -> None:
        """The same for an RDD of Python objects, whose results are any Python objects that can be pickled."""
        self._refuse_training()
        pickled = _pickles.dumps(objects)
        if pickled:
            self.results({_pickles.COLUMN: pickled})

    def _refuse_training(self) -> None:
        if self.mode != "inference":
            raise FailedPreconditionError(
                "FAILED_PRECONDITION", 'this feed trains; results go to one that is opened with mode="inference"'
            )

    def terminate(self) -> None:
        """The program wants no more rows; what it was given counts as used. Raises FailedPreconditionError if
        inference rows are without results; they fail at the driver."""
        with self._handle as pointer:
            call("millrace_feed_terminate", pointer)

    def close(self) -> None:
        """Batches stay valid."""
        self._handle.close()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
