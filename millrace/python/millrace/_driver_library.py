"""libmillrace_cluster.so, by ctypes: structs and prototypes."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Dict, List, Optional, Tuple

from millrace import _library
from millrace._library import Error


class Failure(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("node", c_char_p),
        ("executor_id", c_int32),
        ("attempt", c_int32),
        ("host", c_char_p),
        ("pid", c_int64),
        ("exit_status", c_char_p),
        ("stderr_lines", POINTER(c_char_p)),
        ("num_stderr_lines", c_size_t),
    ]


class Slot(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("executor_id", c_int32),
        ("job_name", c_char_p),
        ("task_index", c_int32),
        ("state", c_char_p),
        ("attempt", c_int32),
        ("host", c_char_p),
        ("address", c_char_p),
        ("pid", c_int64),
        ("error", c_char_p),
    ]


class Restart(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("failure", POINTER(Failure)),
        ("after_ms", c_int64),
        ("used", c_int32),
        ("max", c_int32),
    ]


ON_OUTPUT = ctypes.CFUNCTYPE(None, c_char_p, c_char_p, c_void_p)
ON_METRIC = ctypes.CFUNCTYPE(None, c_char_p, c_char_p, c_int64, c_double, c_void_p)
ON_FAILURE = ctypes.CFUNCTYPE(None, POINTER(Failure), c_void_p)
ON_RESTART = ctypes.CFUNCTYPE(None, POINTER(Restart), c_void_p)
ON_SLOT = ctypes.CFUNCTYPE(None, POINTER(Slot), c_void_p)
OPEN_PARTITION = ctypes.CFUNCTYPE(c_int32, c_int32, c_int64, c_void_p, c_void_p, POINTER(Error))


class RestartPolicy(Structure):
    _fields_ = [
        ("max_restarts", c_int32),
        ("window_ms", c_int64),
        ("initial_backoff_ms", c_int64),
        ("max_backoff_ms", c_int64),
        ("reserved", c_int64 * 2),
    ]


class JobRestart(Structure):
    _fields_ = [("struct_size", c_size_t), ("job", c_char_p), ("policy", RestartPolicy)]


class QuarantinePolicy(Structure):
    _fields_ = [
        ("failures", c_int32),
        ("window_ms", c_int64),
        ("duration_ms", c_int64),
        ("reserved", c_int64 * 2),
    ]


class JobGpus(Structure):
    _fields_ = [("struct_size", c_size_t), ("job", c_char_p), ("gpus", c_int32)]


class Sidecar(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("program", c_char_p),
        ("args", POINTER(c_char_p)),
        ("num_args", c_size_t),
        ("env", POINTER(c_char_p)),
        ("num_env", c_size_t),
        ("node", c_char_p),
    ]


class Agents(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("resolver", c_char_p),
        ("secret_file", c_char_p),
        ("secret_dir", c_char_p),
        ("bind_address", c_char_p),
        ("driver_host", c_char_p),
        ("poll_interval_ms", c_int64),
        ("fixed_members", c_int32),
        ("ship", c_int32),
    ]


class NodeOptions(Structure):
    _fields_ = [
        ("working_dir", c_char_p),
        ("default_fs", c_char_p),
        ("keep_port", c_int32),
        ("gpus_per_node", c_int32),
        ("gpus_by_job", POINTER(POINTER(JobGpus))),
        ("num_gpus_by_job", c_size_t),
        ("log_bytes_per_second", c_int64),
        ("sidecars", POINTER(POINTER(Sidecar))),
        ("num_sidecars", c_size_t),
        ("reserved", c_int64 * 4),
    ]


class FeedOptions(Structure):
    _fields_ = [
        ("queues", POINTER(c_char_p)),
        ("num_queues", c_size_t),
        ("port_range", c_char_p),
        ("budget_bytes", c_int64),
        ("curve_only", c_int32),
        ("shared_memory", c_int64),
        ("reserved", c_int64 * 3),
    ]


class FailureOptions(Structure):
    _fields_ = [
        ("restart", RestartPolicy),
        ("restart_by_job", POINTER(POINTER(JobRestart))),
        ("num_restart_by_job", c_size_t),
        ("quarantine", QuarantinePolicy),
        ("stop_grace_ms", c_int64),
        ("stop_timeout_ms", c_int64),
        ("reserved", c_int64 * 4),
    ]


class Observer(Structure):
    _fields_ = [
        ("user_data", c_void_p),
        ("on_output", ON_OUTPUT),
        ("on_metric", ON_METRIC),
        ("on_failure", ON_FAILURE),
        ("on_restart", ON_RESTART),
        ("on_slot", ON_SLOT),
        ("reserved", c_int64 * 2),
    ]


class Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("program", c_char_p),
        ("args", POINTER(c_char_p)),
        ("num_args", c_size_t),
        ("env", POINTER(c_char_p)),
        ("num_env", c_size_t),
        ("agent_path", c_char_p),
        ("num_executors", c_int32),
        ("num_ps", c_int32),
        ("master_node", c_char_p),
        ("eval_node", c_int32),
        ("input_mode", c_int32),
        ("log_dir", c_char_p),
        ("tensorboard", c_int32),
        ("reservation_timeout_ms", c_int64),
        ("node", NodeOptions),
        ("feed", FeedOptions),
        ("failure", FailureOptions),
        ("observer", Observer),
        ("coordinator_port_range", c_char_p),
        ("no_cluster_file", c_int32),
        ("progress", c_int32),
        ("stop", c_void_p),
        ("agents", POINTER(Agents)),
        ("name", c_char_p),
    ]


class FeedCall(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("num_epochs", c_int32),
        ("end_of_feed", c_int32),
        ("feed_timeout_ms", c_int64),
        ("queue", c_char_p),
        ("batch_bytes", c_int64),
        ("stop", c_void_p),
    ]


class Trained(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("rows_refed", c_int64),
        ("elapsed_ms", c_int64),
        ("terminated", c_int32),
        ("exactly_once", c_int32),
        ("dropped_rows", c_int64),
        ("repeated_rows", c_int64),
        ("equal_nodes", c_void_p),
    ]


class Shutdown(Structure):
    _fields_ = [("struct_size", c_size_t), ("grace_ms", c_int64), ("timeout_ms", c_int64)]


_PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "millrace_source_from_memory": ("c", [c_void_p, c_int32, POINTER(c_void_p)]),
    "millrace_source_split": ("c", [c_void_p, c_int32, POINTER(c_void_p)]),
    "millrace_source_from_function": ("c", [c_int32, OPEN_PARTITION, c_void_p, c_int32, POINTER(c_void_p)]),
    "millrace_source_free": (None, [c_void_p]),
    "millrace_stream_of_batch": ("c", [c_void_p, c_void_p, c_void_p]),
    "millrace_stop_new": (c_void_p, []),
    "millrace_stop_free": (None, [c_void_p]),
    "millrace_stop_request": (None, [c_void_p, c_char_p, c_int32]),
    "millrace_cluster_run": ("c", [POINTER(Options), POINTER(c_void_p)]),
    "millrace_cluster_free": (None, [c_void_p]),
    "millrace_cluster_id": (c_char_p, [c_void_p]),
    "millrace_cluster_address": (c_char_p, [c_void_p]),
    "millrace_cluster_spec": ("c", [c_void_p, POINTER(c_void_p)]),
    "millrace_cluster_nodes": ("c", [c_void_p, POINTER(c_void_p)]),
    "millrace_cluster_tensorboard_url": ("c", [c_void_p, POINTER(c_void_p)]),
    "millrace_cluster_train": ("c", [c_void_p, c_void_p, POINTER(FeedCall), POINTER(Trained)]),
    "millrace_cluster_inference": ("c", [c_void_p, c_void_p, POINTER(FeedCall), c_void_p]),
    "millrace_stream_error": ("c", [c_void_p]),
    "millrace_cluster_end_feed": ("c", [c_void_p, c_char_p]),
    "millrace_cluster_shutdown": ("c", [c_void_p, POINTER(Shutdown)]),
    "millrace_cluster_stop": (None, [c_void_p, c_char_p, c_int32]),
}


@functools.lru_cache(maxsize=None)
def driver_library() -> ctypes.CDLL:
    """The library, which is loaded when the first thing of it is asked for."""
    return _library.load("libmillrace_cluster.so", "MILLRACE_CLUSTER_LIBRARY", _PROTOTYPES)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that can fail; raises what it says."""
    _library.check(getattr(driver_library(), name), arguments)


def agent_path() -> Optional[bytes]:
    """The agent of this package; None where it has none, or $MILLRACE_AGENT names another."""
    own = pathlib.Path(__file__).resolve().parent / "bin" / "millrace-agent"
    return os.fsencode(own) if own.exists() and not os.environ.get("MILLRACE_AGENT") else None
