"""No folder has more than forty files, no BUILD more than 600 lines, unless a README says why.

It is the README of the folder ("The folder has more than forty files because ..."), or of one above, which names it
("`app/` has a few more than forty files because ..."). Of a BUILD file it says "`BUILD` more than 600 lines".
"""

import os
import pathlib
import re
import tempfile
import unittest

_ROOT = pathlib.Path("README.md").resolve().parent
_FILES = 40
_BUILD_LINES = 600
# Inputs, one a file, that nobody looks for by name.
_DATA = "testing/fuzz/corpus"


def _is_made(name):
    """Of Python's and Bazel's making, or hidden."""
    return name == "__pycache__" or name.startswith((".", "bazel-")) or name.endswith(".pyc")


def _is_said(folder, root, what):
    """Whether a README says of the folder that it has this."""
    pattern = re.compile(r"(?:The folder|`([\w/]+?)/?`) has [^.]*?" + what)
    for above in (folder, *folder.parents):
        readme = above / "README.md"
        if readme.exists():
            for found in pattern.finditer(" ".join(readme.read_text(encoding="utf-8").split())):
                name = found.group(1)
                if above == folder if name is None else folder.as_posix().endswith("/" + name):
                    return True
        if above == root:
            return False
    return False


def too_full(root):
    """What is wrong, one line for each folder or BUILD file."""
    found = []
    for path, below, files in os.walk(root):
        folder = pathlib.Path(path)
        name = folder.relative_to(root).as_posix()
        below[:] = [] if name == _DATA else [folder for folder in below if not _is_made(folder)]
        files = [file for file in files if not _is_made(file)]
        if len(files) > _FILES and not _is_said(folder, root, "more than forty files"):
            found.append(f"{name} has {len(files)} files: divide it, or say in a README why it \"has more than forty "
                         "files\"")
        if "BUILD" in files:
            lines = len((folder / "BUILD").read_text(encoding="utf-8").splitlines())
            if lines > _BUILD_LINES and not _is_said(folder, root, "`BUILD` more than 600 lines"):
                found.append(f"{name}/BUILD has {lines} lines: divide it, or say in the README why \"The folder has "
                             "... and `BUILD` more than 600 lines\"")
    return found


class FolderSizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def fill(self, folder):
        for number in range(_FILES):
            self.write(f"{folder}/{number}.cc")

    def test_folders_and_build_files_have_room(self):
        self.assertTrue((_ROOT / "core/base/BUILD").exists(), "these are not the sources")
        self.assertEqual(too_full(_ROOT), [])

    def test_a_full_folder_is_named(self):
        self.fill("a/b")
        self.write("a/b/__pycache__/x.pyc")
        self.assertEqual(too_full(self.root), [])
        self.write("a/b/one_more.h")
        self.assertRegex("\n".join(too_full(self.root)), f"^a/b has {_FILES + 1} files: ")
        for other in ("The folder has", "`c` has", "`ab/` has"):
            self.write("a/README.md", f"{other} more than forty files because each is a name.")
            self.assertEqual(len(too_full(self.root)), 1, other)
        self.write("a/README.md", "It is one.\n\n`b/` has a few more than\nforty files because each is a name.")
        self.assertEqual(too_full(self.root), [])
        self.write("a/README.md")
        self.write("a/b/README.md", "The folder has more than forty\nfiles because each is a name.")
        self.assertEqual(too_full(self.root), [])

    def test_a_long_build_file_is_named(self):
        self.write("a/BUILD", "#\n" * _BUILD_LINES)
        self.assertEqual(too_full(self.root), [])
        self.write("a/BUILD", "#\n" * (_BUILD_LINES + 1))
        self.assertRegex("\n".join(too_full(self.root)), f"^a/BUILD has {_BUILD_LINES + 1} lines: ")
        self.write("a/README.md", "The folder has more than forty files because each is a name.")
        self.assertEqual(len(too_full(self.root)), 1)
        self.write("a/README.md", "The folder has few files and `BUILD` more than 600 lines because all is one.")
        self.assertEqual(too_full(self.root), [])

    def test_a_corpus_is_no_folder_of_sources(self):
        self.fill("testing/fuzz/corpus/frame")
        self.write("testing/fuzz/corpus/frame/one_more")
        self.assertEqual(too_full(self.root), [])


if __name__ == "__main__":
    unittest.main()
