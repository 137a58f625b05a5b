"""Clusters of Python nodes on this machine, for tests: a driver over libmillrace_cluster.so."""

import collections
import ctypes
import os
import sys
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

import pyarrow as pa

LIBRARY = os.path.abspath("millrace/c/libmillrace.so")
_DRIVER = os.path.abspath("millrace/c/libmillrace_cluster.so")
_AGENT = os.path.abspath("core/agent/millrace-agent")
_PROGRAM = os.path.abspath("millrace/python/node_test_program.py")
PATIENCE_S = 120

os.environ["MILLRACE_LIBRARY"] = LIBRARY

from millrace import _library  # noqa: E402: it reads MILLRACE_LIBRARY
from millrace.error import error_of  # noqa: E402

_ON_LOG = ctypes.CFUNCTYPE(None, c_char_p, c_char_p, c_void_p)
_ON_METRIC = ctypes.CFUNCTYPE(None, c_char_p, c_char_p, c_int64, c_double, c_void_p)


class _Variable(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class _Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("program", c_char_p),
        ("args", POINTER(c_char_p)),
        ("num_args", c_size_t),
        ("env", POINTER(_Variable)),
        ("num_env", c_size_t),
        ("agent_path", c_char_p),
        ("num_executors", c_int32),
        ("num_ps", c_int32),
        ("master_node", c_char_p),
        ("eval_node", c_int32),
        ("feed", c_int32),
        ("queues", POINTER(c_char_p)),
        ("num_queues", c_size_t),
        ("log_dir", c_char_p),
        ("working_dir", c_char_p),
        ("default_fs", c_char_p),
        ("keep_port", c_int32),
        ("gpus_per_node", c_int32),
        ("max_restarts", c_int32),
        ("reservation_timeout_ms", c_int64),
        ("feed_budget_bytes", c_int64),
        ("progress", c_int32),
        ("no_cluster_file", c_int32),
        ("user_data", c_void_p),
        ("on_log", _ON_LOG),
        ("on_metric", _ON_METRIC),
    ]


class Cluster:
    """with Cluster("train", nodes=2) as cluster: ...; what is heard from its nodes is in `lines` and `metrics`."""

    def __init__(self, what, nodes=1, arguments=()):
        self._driver = ctypes.CDLL(_DRIVER)
        self._changed = threading.Condition()
        self.lines = []
        self.metrics = collections.defaultdict(list)
        self._on_log = _ON_LOG(self._hear_line)
        self._on_metric = _ON_METRIC(self._hear_metric)
        args = [arg.encode() for arg in ["-s", "-P", "-B", _PROGRAM, what, *arguments]]
        env = {"PYTHONPATH": os.environ["PYTHONPATH"], "MILLRACE_LIBRARY": LIBRARY}
        variables = [_Variable(name.encode(), value.encode()) for name, value in env.items()]
        options = _Options(
            struct_size=ctypes.sizeof(_Options),
            program=sys.executable.encode(),
            args=(c_char_p * len(args))(*args),
            num_args=len(args),
            env=(_Variable * len(variables))(*variables),
            num_env=len(variables),
            agent_path=_AGENT.encode(),
            num_executors=nodes,
            feed=1,
            progress=-1,
            no_cluster_file=1,
            on_log=self._on_log,
            on_metric=self._on_metric,
        )
        self._cluster = c_void_p()
        self._call("millrace_cluster_run", byref(options), byref(self._cluster))

    def _hear_line(self, node, line, _):
        with self._changed:
            self.lines.append(line.decode())
            self._changed.notify_all()

    def _hear_metric(self, node, name, step, value, _):
        with self._changed:
            self.metrics[name.decode()].append((node.decode(), step, value))
            self._changed.notify_all()

    def wait_for(self, heard):
        """Until `heard()` is true of lines and metrics."""
        with self._changed:
            if not self._changed.wait_for(heard, PATIENCE_S):
                raise TimeoutError(f"after {PATIENCE_S} s: {self.lines}, {dict(self.metrics)}")

    def _call(self, name, *arguments):
        error = _library.Error(ctypes.sizeof(_library.Error), 0, None)
        code = getattr(self._driver, name)(*arguments, byref(error))
        if code != 0:
            message = (error.message or b"").decode()
            _library.library().millrace_error_clear(byref(error))
            raise error_of(code, message)

    def _source(self, partitions):
        """A partition of each table."""
        size = 5 * ctypes.sizeof(c_void_p)
        streams = ctypes.create_string_buffer(size * len(partitions))
        for i, table in enumerate(partitions):
            table.to_reader()._export_to_c(ctypes.addressof(streams) + i * size)
        source = c_void_p()
        self._call("millrace_source_from_memory", streams, len(partitions), byref(source))
        return source

    def train(self, *partitions):
        source = self._source(partitions)
        try:
            self._call("millrace_cluster_train", self._cluster, source, None, None)
        finally:
            self._driver.millrace_source_free(source)

    def inference(self, *partitions):
        source = self._source(partitions)
        results = ctypes.create_string_buffer(5 * ctypes.sizeof(c_void_p))
        try:
            self._call("millrace_cluster_inference", self._cluster, source, None, results)
        finally:
            self._driver.millrace_source_free(source)
        return pa.RecordBatchReader._import_from_c(ctypes.addressof(results)).read_all()

    def end_feed(self):
        self._call("millrace_cluster_end_feed", self._cluster, None)

    def shutdown(self):
        self._call("millrace_cluster_shutdown", self._cluster, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._driver.millrace_cluster_free(self._cluster)
