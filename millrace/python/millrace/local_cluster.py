"""A cluster that this process drives, on this machine or on agents that listen elsewhere."""

from __future__ import annotations

import ctypes
import json
import re
import weakref
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from millrace import _defaults, _driver_library, _library
from millrace._arguments import count, text
from millrace._capsule import ArrowArrayStream
from millrace._driver_library import (
    ON_FAILURE,
    ON_METRIC,
    ON_OUTPUT,
    ON_RESTART,
    ON_SLOT,
    FeedCall,
    Failure,
    Restart,
    Shutdown,
    Slot,
    Trained,
    driver_library,
)
from millrace._interrupt import interruptible
from millrace._library import Handle
from millrace._local_options import c_options, ms
from millrace.cluster import Cluster, TrainResult
from millrace.error import MillraceError
from millrace.inference import InferenceResult
from millrace.options import (
    ClusterObserver,
    FeedOptions,
    InputMode,
    NodeInfo,
    NodeProgram,
    NodeRestart,
    Program,
    local_options,
    local_program,
)
from millrace.source import source_of

__all__ = ["LocalCluster", "start_here"]

_PARTITIONS_PER_NODE = 4  # of one table: who is faster takes more of them
_FED_JOBS = ("chief", "master", "worker")


def _equal_nodes(result: Trained) -> Dict[str, Tuple[int, int]]:
    if not result.equal_nodes:
        return {}
    nodes = json.loads(_library.take_text(c_void_p(result.equal_nodes)))
    return {each["node"]: (each["dropped_rows"], each["repeated_rows"]) for each in nodes}


def _end_of(failure: Failure) -> Dict[str, Any]:
    """Of a node: its name, its end and its last words."""
    lines = [failure.stderr_lines[i].decode("utf-8", "replace") for i in range(failure.num_stderr_lines)]
    return {
        "node": failure.node.decode(),
        "exit_status": failure.exit_status.decode(),
        "stderr_lines": tuple(lines),
    }


def _node_info(slot: Slot) -> NodeInfo:
    return NodeInfo(
        slot.executor_id,
        slot.job_name.decode(),
        slot.task_index,
        slot.state.decode(),
        slot.attempt,
        slot.host.decode(),
        slot.address.decode(),
        slot.pid,
    )


class _Listener:
    """What the library calls, from threads of its own."""

    def __init__(self, observer: ClusterObserver) -> None:
        self.failure: Dict[str, Any] = {}
        on_output, on_metric = observer.on_output, observer.on_metric
        on_restart, on_slot = observer.on_restart, observer.on_slot

        def output(node: bytes, line: bytes, _: Any) -> None:
            assert on_output is not None
            on_output(node.decode(), line.decode("utf-8", "replace"))

        def metric(node: bytes, name: bytes, step: int, value: float, _: Any) -> None:
            assert on_metric is not None
            on_metric(node.decode(), name.decode("utf-8", "replace"), step, value)

        def restart(heard: Any, _: Any) -> None:
            assert on_restart is not None
            told: Restart = heard.contents
            failed: Failure = told.failure.contents
            times = {"after": told.after_ms / 1000.0, "used": told.used, "max": told.max}
            on_restart(NodeRestart(attempt=failed.attempt, **_end_of(failed), **times))

        def slot(heard: Any, _: Any) -> None:
            assert on_slot is not None
            on_slot(_node_info(heard.contents))

        def fail(failure: Any, _: Any) -> None:
            self.failure = _end_of(failure.contents)

        self.output = ON_OUTPUT(output) if on_output else ON_OUTPUT()
        self.metric = ON_METRIC(metric) if on_metric else ON_METRIC()
        self.restart = ON_RESTART(restart) if on_restart else ON_RESTART()
        self.slot = ON_SLOT(slot) if on_slot else ON_SLOT()
        self.fail = ON_FAILURE(fail)

    def explain(self, error: MillraceError) -> None:
        """Adds the node that caused it."""
        # "worker:1" is not meant by "worker:10", nor by "my-worker:1".
        node = self.failure.get("node")
        if node and re.search(rf"(?<![\w-]){re.escape(node)}(?!\w)", error.message):
            vars(error).update(self.failure)


