"""A worker that trains until there is a file "go", and then ends with the code that is in it; a ps that serves.

It writes to FOLDER, next to it, which process of which pod it is: once when it starts, and once when it ends.
"""

import os
import pathlib
import socket
import sys
import time

FOLDER = pathlib.Path("/data")


def process():
    """What no two processes have in common: host, pid and the time of its start."""
    fields = pathlib.Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return f"{socket.gethostname()} {os.getpid()} {fields[19]}"


def note(text):
    with open(FOLDER / f"node-{os.environ.get('RANK', 'ps')}", "a", encoding="ascii") as file:
        file.write(f"{text} {process()}\n")


def main():
    note("start")
    if "RANK" not in os.environ:  # a parameter server, which the driver ends
        time.sleep(3600)
    weight, step = 0.0, 0
    while not (FOLDER / "go").exists():
        weight -= 0.1 * (weight - 3.0)
        step += 1
        print(f"step {step}: weight {weight:.6f}")
        time.sleep(0.1)
    note("end")
    return int((FOLDER / "go").read_text(encoding="ascii"))


if __name__ == "__main__":
    sys.exit(main())
