"""What .ci/same_bytes.py says of folders that differ."""

import pathlib
import tempfile
import unittest
import zipfile

import same_bytes


class SameBytesTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.one, self.another = (pathlib.Path(temporary.name) / name for name in ("one", "another"))
        self.one.mkdir()
        self.another.mkdir()

    def differences(self):
        return same_bytes.differences(self.one, self.another)

    def test_nothing_is_no_success(self):
        self.assertEqual(self.differences(), ["there is nothing to compare"])

    def test_equal_files(self):
        for folder in (self.one, self.another):
            (folder / "a.tar.gz").write_bytes(b"no archive, but equal")
        self.assertEqual(self.differences(), [])

    def test_a_file_that_one_does_not_have(self):
        (self.one / "a.deb").write_bytes(b"")
        self.assertEqual(self.differences(), ["a.deb is made once"])

    def test_an_entry_that_differs_is_named(self):
        for folder, second in ((self.one, 2), (self.another, 4)):
            with zipfile.ZipFile(folder / "a.whl", "w") as archive:
                archive.writestr(zipfile.ZipInfo("same"), "text")
                archive.writestr(zipfile.ZipInfo("other", (2026, 1, 1, 0, 0, second)), "text")
        self.assertEqual(self.differences(), ["a.whl differs", "  other"])


if __name__ == "__main__":
    unittest.main()
