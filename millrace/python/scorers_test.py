"""Models of every library, beside what the library itself answers."""

import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

import lightgbm
import numpy as np
import onnxruntime
import xgboost

from millrace import InvalidArgumentError, scorers

_ONNX = "examples/python/digits.onnx"
_DRAWN = np.random.default_rng(5)


def _matrix(rows=200, columns=4):
    return _DRAWN.random((rows, columns), np.float32)


def _target(matrix):
    return matrix @ np.arange(1, matrix.shape[1] + 1)


class OnnxTest(unittest.TestCase):
    def setUp(self):
        self.scorer = scorers.load(_ONNX)
        self.session = onnxruntime.InferenceSession(_ONNX, providers=["CPUExecutionProvider"])
        self.width = self.session.get_inputs()[0].shape[1]

    def test_it_answers_as_its_library(self):
        images = _matrix(30, self.width)
        self.assertEqual((self.scorer.inputs, self.scorer.outputs), (("image",), ("scores",)))
        scores = self.scorer({"image": images})["scores"]
        np.testing.assert_array_equal(scores, self.session.run(None, {"image": images})[0])

    def test_numbers_are_converted(self):
        images = _DRAWN.integers(0, 2, (3, self.width))
        scores = self.scorer({"image": images})["scores"]
        self.assertEqual((scores.shape, scores.dtype), ((3, 10), np.float32))
        np.testing.assert_array_equal(scores, self.scorer({"image": images.astype(np.float32)})["scores"])

    def test_rows_are_brought_into_shape(self):
        images = _matrix(6, self.width)
        shaped = images.reshape(6, 2, -1)
        scores = self.scorer({"image": shaped})["scores"]
        np.testing.assert_array_equal(scores, self.scorer({"image": images})["scores"])

    def test_rows_of_another_size(self):
        with self.assertRaisesRegex(InvalidArgumentError, f"'image' takes {self.width} for each row, and a row has 5"):
            self.scorer({"image": _matrix(3, 5)})

    def test_no_rows(self):
        self.assertEqual(self.scorer({"image": _matrix(0, self.width)})["scores"].shape, (0, 10))


class TreesTest(unittest.TestCase):
    def test_xgboost(self):
        known = _matrix()
        known[::3, 1] = np.nan
        booster = xgboost.train({}, xgboost.DMatrix(known, _target(_matrix())), 5)
        for kind in ("ubj", "json"):
            scorer = scorers.load(f"model.{kind}", bytes(booster.save_raw(kind)))
            self.assertTrue(scorer.takes_missing)
            answer = scorer({"features": known})["prediction"]
            np.testing.assert_allclose(answer, booster.predict(xgboost.DMatrix(known)), rtol=1e-6)

    def test_lightgbm(self):
        known = _matrix()
        known[::3, 1] = np.nan
        booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(known, _target(_matrix())), 5)
        scorer = scorers.load("model.txt", booster.model_to_string().encode())
        np.testing.assert_array_equal(scorer({"features": known})["prediction"], booster.predict(known))

    def test_one_number_is_a_row(self):
        known = _matrix(50, 1)
        booster = xgboost.train({}, xgboost.DMatrix(known, known[:, 0]), 2)
        scorer = scorers.load("model.ubj", bytes(booster.save_raw("ubj")))
        np.testing.assert_array_equal(
            scorer({"features": known[:, 0]})["prediction"], scorer({"features": known})["prediction"]
        )


@unittest.skipUnless(
    importlib.util.find_spec("torch") or os.environ.get("MILLRACE_REQUIRE_TORCH") == "1",
    "torch is not installed (Debian package python3-torch)",
)
class TorchScriptTest(unittest.TestCase):
    def _saved(self, module, *examples):
        import torch

        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "model.pt")
        torch.jit.trace(module.eval(), examples, strict=False).save(str(path))
        return path

    def test_it_answers_as_its_library(self):
        import torch

        torch.manual_seed(3)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        scorer = scorers.load(self._saved(module, torch.zeros(1, 4)))
        self.assertEqual((scorer.inputs, scorer.outputs), (("input",), ("output",)))
        given = _matrix()
        with torch.inference_mode():
            want = np.from_dlpack(module(torch.from_dlpack(given)))
        np.testing.assert_allclose(scorer({"input": given})["output"], want, rtol=1e-6)
        given.flags.writeable = False  # as memory of Arrow's is
        np.testing.assert_allclose(scorer({"input": given})["output"], want, rtol=1e-6)

    def test_several_inputs_and_answers(self):
        import torch

        class Both(torch.nn.Module):
            def forward(self, left, right):
                return {"sum": left + right, "product": left * right}

        scorer = scorers.load(self._saved(Both(), torch.ones(2), torch.ones(2)))
        self.assertEqual(scorer.inputs, ("left", "right"))
        answer = scorer({"left": np.array([1.0, 2.0]), "right": np.array([3.0, 4.0])})
        self.assertEqual({name: rows.tolist() for name, rows in answer.items()}, {"sum": [4, 6], "product": [3, 8]})


class FilesTest(unittest.TestCase):
    def test_a_name_that_says_nothing(self):
        with self.assertRaisesRegex(InvalidArgumentError, r"'model.bin' is no model .* names end with .onnx, .pt"):
            scorers.load("model.bin")

    def test_no_file(self):
        with self.assertRaises(FileNotFoundError):
            scorers.load("none.onnx")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
