"""One end of Arrow Flight's DoPut, for //testing/bench:feed: pyarrow's C++ server and client.

Speaks as feed_end does (feed_end.cc says how), for the way "flight": the same shapes, the same batches.
"""

import array
import json
import resource
import sys
import threading

import pyarrow
import pyarrow.flight as flight


def _numbers(arrow_type, code, values):
    data = pyarrow.py_buffer(array.array(code, values))
    return pyarrow.Array.from_buffers(arrow_type, len(values), [None, data])


def _make_batch(shape, rows):
    if shape == "i64":
        values = _numbers(pyarrow.int64(), "q", range(rows))
    elif shape == "bin3k":
        values = pyarrow.array([b"b" * 3072] * rows, type=pyarrow.binary())
    else:
        width = int(shape.removeprefix("f32x"))
        floats = [float(i % 256) for i in range(rows * width)]
        values = pyarrow.FixedSizeListArray.from_arrays(
            _numbers(pyarrow.float32(), "f", floats), width
        )
    return pyarrow.record_batch([values], names=["x"])


def _touch(column):
    """Looks at the two ends of the values, where they lie."""
    view = memoryview(column.buffers()[-1])
    return view[0] + view[-1]


def _say(message):
    print(json.dumps(message), flush=True)


def _hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


class _Usage:
    def __init__(self):
        self._began = self._cpu()

    @staticmethod
    def _cpu():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def take(self):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"cpu_s": self._cpu() - self._began, "peak_kb": peak}


class _Server(flight.FlightServerBase):
    def __init__(self, batches):
        super().__init__("grpc://127.0.0.1:0")
        self._left = batches
        self.sum = 0
        self.done = threading.Event()

    def do_put(self, context, descriptor, reader, writer):
        for chunk in reader:
            self.sum += _touch(chunk.data.column(0))
            self._left -= 1
            if self._left == 0:
                self.done.set()


def _receive(task):
    server = _Server(task["batches"])
    _say({"endpoint": f"grpc://127.0.0.1:{server.port}"})
    if _hear() is None:
        return
    _say({"ready": True})
    usage = _Usage()
    server.done.wait()
    _say(usage.take() | {"sum": server.sum})
    _hear()
    server.shutdown()


def _send(task):
    batch = _make_batch(task["shape"], task["rows"])
    client = flight.connect(task["to"][0]["endpoint"])
    client.wait_for_available(timeout=10)
    _say({})
    if _hear() is None:
        return
    usage = _Usage()
    descriptor = flight.FlightDescriptor.for_path("bench")
    writer, _ = client.do_put(descriptor, batch.schema)
    for _ in range(task["batches"]):
        writer.write_batch(batch)
    writer.close()
    _hear()  # everything is received
    _say(usage.take())


def main():
    task = _hear()
    if task is None:
        return
    if task["role"] == "send":
        _send(task)
    else:
        _receive(task)


main()
