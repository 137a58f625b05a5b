"""What ctx.mgr is on a node of a cluster: TFManager's methods, over Millrace's feed."""

import threading

from tensorflowonspark._elements import Elements

_OUTPUT = "output"
_ERROR = "error"


class _Shown(str):
    """A text as a proxy of multiprocessing shows it, which programs compare with "'running'"."""

    def __str__(self):
        return repr(self)


class _InputQueue:
    """Elements one by one; None at the end."""

    def __init__(self, elements):
        self._elements = elements

    def get(self, block=True, timeout=None):
        if not block or timeout is not None:
            raise NotImplementedError("the queue of a cluster waits: get() takes neither block=False nor a timeout")
        got = self._elements.next(1)
        return got[0] if got else None

    def task_done(self):
        """Nothing: asking for the next element says so."""


class _OutputQueue:
    """Takes results of inference, one for each element."""

    def __init__(self, manager):
        self._manager = manager

    def put(self, item, block=True, timeout=None):
        self._manager.answer([item])


class _ErrorQueue:
    """Takes texts, the first of which becomes the node's error once its function has returned."""

    def __init__(self, errors):
        self._errors = errors

    def put(self, item, block=True, timeout=None):
        self._errors.append(item)

    def empty(self):
        return not self._errors


class NodeManager:
    """The queues and values of one node. Thread-safe."""

    def __init__(self, node, queues):
        self._node = node
        self._queues = list(queues)
        self._lock = threading.Lock()
        self._values = {"state": "running"}
        self._elements = {}  # by the name of their queue
        self.errors = []

    def get(self, key):
        """A value that set() was given. "state": "running", or "terminating" after DataFeed.terminate()."""
        value = self._values[key]
        return _Shown(value) if isinstance(value, str) else value

    def set(self, key, value):
        self._values[key] = value

    def get_queue(self, qname):
        """A queue of the cluster; None if it has none of that name."""
        if qname not in self._queues:
            return None
        if qname == _OUTPUT:
            return _OutputQueue(self)
        if qname == _ERROR:
            return _ErrorQueue(self.errors)
        return _InputQueue(self.elements(qname))

    def elements(self, qname):
        """What comes through a queue: whoever asks, it is the same."""
        with self._lock:
            if qname not in self._elements:
                self._elements[qname] = Elements(self._node, qname)
            return self._elements[qname]

    def answer(self, results, qname="input"):
        """Results of inference on that queue."""
        self.elements(qname).answer(results)
