"""A feed as a data set of PyTorch: Feed.torch()."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping

import torch.multiprocessing
from torch.utils.data import IterableDataset

from millrace.batch import Batch, Column
from millrace.error import FailedPreconditionError

if TYPE_CHECKING:
    from millrace.feed import Feed

__all__ = ["FeedDataset"]


def _value(column: Column) -> Any:
    return column.to_pylist() if column._is_text() else column.torch()


def _sample(batch: Batch) -> Dict[str, Any]:
    return {name: _value(column) for name, column in batch.items()}


def _serve(feed: "Feed", connection: Any, taken: threading.Event) -> None:
    """Answers each request of a worker with the next batch, with None at the end, or with what was raised."""
    while True:
        try:
            connection.recv()
        except (EOFError, OSError):
            return  # the data set and all of its workers are gone
        taken.set()
        answer: Any
        try:
            batch = feed.next(feed.batch)
            answer = None if batch is None else _sample(batch)
        except Exception as error:  # the worker raises it
            answer = error
        try:
            connection.send(answer)
        except OSError:
            return


class FeedDataset(IterableDataset):  # type: ignore[misc]  # where there is no PyTorch, it is Any
    """Batches as dicts of tensors, and of lists for columns of text.

        for batch in DataLoader(node.feed(batch=256).torch(), batch_size=None): ...

    It has batches already: batch_size=None. It can be read once, and ends when the feed ends; how many epochs that
    is, the driver says. Without workers the tensors are the received memory itself.

    A node has one feed, so the workers of a DataLoader do not read it: they ask this process for batches, each for
    one at a time, which come to them through shared memory. So each batch goes to one of them, and what they do to
    it is done in parallel. Batches that they hold ahead of the loop count as used.
    """

    def __init__(self, feed: "Feed") -> None:
        super().__init__()
        self._feed = feed
        self._process = os.getpid()
        self._taken = threading.Event()  # a worker has had a batch
        mine, self._connection = torch.multiprocessing.Pipe()
        # A byte in it says that no worker has a request under way; a lock would be of forks or of new processes only.
        self._turn, self._turn_over = torch.multiprocessing.Pipe(duplex=False)
        os.write(self._turn_over.fileno(), b".")
        arguments = (feed, mine, self._taken)
        threading.Thread(target=_serve, args=arguments, name="millrace-loader", daemon=True).start()

    def __getstate__(self) -> Dict[str, Any]:
        """For a worker that is no fork."""
        return {**self.__dict__, "_feed": None, "_taken": None}

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return self._ask() if self._in_worker() else map(_sample, self._feed)

    def state_dict(self) -> Dict[str, Any]:
        """Which rows the loop has had, as Feed.state_dict() says. Raises FailedPreconditionError if there are
        workers, since nobody knows which of their batches the loop has had."""
        if self._in_worker() or self._taken.is_set():
            raise FailedPreconditionError(
                "FAILED_PRECONDITION",
                "the workers of a DataLoader hold batches that the loop has not had; read with num_workers=0",
            )
        return self._feed.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Leaves out what was used, as Feed.load_state_dict() says; with workers too, if it is called before the loop
        begins. Raises FailedPreconditionError in a worker, which has no feed."""
        if self._in_worker():
            raise FailedPreconditionError(
                "FAILED_PRECONDITION",
                f"this is a worker of a DataLoader, and the feed is process {self._process}'s: load the state there, "
                "before the loop begins",
            )
        self._feed.load_state_dict(state)

    def _in_worker(self) -> bool:
        return os.getpid() != self._process

    def _ask(self) -> Iterator[Dict[str, Any]]:
        while True:
            turn = os.read(self._turn.fileno(), 1)
            try:
                self._connection.send(None)
                answer = self._connection.recv()
            finally:
                os.write(self._turn_over.fileno(), turn)
            if answer is None:
                return
            if isinstance(answer, Exception):
                raise answer
            yield answer