class _Stop(Handle):
    """Ends what it is given to."""

    def __init__(self) -> None:
        super().__init__(driver_library().millrace_stop_new(), driver_library().millrace_stop_free, "the stop")

    def request(self, now: bool) -> None:
        with self as pointer:
            driver_library().millrace_stop_request(pointer, b"interrupted", int(now))


def _end(handle: Handle) -> None:
    """What was not shut down."""
    try:
        with handle as pointer:
            driver_library().millrace_cluster_stop(pointer, b"the driver has closed the cluster", 1)
    except MillraceError:
        return  # it is closed
    handle.close()


class LocalCluster(Cluster):
    """A cluster that this process drives, on this machine or, with the option `agents`, elsewhere: Cluster.run makes
    it.

    Ctrl-C (and a notebook's stop) ends the call that is under way, and nothing else: the cluster can be fed again;
    while it starts or shuts down, it ends the cluster.
    """

    def __init__(self, handle: Handle, listener: _Listener, program: NodeProgram, options: Mapping[str, Any]) -> None:
        self._handle = handle
        self._listener = listener
        self._finalizer = weakref.finalize(self, _end, handle)
        nodes = self.cluster_info
        self._num_fed = sum(node.job_name in _FED_JOBS for node in nodes)
        with handle as pointer:
            super().__init__(
                program,
                driver_library().millrace_cluster_id(pointer).decode(),
                driver_library().millrace_cluster_address(pointer).decode(),
                len(nodes),
                InputMode(options.get("input_mode", InputMode.DIRECT)),
                options.get("feed", FeedOptions()).queues or _defaults.QUEUES,
            )

    # ---- feeding --------------------------------------------------------------------------------------------

    def train(
        self,
        data: Any,
        num_epochs: int = _defaults.NUM_EPOCHS,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
        end_of_feed: bool = _defaults.END_OF_FEED,
        *,
        num_partitions: Optional[int] = None,
        batch_bytes: int = _defaults.BATCH_BYTES,
    ) -> TrainResult:
        """Feeds every row, num_epochs times; returns when programs have used them all, or stopped reading.

        data: a table of Arrow (or a RecordBatchReader, or whatever has `__arrow_c_stream__`: Polars, DuckDB) or of
        pandas (whose index is not fed), a dict of columns, an iterator of dicts; these are divided into
        num_partitions, of which nodes take one after the other. Or a list of tables, each a partition; or a Source,
        which is read while it is fed. end_of_feed: the queue ends with this call; the programs may serve inference on
        it then.
        """
        num_epochs = count("num_epochs", num_epochs)
        source = source_of(data, num_partitions, self._default_partitions)
        result = Trained(ctypes.sizeof(Trained))

        def feed(pointer: int, call: FeedCall) -> None:
            call.num_epochs, call.end_of_feed = num_epochs, int(end_of_feed)
            with source as rows:
                _driver_library.call("millrace_cluster_train", pointer, rows, byref(call), byref(result))

        self._feed(feed, feed_timeout, queue, batch_bytes, _Stop())
        return TrainResult(
            result.rows,
            result.rows_refed,
            bool(result.exactly_once),
            bool(result.terminated),
            result.elapsed_ms / 1000.0,
            result.dropped_rows,
            result.repeated_rows,
            _equal_nodes(result),
        )

    def inference(
        self,
        data: Any,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
        *,
        num_partitions: Optional[int] = None,
        batch_bytes: int = _defaults.BATCH_BYTES,
    ) -> InferenceResult:
        """Feeds every row of `data`, as train() does, and returns the nodes' results: one for each, in order, as they
        come. Waits for the first."""
        source = source_of(data, num_partitions, self._default_partitions)
        stream = ArrowArrayStream()
        stop = _Stop()
        result = InferenceResult(stream, source, stop.request, self._call)

        def feed(pointer: int, call: FeedCall) -> None:
            with source as rows:
                _driver_library.call("millrace_cluster_inference", pointer, rows, byref(call), byref(stream))

        try:
            self._feed(feed, feed_timeout, queue, batch_bytes, stop)
        except BaseException:
            result.close()
            raise
        return result

    @property
    def _default_partitions(self) -> int:
        return _PARTITIONS_PER_NODE * max(1, self._num_fed)

    def _feed(
        self,
        feed: Callable[[int, FeedCall], None],
        feed_timeout: Optional[float],
        queue: str,
        batch_bytes: int,
        stop: _Stop,
    ) -> None:
        wait_ms, queue_name = ms("feed_timeout", feed_timeout), text("queue", queue)
        batch_bytes = count("batch_bytes", batch_bytes)

        def run() -> None:
            with stop as stop_pointer, self._handle as pointer:
                call = FeedCall(struct_size=ctypes.sizeof(FeedCall), stop=stop_pointer)
                call.feed_timeout_ms, call.batch_bytes = wait_ms, batch_bytes
                call.queue = queue_name
                feed(pointer, call)

        self._call(run, stop.request)

    def _call(self, run: Callable[[], None], stop: Callable[[bool], None]) -> None:
        try:
            interruptible(run, stop)
        except MillraceError as error:
            self._listener.explain(error)
            raise

    def end_feed(self, queue: str = _defaults.QUEUE) -> None:
        with self._handle as pointer:
            _driver_library.call("millrace_cluster_end_feed", pointer, text("queue", queue))

    # ---- the end --------------------------------------------------------------------------------------------

    def shutdown(
        self, *, grace: Optional[float] = _defaults.GRACE, timeout: Optional[float] = _defaults.TIMEOUT
    ) -> None:
        options = Shutdown(ctypes.sizeof(Shutdown), ms("grace", grace), ms("timeout", timeout))

        def run() -> None:
            with self._handle as pointer:
                _driver_library.call("millrace_cluster_shutdown", pointer, byref(options))

        self._call(run, lambda now: self.stop("interrupted", now))

    def stop(self, reason: str = "stopped", now: bool = False) -> None:
        """Asks every node to end (now: kills them); calls under way raise CancelledError with the reason. Does not
        wait: shutdown() does."""
        with self._handle as pointer:
            driver_library().millrace_cluster_stop(pointer, reason.encode(), int(now))

    def close(self) -> None:
        self._finalizer()

    @property
    def closed(self) -> bool:
        return self._handle.closed

    # ---- what there is --------------------------------------------------------------------------------------

    def _text_of(self, function: str) -> str:
        told = c_void_p()
        with self._handle as pointer:
            _driver_library.call(function, pointer, byref(told))
        return _library.take_text(told)

    @property
    def cluster_info(self) -> List[NodeInfo]:
        return [NodeInfo(**node) for node in json.loads(self._text_of("millrace_cluster_nodes"))]

    @property
    def cluster_spec(self) -> Dict[str, Any]:
        spec: Dict[str, Any] = json.loads(self._text_of("millrace_cluster_spec"))
        return spec

    @property
    def tensorboard_url(self) -> str:
        return self._text_of("millrace_cluster_tensorboard_url")


def start_here(program: Program, num_executors: Optional[int] = None, **options: Any) -> LocalCluster:
    """Cluster.run(program, ...)."""
    given = local_options(options)
    if num_executors is not None:
        num_executors = count("num_executors", num_executors)
    node_program = local_program(program, given.pop("args", ()))
    listener = _Listener(given.pop("observer", ClusterObserver()))
    made_of = c_options(node_program, num_executors, given)
    hears = made_of.observer
    hears.on_output, hears.on_metric, hears.on_restart = listener.output, listener.metric, listener.restart
    hears.on_slot, hears.on_failure = listener.slot, listener.fail
    stop = _Stop()

    def start() -> LocalCluster:
        made = c_void_p()
        with stop as pointer:
            made_of.stop = pointer
            _driver_library.call("millrace_cluster_run", byref(made_of), byref(made))
        assert made.value is not None
        handle = Handle(made.value, driver_library().millrace_cluster_free, "the cluster")
        return LocalCluster(handle, listener, node_program, given)

    try:
        return interruptible(start, stop.request)
    except MillraceError as error:
        listener.explain(error)
        raise
