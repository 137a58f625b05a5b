"""Calls that wait in the library, and Ctrl-C meanwhile."""

from __future__ import annotations

import threading
from typing import Callable, List, Optional, Tuple, TypeVar

_T = TypeVar("_T")


_TURN_S = 0.2


def _wait(done: threading.Event) -> None:
    """In turns: a signal that comes just before Python blocks does not wake it, and its handler runs after."""
    while not done.wait(_TURN_S):
        pass


def interruptible(call: Callable[[], _T], stop: Callable[[bool], None]) -> _T:
    """What `call` returns or raises.

    In the main thread, which is where Python runs handlers of signals, `call` runs on another thread. If a
    handler raises (Ctrl-C: KeyboardInterrupt), `stop(False)` is asked to make `call` return, and once it has,
    that is raised. The second time it is `stop(True)`; the third time nothing is waited for.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: List[Tuple[Optional[_T], Optional[BaseException]]] = []
    done = threading.Event()
    turn = threading.Lock()
    begun = given_up = False

    def run() -> None:
        nonlocal begun
        with turn:
            if given_up:
                return
            begun = True
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            done.set()

    try:
        threading.Thread(target=run, name="millrace-call", daemon=True).start()
        _wait(done)
    except BaseException:
        with turn:
            given_up = True
        if begun:
            stop(False)
            try:
                _wait(done)
            except BaseException:
                stop(True)
                _wait(done)
        raise
    value, error = outcome.pop()
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None where that is what `call` returned
