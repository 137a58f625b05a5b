"""libmillrace.so, by ctypes: structs, prototypes, and handles that are freed once and not while in use.

Every call lets go of the GIL while it is in the library.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from millrace.error import FailedPreconditionError, NotFoundError, error_of

MAX_DIMENSIONS = 32


class Error(Structure):
    _fields_ = [("struct_size", c_size_t), ("code", c_int32), ("message", c_char_p)]


_ERROR_SIZE = ctypes.sizeof(Error)


class Strings(Structure):
    _fields_ = [("struct_size", c_size_t), ("items", POINTER(c_char_p)), ("num_items", c_size_t)]


class NodeInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("cluster_id", c_char_p),
        ("name", c_char_p),
        ("job_name", c_char_p),
        ("task_index", c_int32),
        ("executor_id", c_int32),
        ("attempt", c_int32),
        ("num_workers", c_int32),
        ("rank", c_int32),
        ("is_chief", c_int32),
        ("address", c_char_p),
        ("default_fs", c_char_p),
        ("working_dir", c_char_p),
        ("log_dir", c_char_p),
        ("tls_ca", c_char_p),
        ("tls_certificate", c_char_p),
        ("tls_key", c_char_p),
    ]


class FeedOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("inference", c_int32),
        ("queue", c_char_p),
        ("columns", POINTER(c_char_p)),
        ("num_columns", c_size_t),
        ("names", POINTER(c_char_p)),
        ("equal", c_int32),
        ("batch_rows", c_int64),
    ]


class Tensor(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("type", c_int32),
        ("ndim", c_int32),
        ("shape", c_int64 * MAX_DIMENSIONS),
        ("num_nulls", c_int64),
    ]


class ArrowSchema(Structure):
    pass


class ArrowArray(Structure):
    pass


ArrowSchema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
ArrowArray._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]

WRITE_MODEL = ctypes.CFUNCTYPE(c_int32, c_char_p, c_void_p, POINTER(Error))

# Result and arguments; "c" is a function that can fail: it returns a code, and its last argument is an
# Error, which call() adds.
_PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "millrace_error_clear": (None, [POINTER(Error)]),
    "millrace_error_set": (c_int32, [POINTER(Error), c_int32, c_char_p]),
    "millrace_version": (c_char_p, []),
    "millrace_free": (None, [c_void_p]),
    "millrace_strings_free": (None, [POINTER(Strings)]),
    "millrace_node_open": ("c", [POINTER(c_void_p)]),
    "millrace_node_close": ("c", [c_void_p, c_int32, c_char_p]),
    "millrace_node_describe": ("c", [c_void_p, POINTER(NodeInfo)]),
    "millrace_node_cluster_spec": ("c", [c_void_p, POINTER(c_void_p), POINTER(c_uint64)]),
    "millrace_node_wait_for_epoch": ("c", [c_void_p, c_uint64, c_int64]),
    "millrace_node_wait_for_stop": (c_int32, [c_void_p, c_int64]),
    "millrace_node_absolute_path": ("c", [c_void_p, c_char_p, POINTER(c_void_p)]),
    "millrace_node_port_fd": (c_int32, [c_void_p]),
    "millrace_node_release_port": ("c", [c_void_p]),
    "millrace_node_gpus": ("c", [c_void_p, POINTER(Strings)]),
    "millrace_node_claim_gpus": ("c", [c_void_p, c_int32, POINTER(c_char_p), c_size_t, POINTER(Strings)]),
    "millrace_node_release_gpus": ("c", [c_void_p, POINTER(c_char_p), c_size_t]),
    "millrace_node_export_model": ("c", [c_void_p, c_char_p, WRITE_MODEL, c_void_p]),
    "millrace_kv_set": ("c", [c_void_p, c_char_p, c_char_p, c_size_t]),
    "millrace_kv_get": ("c", [c_void_p, c_char_p, c_int64, POINTER(c_void_p), POINTER(c_size_t)]),
    "millrace_kv_add": ("c", [c_void_p, c_char_p, c_int64, POINTER(c_int64)]),
    "millrace_kv_delete": ("c", [c_void_p, c_char_p]),
    "millrace_barrier": ("c", [c_void_p, c_char_p, c_int64]),
    "millrace_report_metric": (None, [c_void_p, c_char_p, c_int64, c_double]),
    "millrace_feed_open": ("c", [c_void_p, POINTER(FeedOptions), POINTER(c_void_p)]),
    "millrace_feed_close": (None, [c_void_p]),
    "millrace_feed_next_up_to": ("c", [c_void_p, c_int64, c_int64, POINTER(c_void_p)]),
    "millrace_feed_stream": ("c", [c_void_p, c_int64, c_void_p]),
    "millrace_feed_should_stop": (c_int32, [c_void_p]),
    "millrace_feed_results": ("c", [c_void_p, c_void_p, c_void_p]),
    "millrace_feed_terminate": ("c", [c_void_p]),
    "millrace_feed_position": ("c", [c_void_p, POINTER(c_void_p)]),
    "millrace_feed_resume": ("c", [c_void_p, c_char_p]),
    "millrace_batch_free": (None, [c_void_p]),
    "millrace_batch_num_rows": (c_int64, [c_void_p]),
    "millrace_batch_names": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "millrace_batch_column_type": ("c", [c_void_p, c_char_p, POINTER(c_void_p)]),
    "millrace_batch_export": ("c", [c_void_p, c_void_p, c_void_p]),
    "millrace_batch_export_column": ("c", [c_void_p, c_char_p, c_void_p, c_void_p]),
    "millrace_batch_tensor": ("c", [c_void_p, c_char_p, POINTER(Tensor)]),
    "millrace_batch_tensors": ("c", [c_void_p, POINTER(Tensor), c_int32]),
    "millrace_batch_dlpack": ("c", [c_void_p, c_char_p, POINTER(c_void_p)]),
    "millrace_builder_new": (c_void_p, []),
    "millrace_builder_free": (None, [c_void_p]),
    "millrace_builder_add": ("c", [c_void_p, c_char_p, POINTER(Tensor), c_char_p]),
    "millrace_builder_add_bools": ("c", [c_void_p, c_char_p, c_char_p, c_int64, c_char_p]),
    "millrace_builder_add_strings": (
        "c",
        [c_void_p, c_char_p, c_char_p, POINTER(c_int64), c_int64, c_int32, c_char_p],
    ),
    "millrace_builder_finish": ("c", [c_void_p, c_void_p, c_void_p]),
}


def load(file: str, variable: str, prototypes: Dict[str, Tuple[Any, List[Any]]]) -> ctypes.CDLL:
    """A library of Millrace: the one that the environment's `variable` names, or the one of this package, or
    of the system."""
    given = os.environ.get(variable)
    beside = pathlib.Path(__file__).resolve().parent / "lib" / file
    reasons = []
    for path in [given] if given else [str(beside), file]:
        try:
            # RTLD_LOCAL, the default: what it links stays apart from what other modules bring.
            loaded = ctypes.CDLL(path)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        raise NotFoundError(
            "NOT_FOUND", f"{file} cannot be loaded; set {variable} to its path. Tried: " + "; ".join(reasons)
        )
    for name, (result, arguments) in prototypes.items():
        function = getattr(loaded, name)
        can_fail = result == "c"
        function.restype = c_int32 if can_fail else result
        function.argtypes = [*arguments, POINTER(Error)] if can_fail else arguments
    return loaded


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, which is loaded when the first thing of it is asked for."""
    return load("libmillrace.so", "MILLRACE_LIBRARY", _PROTOTYPES)


