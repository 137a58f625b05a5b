"""A cluster of node programs, from a driver's point of view."""

from __future__ import annotations

import ctypes
import dataclasses
import html
import json
import weakref
from ctypes import byref, c_char_p, c_void_p
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from millrace import _driver_library, _library
from millrace._capsule import ArrowArrayStream
from millrace._driver_library import (
    ON_FAILURE, ON_LOG, ON_METRIC, FeedCall, Failure, Options, Shutdown, Trained, Variable, driver_library,
)  # fmt: skip
from millrace._interrupt import interruptible
from millrace._library import Handle
from millrace.error import InvalidArgumentError, MillraceError
from millrace.inference import InferenceResult
from millrace.options import InputMode, Program, local_program
from millrace.source import source_of

__all__ = ["Cluster", "NodeInfo", "TrainResult"]

_THREE_DAYS = 259_200.0
_PARTITIONS_PER_NODE = 4  # of one table: who is faster takes more of them


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What became of a train call."""

    rows: int  # acknowledged by programs, over all epochs
    refed_rows: int  # fed again although a node had them: perhaps used twice
    exactly_once: bool  # it is known that every row was delivered exactly once
    terminated: bool  # every program stopped reading before the end


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """One node of a cluster, as it was when it was asked for."""

    executor_id: int
    job_name: str
    task_index: int
    state: str  # "running"
    attempt: int
    host: str
    address: str  # "host:port", its reserved port
    pid: int  # 0 if it does not run

    @property
    def name(self) -> str:
        """ "worker:1" """
        return f"{self.job_name}:{self.task_index}"


def _ms(seconds: Optional[float]) -> int:
    """None is forever. Zero is the library's default, so that the least is 1."""
    return -1 if seconds is None else max(1, round(seconds * 1000))


def _text(value: Optional[object]) -> Optional[bytes]:
    return None if value is None else str(value).encode()


class _Listener:
    """What the library calls, from threads of its own."""

    def __init__(
        self,
        on_log: Optional[Callable[[str, str], object]],
        on_metric: Optional[Callable[[str, str, int, float], object]],
    ) -> None:
        self.failure: Dict[str, Any] = {}

        def log(node: bytes, line: bytes, _: Any) -> None:
            assert on_log is not None
            on_log(node.decode(), line.decode("utf-8", "replace"))

        def metric(node: bytes, name: bytes, step: int, value: float, _: Any) -> None:
            assert on_metric is not None
            on_metric(node.decode(), name.decode("utf-8", "replace"), step, value)

        def fail(failure: Any, _: Any) -> None:
            told: Failure = failure.contents
            self.failure = {
                "node": told.node.decode(),
                "exit_status": told.exit_status.decode(),
                "stderr_lines": tuple(
                    told.stderr_lines[i].decode("utf-8", "replace") for i in range(told.num_stderr_lines)
                ),
            }

        self.log = ON_LOG(log) if on_log else ON_LOG()
        self.metric = ON_METRIC(metric) if on_metric else ON_METRIC()
        self.fail = ON_FAILURE(fail)

    def explain(self, error: MillraceError) -> None:
        """Adds the node that caused it."""
        if self.failure and self.failure["node"] in error.message:
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


