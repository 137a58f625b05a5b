"""What a public header brings along: other public headers, Abseil and the standard library, nothing else.

One, whose subject is gRPC, brings gRPC and with it Protobuf. And whether it says which types it defines.
"""

import os
import re
import subprocess
import unittest

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
WITH_GRPC = {"cluster_server.h"}
GRPC = re.compile(r"\b(grpc|grpcpp|protobuf)(/|\.h)")
ELSEWHERE = re.compile(r"\b(zmq|nlohmann|nanoarrow|spdlog|fmt|curl|openssl)(/|\.h|\.hpp)")


def headers():
    return sorted(name for name in os.listdir(os.path.join(ROOT, "millrace")) if name.endswith(".h"))


def included(name, *only):
    """The files that the compiler reads for a header, as it names them; fails if it cannot."""
    done = subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", *only, "-MF", "/dev/stdout", "-I", ROOT, "-x", "c++", "-"],
        input=f"#include <millrace/{name}>\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.replace("\\\n", " ").split()[1:]


def foreign(path, with_grpc=False):
    """Whether a public header must not bring this file along."""
    inside = os.path.relpath(path, ROOT)
    if not inside.startswith(".."):
        return re.fullmatch(r"millrace/(internal/)?\w+\.h", inside) is None
    return ELSEWHERE.search(path) is not None or (not with_grpc and GRPC.search(path) is not None)


class IncludeClosureTest(unittest.TestCase):
    def test_each_header_brings_nothing_of_ours(self):
        for name in headers():
            with self.subTest(header=name):
                files = included(name, "-M")  # without parsing what it includes
                self.assertEqual(files.count(os.path.join(ROOT, "millrace", name)), 1)
                self.assertEqual([file for file in files if foreign(file, name in WITH_GRPC)], [])

    # The others stand first in a source of their own, or in one of these.
    def test_what_users_include_compiles_alone(self):
        for name in ("batch.h", "client.h", "cluster.h", "node.h", "resolver.h", "source.h"):
            with self.subTest(header=name):
                self.assertIn(os.path.join(ROOT, "millrace", name), included(name, "-fsyntax-only", "-MD"))

    def test_they_name_abseil_and_each_other_only(self):
        for name in headers():
            with open(os.path.join(ROOT, "millrace", name), encoding="utf-8") as file:
                names = re.findall(r'(?m)^#include "(.*)"$', file.read())
            for included_name in names:
                self.assertRegex(included_name, r"^(millrace|absl)/", name)

    def test_each_header_says_at_its_top_which_types_it_defines(self):
        for name in headers():
            with self.subTest(header=name), open(os.path.join(ROOT, "millrace", name), encoding="utf-8") as file:
                banner, code = file.read().split("#ifndef ", 1)
                self.assertIn("\n// Defines: ", banner)
                public = re.sub(r"(?s)namespace internal \{.*?\}  // namespace internal", "", code)
                defined = re.findall(r"(?m)^(?:class|struct|enum class|enum) (\w+)[^;\n]*\{", public)
                self.assertLessEqual(set(defined), set(re.findall(r"\w+", banner.split("// Defines: ")[1])))

    def test_what_is_foreign_is_told(self):
        for path in ("core/base/json.h", "feed/arrow/batch_layout.h", "millrace/c/node.h"):
            self.assertTrue(foreign(os.path.join(ROOT, path)), path)
        for path in ("/usr/include/zmq.h", "/usr/include/nlohmann/json.hpp", "/usr/include/grpcpp/server.h",
                     "/usr/include/google/protobuf/message.h", "/opt/nanoarrow/nanoarrow.hpp"):
            self.assertTrue(foreign(path), path)
        self.assertFalse(foreign("/usr/include/grpcpp/server.h", with_grpc=True))
        self.assertTrue(foreign("/usr/include/zmq.h", with_grpc=True))
        for path in ("/usr/include/absl/status/status.h", "/usr/include/c++/12/string",
                     os.path.join(ROOT, "millrace/node.h")):
            self.assertFalse(foreign(path), path)


if __name__ == "__main__":
    unittest.main()
