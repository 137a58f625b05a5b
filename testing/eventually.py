"""For what nothing tells: looks again and again whether it has come about."""

import time

WAIT_S = 120  # generous: the machine may be busy
_PAUSE_S = 0.02


def wait_for(condition, what, within_s=WAIT_S):
    """The first value of `condition()` that counts as true; fails naming `what` if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s} s")
        time.sleep(_PAUSE_S)
    return value
