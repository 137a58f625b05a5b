"""A node's place in its cluster, and its main function."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from ctypes import byref, c_char_p, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from millrace import _arguments, _defaults, _library
from millrace._arguments import milliseconds, number, text, whole
from millrace._library import Handle, NodeInfo, Strings, call, library
from millrace.error import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    MillraceError,
    code_of,
)
from millrace.feed import Columns, Equal, Feed, Mode

__all__ = ["KeyValue", "Node", "NodeTls", "run_node"]

_EXIT_FAILED, _EXIT_NO_PLACE = 1, 2
_UNKNOWN, _CANCELLED = 2, 1
_STDERR = 2
_PATIENCE_S = 5.0  # for calls of other threads when the node closes
_TURN_S = 0.2  # after which a wait looks whether the node is closed, and Python for signals
_TURN_MS = round(1000 * _TURN_S)


class KeyValue:
    """The cluster's key-value store: small values by which nodes find each other. It outlives every node.
    Keys are texts of 1,024 bytes at most, values any bytes, 1 MiB at most; a str is stored as UTF-8."""

    def __init__(self, node: Handle) -> None:
        self._node = node

    def set(self, key: str, value: Union[bytes, str]) -> None:
        data = _arguments.data("value", value)
        with self._node as pointer:
            call("millrace_kv_set", pointer, text("key", key), data, len(data))

    def get(self, key: str, timeout: Optional[float] = 0) -> bytes:
        """Waits until the key exists, `timeout` seconds at most; None and infinity are forever, 0 does not wait. Raises
        NotFoundError, or DeadlineExceededError if it has waited."""
        value, size = c_void_p(), c_size_t()
        with self._node as pointer:
            call(
                "millrace_kv_get", pointer, text("key", key), milliseconds("timeout", timeout), byref(value),
                byref(size),
            )  # fmt: skip
        data = ctypes.string_at(value, size.value)
        library().millrace_free(value)
        return data

    def add(self, key: str, delta: int = 1) -> int:
        """Adds to a counter that begins at 0, and returns its new value."""
        total = c_int64()
        with self._node as pointer:
            call("millrace_kv_add", pointer, text("key", key), whole("delta", delta), byref(total))
        return total.value

    def delete(self, key: str) -> None:
        """Raises NotFoundError."""
        with self._node as pointer:
            call("millrace_kv_delete", pointer, text("key", key))


def _members(node: Handle) -> Tuple[Dict[str, Any], int]:
    """The members, and the number of the change that made them."""
    spec, epoch = c_void_p(), c_uint64()
    with node as pointer:
        call("millrace_node_cluster_spec", pointer, byref(spec), byref(epoch))
    return json.loads(_library.take_text(spec)), epoch.value


def _tell_changes(node: Handle, epoch: int, callback: Callable[[Dict[str, Any]], object]) -> None:
    while True:
        try:
            with node as pointer:
                call("millrace_node_wait_for_epoch", pointer, epoch + 1, _TURN_MS)
            spec, epoch = _members(node)
        except DeadlineExceededError:
            continue
        except FailedPreconditionError:
            return  # the node is closed
        try:
            callback(spec)
        except Exception:
            traceback.print_exc()


class NodeTls(NamedTuple):
    """The cluster's certificates, PEM texts, by which its nodes know each other; empty if the agent gave none."""

    ca: str
    certificate: str
    key: str  # secret

    def __repr__(self) -> str:
        return f"NodeTls(ca={self.ca!r}, certificate={self.certificate!r}, key=...)"


