"""One of the examples, as it stands: it reads the digits that it has not seen.

    examples_test.py EXAMPLE
"""

import importlib
import importlib.util
import os
import sys

_LEAST = 0.9
_PACKAGE = {name: "torch" for name in ("accelerate_digits", "lightning_digits", "pytorch_digits")}


def main():
    root, name = os.getcwd(), sys.argv[1]
    os.environ["MILLRACE_LIBRARY"] = os.path.join(root, "millrace/c/libmillrace.so")
    os.environ["MILLRACE_CLUSTER_LIBRARY"] = os.path.join(root, "millrace/c/libmillrace_cluster.so")
    os.environ["MILLRACE_AGENT"] = os.path.join(root, "core/agent/millrace-agent")
    os.environ["HOME"] = os.environ["TEST_TMPDIR"]
    needed = _PACKAGE.get(name)
    if needed and not importlib.util.find_spec(needed):
        print(f"SKIPPED: {needed} is not installed for this Python (Debian package python3-{needed})")
        return 1 if os.environ.get(f"MILLRACE_REQUIRE_{needed.upper()}") == "1" else 0
    accuracy = importlib.import_module(name).drive()
    print(f"accuracy: {accuracy:.3f}")
    return 0 if accuracy >= _LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
