import json
import unittest

import tidy_check


class TidyCheckTest(unittest.TestCase):
    def test_a_header_is_looked_at_through_its_source(self):
        exists = {"a/b.cc", "a/c.cc"}.__contains__
        changed = ["a/b.h", "a/b.cc", "a/alone.h", "a/c.cc", "docs/a.md", ""]
        self.assertEqual(tidy_check.sources_of(changed, exists=exists), ["a/b.cc", "a/c.cc"])

    def test_a_source_of_another_workspace_is_left_out(self):
        changed = ["a/b.cc", "a/bc/d.cc"]
        self.assertEqual(tidy_check.sources_of(changed, ["a/b"], lambda path: True), changed)
        self.assertEqual(tidy_check.sources_of(changed, ["a/bc"], lambda path: True), ["a/b.cc"])

    def test_the_package_is_the_nearest_folder_with_a_BUILD_file(self):
        exists = {"a/BUILD", "BUILD"}.__contains__
        self.assertEqual(tidy_check.package_of("a/b/c.cc", exists), "a")
        self.assertEqual(tidy_check.package_of("c/c.cc", exists), "")

    def test_only_headers_of_the_list_are_looked_at(self):
        wanted = tidy_check.header_filter(["a/b.h", "a/b.cc"])
        self.assertRegex("/somewhere/./a/b.h", wanted)
        self.assertNotRegex("/somewhere/./a/b_h", wanted)
        self.assertNotRegex("/somewhere/./a/c.h", wanted)
        self.assertNotRegex("/somewhere/./a/c.h", tidy_check.header_filter(["a/b.cc"]))

    def test_clang_is_told_where_headers_are_and_not_how_gcc_warns(self):
        command = "gcc -U_FORTIFY_SOURCE -Wall -Werror -MD -MF a.d -frandom-seed=a.o -iquote . -isystem x -DA=1".split()
        command += "-fno-canonical-system-headers -include p.h -std=c++20 -c a.cc -o a.o".split()
        self.assertEqual(
            tidy_check.clang_options(command),
            ["-U_FORTIFY_SOURCE", "-iquote", ".", "-isystem", "x", "-DA=1", "-std=c++20"],
        )

    def test_the_command_of_a_source_is_found(self):
        command = ["gcc", "-c", "a/b.cc", "-o", "b.o"]
        actions = json.dumps({"actions": [{"arguments": command}, {"arguments": ["ar", "x"]}, {}]})
        self.assertEqual(tidy_check.commands_of(actions), {"a/b.cc": command})


if __name__ == "__main__":
    unittest.main()