class Node:
    """What a program knows of its place, and what it can ask of the cluster. run_node() makes it; nothing of
    it may be called once main has returned, while feeds, batches and what was made of them stay valid."""

    def __init__(self) -> None:
        node = c_void_p()
        call("millrace_node_open", byref(node))
        assert node.value is not None
        # close() frees it by a call of its own.
        self._handle = Handle(node.value, lambda pointer: None, "the node")
        info = NodeInfo(ctypes.sizeof(NodeInfo))
        call("millrace_node_describe", node, byref(info))
        self.cluster_id: str = info.cluster_id.decode()
        self.name: str = info.name.decode()  # "worker:1"
        self.job_name: str = info.job_name.decode()
        self.task_index: int = info.task_index
        self.executor_id: int = info.executor_id
        self.attempt: int = info.attempt  # one more each time this role is started again
        self.num_workers: int = info.num_workers  # chief or master and the workers
        self.rank: int = info.rank  # among those; -1 for a ps or an evaluator
        self.is_chief: bool = bool(info.is_chief)
        self.address: str = info.address.decode()  # host:port
        self.default_fs: str = info.default_fs.decode()
        self.working_dir: str = info.working_dir.decode()
        self.log_dir: str = info.log_dir.decode()
        self.tls = NodeTls(info.tls_ca.decode(), info.tls_certificate.decode(), info.tls_key.decode())
        self.kv = KeyValue(self._handle)

    def __repr__(self) -> str:
        return f"<millrace.Node {self.name} of cluster {self.cluster_id}>"

    def feed(
        self,
        batch: int = 64,
        mode: Mode = "train",
        queue: str = _defaults.QUEUE,
        columns: Optional[Columns] = None,
        equal: Optional[Equal] = None,
    ) -> Feed:
        """The rows that the cluster feeds to this node, `batch` at a time. `mode` is "train", or "inference",
        where every row gets one result (Feed.results). `columns` are the names that are wanted, or a mapping
        from names in the data to names here. Raises FailedPreconditionError if this node is not fed.

        `equal` is for synchronous training: every node gets equally many batches of exactly `batch` rows in each
        train call, and a batch only when all nodes have theirs. With "drop" rows that do not fill a batch at every
        node are dropped, with "pad" batches are filled with rows of before; TrainResult counts both. All nodes
        say the same. When a node dies, the others' next batch raises AbortedError, which names it; reading on
        goes on once it is there again."""
        return Feed(self._handle, self.cluster_id, batch, mode, queue, columns, equal)

    def metric(self, name: str, step: int, value: float) -> None:
        """Tells the driver and whoever watches. Never blocks; what cannot be sent is dropped."""
        with self._handle as pointer:
            library().millrace_report_metric(
                pointer, text("name", name), whole("step", step), number("value", value)
            )

    def barrier(self, name: str, timeout: Optional[float] = 600) -> None:
        """Waits until every fed node has come, `timeout` seconds at most; None and infinity are forever. Raises
        DeadlineExceededError naming who did not, AbortedError if a node has ended."""
        with self._handle as pointer:
            call("millrace_barrier", pointer, text("name", name), milliseconds("timeout", timeout))

    def wait_for_stop(self, timeout: Optional[float] = None) -> bool:
        """Whether the cluster has asked this node to end: waits for that, `timeout` seconds at most; None and
        infinity are forever. A ps or an evaluator ends then; feeds end by themselves."""
        wait_ms = milliseconds("timeout", timeout)
        deadline = None if wait_ms < 0 else time.monotonic() + wait_ms / 1000
        while True:
            left = _TURN_S if deadline is None else min(_TURN_S, max(0.0, deadline - time.monotonic()))
            with self._handle as pointer:
                if library().millrace_node_wait_for_stop(pointer, round(1000 * left)):
                    return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    @property
    def stop_requested(self) -> bool:
        return self.wait_for_stop(0)

    @property
    def cluster_spec(self) -> Dict[str, Any]:
        """The members now: {"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]}."""
        return _members(self._handle)[0]

    def on_membership_change(self, callback: Callable[[Dict[str, Any]], object]) -> None:
        """Calls callback(cluster_spec) after every later change of the members (one has moved, or was started again),
        on a thread of its own. What it raises is printed. Changes that come while it runs are one call."""
        arguments = (self._handle, _members(self._handle)[1], callback)
        threading.Thread(target=_tell_changes, args=arguments, name="millrace-members", daemon=True).start()

    def absolute_path(self, path: "Union[str, os.PathLike[str]]") -> str:
        """What `path` means in the cluster's default file system."""
        absolute = c_void_p()
        with self._handle as pointer:
            call("millrace_node_absolute_path", pointer, os.fspath(path).encode(), byref(absolute))
        return _library.take_text(absolute)

    def port_fd(self) -> int:
        """The inherited socket of the reserved port, bound and not listening; -1 where there is none."""
        with self._handle as pointer:
            return int(library().millrace_node_port_fd(pointer))

    def release_port(self) -> None:
        """Closes the reserved port here and at the agent: before the program listens on it by itself."""
        with self._handle as pointer:
            call("millrace_node_release_port", pointer)

    @property
    def gpus(self) -> List[str]:
        """UUIDs of the GPUs that are this node's alone."""
        found = Strings(ctypes.sizeof(Strings))
        with self._handle as pointer:
            call("millrace_node_gpus", pointer, byref(found))
        return _library.take_strings(found)

    def claim_gpus(self, gpus: Union[int, Sequence[str]]) -> List[str]:
        """Claims so many free ones, or those of these ids; returns the new UUIDs. CUDA reads
        CUDA_VISIBLE_DEVICES once: set it before its first call. Raises ResourceExhaustedError, naming who
        holds the others."""
        ids: List[bytes] = []
        number_of = 0
        if isinstance(gpus, Iterable) and not isinstance(gpus, str):
            ids = [text("a GPU", each) for each in gpus]
            if not ids:
                raise InvalidArgumentError("INVALID_ARGUMENT", "claim_gpus([]) names no GPU")
        else:
            number_of = whole("gpus", gpus)
        found = Strings(ctypes.sizeof(Strings))
        with self._handle as pointer:
            call(
                "millrace_node_claim_gpus", pointer, number_of, (c_char_p * len(ids))(*ids), len(ids), byref(found)
            )
        return _library.take_strings(found)

    def release_gpus(self, gpus: Sequence[str]) -> None:
        """Gives some back: nothing of this process may use them any more."""
        ids = [text("a GPU", each) for each in gpus]
        with self._handle as pointer:
            call("millrace_node_release_gpus", pointer, (c_char_p * len(ids))(*ids), len(ids))

    def export_model(self, path: "Union[str, os.PathLike[str]]", write: Callable[[str], object]) -> None:
        """On the chief, `write` fills a new directory, which then takes the name `path` in one step; other
        nodes do nothing. What `write` raises is raised, and `path` is as it was."""
        raised: List[BaseException] = []

        def write_model(directory: bytes, _: Any, error: Any) -> int:
            try:
                write(os.fsdecode(directory))
            except BaseException as why:  # it must not pass through C
                raised.append(why)
                what = f"{type(why).__name__}: {why}".encode("utf-8", "replace")
                return int(library().millrace_error_set(error, _UNKNOWN, what))
            return 0

        try:
            with self._handle as pointer:
                call("millrace_node_export_model", pointer, os.fsencode(path), _library.WRITE_MODEL(write_model), None)
        except MillraceError:
            if raised:
                raise raised[0] from None
            raise

    def close(self, code: int = 0, message: str = "") -> None:
        """How the program ends, told to agent and feeders. Raises that error, or FailedPreconditionError if
        inference rows are without results. run_node() calls it."""
        node = self._handle.take(_PATIENCE_S)
        call("millrace_node_close", node, code, message.encode("utf-8", "replace"))


