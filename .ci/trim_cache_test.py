"""What .ci/trim_cache.py removes and what it leaves."""

import os
import pathlib
import tempfile
import time
import unittest

import trim_cache

_SIZE = 1 << 16


class TrimCacheTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for number in range(4):
            path = self.folder / f"cas/{number:02}/file{number}"
            path.parent.mkdir(parents=True)
            path.write_bytes(os.urandom(_SIZE))
            os.utime(path, (1000 + number, 500))

    def left(self):
        return sorted(path.name for path in self.folder.glob("cas/*/*"))

    def test_what_fits_stays(self):
        self.assertEqual(trim_cache.trim(self.folder, 4 * _SIZE), (4 * _SIZE, 0))
        self.assertEqual(self.left(), ["file0", "file1", "file2", "file3"])

    def test_what_was_read_longest_ago_goes_first(self):
        os.utime(self.folder / "cas/00/file0", (2000, 500))
        self.assertEqual(trim_cache.trim(self.folder, 2 * _SIZE), (2 * _SIZE, 2 * _SIZE))
        self.assertEqual(self.left(), ["file0", "file3"])

    def test_what_was_written_and_never_read_is_as_new_as_that(self):
        os.utime(self.folder / "cas/00/file0", (500, 2000))
        trim_cache.trim(self.folder, _SIZE)
        self.assertEqual(self.left(), ["file0"])

    def read(self, number):
        """Reads a file, later than its own times if the file system writes that down; whether it does."""
        path = self.folder / f"cas/{number:02}/file{number}"
        end = time.monotonic() + 1
        while time.monotonic() < end:
            path.read_bytes()
            state = path.stat()
            if state.st_atime > max(state.st_mtime, state.st_ctime):
                return True
        return False

    def test_what_is_read_after_it_was_watched_is_new(self):
        if not all([self.read(number) for number in range(4)]):
            self.skipTest("this file system writes down no reading")
        trim_cache.watch(self.folder)
        self.assertTrue(self.read(0))
        trim_cache.trim(self.folder, 2 * _SIZE)
        self.assertEqual(self.left(), ["file0", "file3"])

    def test_watching_does_not_change_the_order(self):
        trim_cache.watch(self.folder)
        trim_cache.watch(self.folder)
        trim_cache.trim(self.folder, 2 * _SIZE)
        self.assertEqual(self.left(), ["file2", "file3"])

    def test_the_disk_gets_the_room_that_it_lacks(self):
        kept, gone = trim_cache.trim(self.folder, 4 * _SIZE, free=10 * _SIZE, free_now=lambda _: 8.5 * _SIZE)
        self.assertEqual((kept, gone), (2 * _SIZE, 2 * _SIZE))
        self.assertEqual(self.left(), ["file2", "file3"])

    def test_a_disk_that_others_fill_costs_all_and_no_more(self):
        self.assertEqual(trim_cache.trim(self.folder, 4 * _SIZE, free=99 * _SIZE, free_now=lambda _: 0)[0], 0)
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
