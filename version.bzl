"""Millrace's version, which all that is built takes from here.

Files that must hold it themselves, such as MODULE.bazel and the C header, are compared with it by
//testing/pages:version_test, which names them.
"""

VERSION = "0.2.0"

# What the C++ libraries' names end with: until 1.0 their interface may change with the second number.
SOVERSION = ".".join(VERSION.split(".")[:2])