def _last_words(error: BaseException) -> str:
    """What the traceback ends with, as one line, and where it was raised. Of many lines, in which workers of a
    DataLoader say what they raised, it is the first and the last."""
    lines = [line.strip() for line in traceback.format_exception_only(type(error), error)[-1].strip().splitlines()]
    line = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return line
    return f"{line} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def _fail(node: Node, code: int, message: str) -> None:
    try:
        node.close(code, message)
    except MillraceError:
        pass  # it is what was said


def _exit(who: str, error: BaseException, code: int) -> NoReturn:
    print(f"millrace: {who}: {error}", file=sys.stderr, flush=True)
    raise SystemExit(code)


def run_node(main: Callable[[Node], object]) -> None:
    """Runs `main` in this thread as the node that the environment describes.

    Returns when main has returned and everything that it was handed is acknowledged. If main raises, its
    traceback is printed, its last line is told to the cluster as the node's error, and the process ends with
    exit code 1; with 2 if it could not take its place: an agent starts node programs (`millrace run`, a
    driver). If it crashes, stderr says where (faulthandler). A fork that leaves main, by an exception or not, ends
    as itself and not as the node. From here on SIGPIPE is ignored; if the agent dies, the process ends at once.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(_STDERR)
    process = os.getpid()
    try:
        node = Node()
    except MillraceError as error:
        _exit(os.path.basename(sys.argv[0]) or "node", error, _EXIT_NO_PLACE)
    end: Optional[SystemExit] = None
    try:
        main(node)
    except SystemExit as error:
        if os.getpid() != process:
            raise
        if error.code not in (None, 0):
            _fail(node, _UNKNOWN, f"sys.exit({error.code!r})")
            raise
        end = error
    except BaseException as error:
        if os.getpid() != process:
            raise
        traceback.print_exc()
        sys.stderr.flush()
        code = code_of(error) if isinstance(error, MillraceError) else _UNKNOWN
        _fail(node, _CANCELLED if isinstance(error, KeyboardInterrupt) else code, _last_words(error))
        raise SystemExit(_EXIT_FAILED) from None
    if os.getpid() != process:
        return
    try:
        node.close()
    except MillraceError as error:
        _exit(node.name, error, _EXIT_FAILED)
    if end is not None:
        raise end
