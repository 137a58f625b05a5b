"""Queues and values in a process of their own, for programs that start one themselves.

A node of a cluster needs none: its ctx.mgr is a NodeManager, which has the same methods.
"""

import multiprocessing
from multiprocessing.managers import BaseManager

_queues = {}
_values = {}


class TFManager(BaseManager):
    """get_queue(name), get(key), set(key, value); start() or connect() makes one."""


def _set(key, value):
    _values[key] = value


TFManager.register("get_queue", callable=_queues.get)
TFManager.register("get", callable=_values.__getitem__)
TFManager.register("set", callable=_set)


def start(authkey, queues, mode="local"):
    """Starts one with these queues.

    authkey: bytes, which connect() has to give too. mode: "local" listens on this host only, "remote" on all of its
    addresses. What goes through it is pickled.
    """
    fork = multiprocessing.get_context("fork")  # the child has what is here now
    _values.clear()
    _queues.clear()
    for name in queues:
        _queues[name] = fork.JoinableQueue()
    manager = TFManager(address=("", 0) if mode == "remote" else None, authkey=authkey, ctx=fork)
    manager.start()
    return manager


def connect(address, authkey):
    """The one that listens at its `address`."""
    manager = TFManager(address, authkey=authkey)
    manager.connect()
    return manager