class Cluster:
    """A running cluster: `run` makes it.

        with millrace.Cluster.run("train.py", num_executors=4, input_mode=InputMode.FEED) as cluster:
            cluster.train(table, num_epochs=5, end_of_feed=True)
            predictions = cluster.inference(test).table()

    A `with` ends with shutdown(), or after an error with close(). Every call that fails raises MillraceError with
    the cluster's first cause. Ctrl-C (and a notebook's stop) ends the call that is under way, and nothing else:
    the cluster can be fed again; while it starts or shuts down, it ends the cluster. All methods may be called
    from any thread.
    """

    def __init__(self, handle: Handle, listener: _Listener, options: Mapping[str, Any]) -> None:
        self._handle = handle
        self._listener = listener
        self._options = options
        self._finalizer = weakref.finalize(self, _end, handle)
        with handle as pointer:
            self.cluster_id: str = driver_library().millrace_cluster_id(pointer).decode()
            self.server_address: str = driver_library().millrace_cluster_address(pointer).decode()

    @classmethod
    def run(
        cls,
        program: Program,
        num_executors: int = 1,
        *,
        args: Sequence[str] = (),
        num_ps: int = 0,
        master_node: Optional[str] = None,
        eval_node: bool = False,
        input_mode: InputMode = InputMode.DIRECT,
        queues: Sequence[str] = ("input", "output", "error"),
        log_dir: Optional[str] = None,
        tensorboard: bool = False,
        release_port: bool = True,
        reservation_timeout: float = 600.0,
        gpus_per_node: int = 0,
        max_restarts: int = 0,
        default_fs: Optional[str] = None,
        working_dir: Optional[str] = None,
        feed_port_range: Optional[str] = None,
        coordinator_port_range: Optional[str] = None,
        feed_budget_bytes: Optional[int] = None,
        stop_grace: float = 5.0,
        stop_timeout: float = 10.0,
        env: Optional[Mapping[str, str]] = None,
        cluster_file: bool = True,
        progress: Optional[bool] = None,
        on_log: Optional[Callable[[str, str], object]] = None,
        on_metric: Optional[Callable[[str, str, int, float], object]] = None,
    ) -> "Cluster":
        """Starts a cluster on this machine, and returns when every node runs.

        program: a script of Python ("train.py", with `args`), an executable, a NodeProgram, or a function of one
        node that a file has at its top level. Times are in seconds. cluster_file: the CLI and the dashboard find
        it. progress: what happens, on stderr; None: if that is a terminal. on_log(node, line) and on_metric(node,
        name, step, value) hear nodes; they run on another thread and must not call the cluster. The others are
        those of ClusterOptions in C++ and Java.
        """
        node_program = local_program(program, args)
        mode = InputMode(input_mode)
        listener = _Listener(on_log, on_metric)
        stop = _Stop()
        arguments = [each.encode() for each in node_program.args]
        variables = [
            Variable(str(name).encode(), str(value).encode())
            for name, value in {**node_program.env, **(env or {})}.items()
        ]
        options = Options(
            struct_size=ctypes.sizeof(Options),
            program=node_program.program.encode(),
            args=(c_char_p * len(arguments))(*arguments),
            num_args=len(arguments),
            env=(Variable * len(variables))(*variables),
            num_env=len(variables),
            agent_path=_driver_library.agent_path(),
            num_executors=num_executors,
            num_ps=num_ps,
            master_node=_text(master_node),
            eval_node=int(eval_node),
            feed=int(mode is InputMode.FEED),
            queues=(c_char_p * len(queues))(*[queue.encode() for queue in queues]),
            num_queues=len(queues),
            log_dir=_text(log_dir),
            working_dir=_text(working_dir),
            default_fs=_text(default_fs),
            keep_port=int(not release_port),
            gpus_per_node=gpus_per_node,
            max_restarts=max_restarts,
            reservation_timeout_ms=_ms(reservation_timeout),
            feed_budget_bytes=feed_budget_bytes or 0,
            no_cluster_file=int(not cluster_file),
            progress=0 if progress is None else 1 if progress else -1,
            on_log=listener.log,
            on_metric=listener.metric,
            on_failure=listener.fail,
            stop_grace_ms=_ms(stop_grace),
            stop_timeout_ms=_ms(stop_timeout),
            tensorboard=int(tensorboard),
            feed_port_range=_text(feed_port_range),
            coordinator_port_range=_text(coordinator_port_range),
        )
        kept = {
            "program": node_program, "num_executors": num_executors, "num_ps": num_ps, "input_mode": mode,
            "eval_node": eval_node, "queues": list(queues),
        }  # fmt: skip

        def start() -> "Cluster":
            made = c_void_p()
            with stop as pointer:
                options.stop = pointer
                _driver_library.call("millrace_cluster_run", byref(options), byref(made))
            assert made.value is not None
            handle = Handle(made.value, driver_library().millrace_cluster_free, "the cluster")
            return cls(handle, listener, kept)

        try:
            return interruptible(start, stop.request)
        except MillraceError as error:
            listener.explain(error)
            raise

    # ---- feeding --------------------------------------------------------------------------------------------

    def train(
        self,
        data: Any,
        num_epochs: int = 1,
        feed_timeout: Optional[float] = 600.0,
        queue: str = "input",
        end_of_feed: bool = False,
        *,
        num_partitions: Optional[int] = None,
        batch_bytes: int = 1 << 20,
    ) -> TrainResult:
        """Feeds every row, num_epochs times; returns when programs have used them all, or stopped reading.

        data: a table of Arrow (or a RecordBatchReader, or whatever has `__arrow_c_stream__`: Polars, DuckDB) or of
        pandas, a dict of columns, an iterator of dicts; these are divided into num_partitions, of which nodes
        take one after the other. Or a list of tables, each a partition; or a Source, which is read while it is
        fed. end_of_feed: the queue ends with this call; the programs may serve inference on it then.
        """
        if num_epochs < 1:
            raise InvalidArgumentError("INVALID_ARGUMENT", f"num_epochs={num_epochs}; the least is 1")
        source = source_of(data, num_partitions, self._default_partitions)
        result = Trained(ctypes.sizeof(Trained))

        def feed(pointer: int, call: FeedCall) -> None:
            call.num_epochs, call.end_of_feed = num_epochs, int(end_of_feed)
            with source as rows:
                _driver_library.call("millrace_cluster_train", pointer, rows, byref(call), byref(result))

        self._feed(feed, feed_timeout, queue, batch_bytes)
        refed = result.refed_rows
        return TrainResult(result.rows, refed, refed == 0 and not result.terminated, bool(result.terminated))

    def inference(
        self,
        data: Any,
        feed_timeout: Optional[float] = 600.0,
        queue: str = "input",
        *,
        num_partitions: Optional[int] = None,
        batch_bytes: int = 1 << 20,
    ) -> InferenceResult:
        """Feeds every row of `data`, as train() does, and returns the nodes' results: one for each, in order."""
        source = source_of(data, num_partitions, self._default_partitions)
        stream = ArrowArrayStream()

        def feed(pointer: int, call: FeedCall) -> None:
            with source as rows:
                _driver_library.call("millrace_cluster_inference", pointer, rows, byref(call), byref(stream))

        self._feed(feed, feed_timeout, queue, batch_bytes)
        return InferenceResult(stream)

    @property
    def _default_partitions(self) -> int:
        fed: int = self._options["num_executors"] - self._options["num_ps"] - int(self._options["eval_node"])
        return _PARTITIONS_PER_NODE * max(1, fed)

    def _feed(
        self, feed: Callable[[int, FeedCall], None], feed_timeout: Optional[float], queue: str, batch_bytes: int
    ) -> None:
        stop = _Stop()

        def run() -> None:
            with stop as stop_pointer, self._handle as pointer:
                call = FeedCall(struct_size=ctypes.sizeof(FeedCall), stop=stop_pointer)
                call.feed_timeout_ms, call.queue, call.batch_bytes = _ms(feed_timeout), queue.encode(), batch_bytes
                feed(pointer, call)

        self._call(run, stop.request)

    def _call(self, run: Callable[[], None], stop: Callable[[bool], None]) -> None:
        try:
            interruptible(run, stop)
        except MillraceError as error:
            self._listener.explain(error)
            raise

    def end_feed(self, queue: str = "input") -> None:
        """Ends what nodes do with a queue: their feed ends once what was fed is read."""
        with self._handle as pointer:
            _driver_library.call("millrace_cluster_end_feed", pointer, queue.encode())

    # ---- the end --------------------------------------------------------------------------------------------

    def shutdown(self, grace: Optional[float] = None, timeout: Optional[float] = _THREE_DAYS) -> None:
        """Ends all queues, waits for chief, master and workers, then stops ps and evaluator. Idempotent.

        grace: in InputMode.FEED how long workers may take after the end of their rows, then they are asked to
        stop and the error names them; in InputMode.DIRECT, where workers end when their work is done, how long
        an evaluator may take after them (None: no time). timeout: all of it, then everything is stopped. None
        is without end.
        """
        options = Shutdown(ctypes.sizeof(Shutdown), _ms(grace), _ms(timeout))

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
        """Ends everything at once, without waiting for programs; nothing after close or shutdown."""
        self._finalizer()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            if kind is None:
                self.shutdown()
        finally:
            self.close()

    # ---- what there is --------------------------------------------------------------------------------------

    def _text_of(self, function: str) -> str:
        text = c_void_p()
        with self._handle as pointer:
            _driver_library.call(function, pointer, byref(text))
        return _library.take_text(text)

    @property
    def cluster_info(self) -> List[NodeInfo]:
        """Every node as it is now."""
        return [NodeInfo(**node) for node in json.loads(self._text_of("millrace_cluster_nodes"))]

    @property
    def cluster_spec(self) -> Dict[str, Any]:
        """The members now: {"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]}."""
        spec: Dict[str, Any] = json.loads(self._text_of("millrace_cluster_spec"))
        return spec

    @property
    def tensorboard_url(self) -> str:
        """ "" until it takes connections, or where there is none."""
        return self._text_of("millrace_cluster_tensorboard_url")

    @property
    def input_mode(self) -> InputMode:
        mode: InputMode = self._options["input_mode"]
        return mode

    @property
    def num_executors(self) -> int:
        return int(self._options["num_executors"])

    @property
    def queues(self) -> List[str]:
        return list(self._options["queues"])

    def _states(self) -> str:
        """ "2 running, 1 failed"."""
        if self._handle.closed:
            return "closed"
        count: Dict[str, int] = {}
        for node in self.cluster_info:
            count[node.state] = count.get(node.state, 0) + 1
        return ", ".join(f"{number} {state}" for state, number in count.items())

    def __repr__(self) -> str:
        return f"<millrace.Cluster {self.cluster_id}: {self._options['program'].program}, {self._states()}>"

    def _repr_html_(self) -> str:
        """A table of the nodes, for notebooks."""
        title = f"<b>{html.escape(self.cluster_id)}</b>: {self._states()}"
        if self._handle.closed:
            return title
        head = "<tr><th>node</th><th>state</th><th>attempt</th><th>address</th><th>pid</th></tr>"
        rows = "".join(
            f"<tr><td>{html.escape(node.name)}</td><td>{html.escape(node.state)}</td><td>{node.attempt}</td>"
            f"<td>{html.escape(node.address)}</td><td>{node.pid or ''}</td></tr>"
            for node in self.cluster_info
        )
        return f"{title}<table>{head}{rows}</table>"