def check(function: Any, arguments: Sequence[Any]) -> None:
    """Calls a function that can fail; raises what it says."""
    error = Error(_ERROR_SIZE)
    code = function(*arguments, byref(error))
    if code == 0:
        return
    message = (error.message or b"").decode("utf-8", "replace")
    library().millrace_error_clear(byref(error))
    raise error_of(code, message)


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the nodes' library that can fail; raises what it says."""
    check(getattr(library(), name), arguments)


def take_text(pointer: c_void_p) -> str:
    """The text at `pointer`, which is freed."""
    text = ctypes.string_at(pointer.value).decode() if pointer.value else ""
    library().millrace_free(pointer)
    return text


def take_strings(strings: Strings) -> List[str]:
    """The texts of a list, which is freed."""
    texts = [(strings.items[i] or b"").decode() for i in range(strings.num_items)]
    library().millrace_strings_free(byref(strings))
    return texts


class Memory:
    """Memory of the library's, freed with the last reference to this. A fork of the process may use it too, and never
    frees it."""

    def __init__(self, pointer: int, free: Callable[[int], None]) -> None:
        self.pointer = pointer
        self._free = free
        self._process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == getattr(self, "_process", None):  # not of one that was never made
            self._free(self.pointer)


class Handle:
    """A pointer of the library's, freed by close() once no call is under way that uses it. In a fork of the process
    it is neither freed nor used: it has threads and sockets, which are the parent's.

    with handle as pointer:
        call("millrace_feed_next", pointer, ...)
    """

    def __init__(self, pointer: int, free: Callable[[int], None], what: str) -> None:
        self._pointer: Optional[int] = pointer
        self._free = free
        self._what = what
        self._users = 0
        self._closed = False
        self._taken = False  # by take(): nobody else frees it
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: Optional[threading.Condition] = None  # of who waits in take()

    @property
    def closed(self) -> bool:
        return self._closed

    def _refuse_forks(self) -> None:
        if os.getpid() != self._process:
            raise FailedPreconditionError(
                "FAILED_PRECONDITION", f"{self._what} belongs to process {self._process}, of which this is a fork"
            )

    def __enter__(self) -> int:
        self._refuse_forks()
        with self._lock:
            if self._closed or self._pointer is None:
                raise FailedPreconditionError("FAILED_PRECONDITION", f"{self._what} is closed")
            self._users += 1
            return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._closed:
                return
            pointer = None if self._taken else self._take()
            if self._idle is not None:
                self._idle.notify_all()
        if pointer is not None:
            self._free(pointer)

    def _take(self) -> Optional[int]:
        if self._users > 0:
            return None
        pointer, self._pointer = self._pointer, None
        return pointer

    def close(self) -> None:
        """Calls from here on are refused; the last one that is under way frees what it uses."""
        if os.getpid() != self._process:
            self._closed = True
            return
        with self._lock:
            self._closed = True
            pointer = self._take()
        if pointer is not None:
            self._free(pointer)

    def take(self, patience_s: float) -> int:
        """The pointer, for who frees it otherwise; calls from here on are refused. Waits for those under
        way, which must end by themselves when the pointer is freed."""
        self._refuse_forks()
        with self._lock:
            if self._closed or self._pointer is None:
                raise FailedPreconditionError("FAILED_PRECONDITION", f"{self._what} is closed")
            self._closed = self._taken = True
            self._idle = threading.Condition(self._lock)
            self._idle.wait_for(lambda: self._users == 0, patience_s)
            pointer, self._pointer = self._pointer, None
            return pointer

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):  # of one that was never made
            self.close()
