"""The images that these examples learn from: 8x8 pixels of handwritten digits, and which digit each is."""

import pathlib

import numpy as np

_FILE = pathlib.Path(__file__).resolve().parent.parent / "digits" / "digits.csv"


def read():
    """Columns to learn from, and a fifth to see what was learnt: `image`, 64 numbers from 0 to 1 each, and `label`."""
    table = np.loadtxt(_FILE, delimiter=",", skiprows=1)
    images, labels = (table[:, 2:] / 16).astype(np.float32), table[:, 1].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return (
        {"image": images[~held_out], "label": labels[~held_out]},
        {"image": images[held_out], "label": labels[held_out]},
    )


def accuracy(answers, held_out):
    """The share of rows whose `digit` is the label. Answers come in the order of the rows."""
    digits = np.array([answer["digit"] for answer in answers])
    return float((digits == held_out["label"]).mean())
