"""TFRecord files between TensorFlow and Millrace. Not among `//...`: its packages are 310 MB, 1.4 GB once installed.

    ./bazelw test //testing/tfrecord:tensorflow_test
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import tensorflow as tf

_ROOT = pathlib.Path(__file__).parent.parent.parent
_GOLDEN = _ROOT / "testing/tfrecord/golden"
_COMPRESSIONS = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def _bytes(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _integers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features))


def golden_examples():
    """What golden_test.cc expects."""
    for i in range(3):
        features = {
            "id": _integers(i),
            "extremes": _integers(-(2**63), 2**63 - 1, -1, 0, 127, 128),
            "image": _bytes(b"\xff\x00" * i),
            "name": _bytes(f"row {i} \u00fc".encode()),
            "tags": _bytes(*[f"tag {k}".encode() for k in range(i)]),
            "x": _floats(i, i + 0.5),
        }
        if i != 1:
            features["score"] = _floats(i / 4)
        yield _example(**features)


def random_examples(count):
    numbers = random.Random(1)
    for _ in range(count):
        features = {
            "i": _integers(numbers.getrandbits(64) - 2**63),
            "f": _floats(numbers.uniform(-1e30, 1e30)),
            "text": _bytes("".join(numbers.choices("abc\u00fc\u20ac\U0001f600", k=numbers.randrange(20))).encode()),
            "data": _bytes(numbers.randbytes(numbers.randrange(1, 500)) + b"\xff"),
            "i_list": _integers(*[numbers.getrandbits(numbers.randrange(1, 63)) for _ in range(numbers.randrange(50))]),
            "f_list": _floats(*[numbers.gauss(0, 1) for _ in range(numbers.randrange(50))]),
            "data_list": _bytes(*[numbers.randbytes(3) for _ in range(numbers.randrange(5))]),
            "f_fixed": _floats(*[numbers.gauss(0, 1) for _ in range(3)]),
        }
        for name in numbers.sample(sorted(features), numbers.randrange(3)):
            if not name.endswith("_fixed"):
                del features[name]
        yield _example(**features)


def write(path, examples, compression):
    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for example in examples:
            writer.write(example.SerializeToString())


def records(path, compression):
    return list(tf.data.TFRecordDataset(str(path), compression_type=compression).as_numpy_iterator())


class TensorFlowTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rewrite(self, source, target, *flags):
        """The schema that Millrace has read."""
        command = [_ROOT / "testing/tfrecord/rewrite", source, target, *flags]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def test_tensorflow_reads_what_millrace_has_read_of_its_files(self):
        examples = list(random_examples(500))
        for name, compression in _COMPRESSIONS.items():
            for target, written in _COMPRESSIONS.items():
                with self.subTest(read=name, written=target):
                    source = self.folder / f"{name}.tfrecord"
                    rewritten = self.folder / f"{name}_{target}.tfrecord"
                    write(source, examples, compression)
                    schema = self.rewrite(source, rewritten, f"--compression={target}", "--fixed=f_fixed:3")
                    self.assertEqual(
                        schema,
                        "data: binary, data_list: list<binary>, f: float32, f_fixed: fixed_size_list<float32>[3], "
                        "f_list: list<float32>, i: int64, i_list: list<int64>, text: utf8",
                    )
                    self.assertEqual([tf.train.Example.FromString(r) for r in records(rewritten, written)], examples)

    def test_tensorflow_parses_what_millrace_writes(self):
        source, rewritten = self.folder / "a", self.folder / "b"
        write(source, [_example(x=_floats(1, 2), label=_integers(7), name=_bytes(b"n"))] * 3, "")
        self.rewrite(source, rewritten, "--fixed=x:2")
        dataset = tf.data.TFRecordDataset(str(rewritten)).batch(3)
        spec = {
            "x": tf.io.FixedLenFeature([2], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "name": tf.io.FixedLenFeature([], tf.string),
        }
        parsed = tf.io.parse_example(next(iter(dataset)), spec)
        self.assertEqual(parsed["x"].numpy().tolist(), [[1, 2]] * 3)
        self.assertEqual(parsed["label"].numpy().tolist(), [7] * 3)
        self.assertEqual(parsed["name"].numpy().tolist(), [b"n"] * 3)

    def test_other_records_pass_as_they_are(self):
        for name, compression in _COMPRESSIONS.items():
            with self.subTest(compression=name):
                source, rewritten = self.folder / "a", self.folder / "b"
                expected = [b"", b"no example", os.urandom(100_000)]
                with tf.io.TFRecordWriter(str(source), options=compression) as writer:
                    for record in expected:
                        writer.write(record)
                self.assertEqual(self.rewrite(source, rewritten, "--raw"), "record: binary not null")
                self.assertEqual(records(rewritten, ""), expected)

    def test_a_file_without_records_is_one(self):
        for name, compression in _COMPRESSIONS.items():
            with self.subTest(compression=name):
                source, rewritten = self.folder / "a", self.folder / "b"
                with tf.io.TFRecordWriter(str(source), options=compression):
                    pass
                self.rewrite(source, rewritten, "--raw", f"--compression={name}")
                self.assertEqual(records(rewritten, compression), [])

    def test_the_golden_files_hold_what_this_test_makes(self):
        for name, compression in _COMPRESSIONS.items():
            with self.subTest(compression=name):
                found = [tf.train.Example.FromString(r) for r in records(_GOLDEN / f"{name}.tfrecord", compression)]
                self.assertEqual(found, list(golden_examples()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for name, compression in _COMPRESSIONS.items():
            write(pathlib.Path(sys.argv[2], f"{name}.tfrecord"), golden_examples(), compression)
    else:
        unittest.main()
