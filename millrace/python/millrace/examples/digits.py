"""Learns to read digits on two nodes of this machine, and prints how many of those it has not seen it reads.

    python -m millrace.examples.digits

Each node fits a linear model to the rows that it is fed; afterwards they average their models, each by its rows. It
needs Python alone, and so it computes with lists. A program with NumPy or PyTorch takes batch["image"].numpy() or
batch["image"].torch() instead.
"""

import array
import csv
import math
import operator
import pathlib
from typing import List, Tuple

import millrace

_CLASSES = 10
_PIXELS = 64
_EPOCHS = 10
_RATE = 0.05

# For each digit the weights of the pixels.
_Model = List[List[float]]


def _scores(model: _Model, image: List[float]) -> List[float]:
    return [sum(map(operator.mul, weights, image)) for weights in model]


def _step(model: _Model, image: List[float], label: int) -> float:
    """One step down the gradient, in place. Returns the loss before it."""
    scores = _scores(model, image)
    highest = max(scores)
    likely = [math.exp(score - highest) for score in scores]
    total = sum(likely)
    for digit, weights in enumerate(model):
        step = _RATE * (likely[digit] / total - (digit == label))
        weights[:] = [weight - step * pixel for weight, pixel in zip(weights, image)]
    return highest + math.log(total) - scores[label]


def _average(node: millrace.Node, model: _Model, rows: int) -> _Model:
    """The mean of all nodes' models."""
    mine = array.array("d", [weight * rows for weights in model for weight in weights] + [rows])
    node.kv.set(f"weights/{node.rank}", mine.tobytes())
    parts = [array.array("d", node.kv.get(f"weights/{rank}", timeout=60)) for rank in range(node.num_workers)]
    *weights, total = map(sum, zip(*parts))
    means = [weight / total for weight in weights]
    return [means[first : first + _PIXELS] for first in range(0, len(means), _PIXELS)]


def main(node: millrace.Node) -> None:
    """What each node runs."""
    model = [[0.0] * _PIXELS for _ in range(_CLASSES)]
    rows = 0
    for step, batch in enumerate(node.feed(batch=32)):
        pairs = zip(batch["image"].to_pylist(), batch["label"].to_pylist())
        loss = sum(_step(model, image, label) for image, label in pairs)
        rows += batch.num_rows
        node.metric("loss", step, loss / batch.num_rows)
    model = _average(node, model, rows)
    feed = node.feed(batch=32, mode="inference")
    for batch in feed:
        scores = [_scores(model, image) for image in batch["image"].to_pylist()]
        feed.results({"digit": [each.index(max(each)) for each in scores]})


def _read() -> Tuple[List[List[float]], List[int]]:
    """The images, 64 numbers from 0 to 1 each, and their labels."""
    with open(pathlib.Path(__file__).with_name("digits.csv"), newline="", encoding="ascii") as file:
        _, *rows = csv.reader(file)
    return [[int(pixel) / 16 for pixel in row[2:]] for row in rows], [int(row[1]) for row in rows]


def drive() -> float:
    """Trains on four fifths of the images. Returns the share of the others that is read right."""
    images, labels = _read()
    known = [row for row in range(len(labels)) if row % 5 != 0]
    with millrace.Cluster.run(main, 2, input_mode=millrace.InputMode.FEED) as cluster:
        table = {"image": [images[row] for row in known], "label": [labels[row] for row in known]}
        result = cluster.train(table, num_epochs=_EPOCHS, end_of_feed=True)
        print(f"trained on {result.rows} rows, exactly once: {result.exactly_once}")
        answers = cluster.inference({"image": images[::5]}).to_pylist()
    read = [bool(answer["digit"] == label) for answer, label in zip(answers, labels[::5])]
    return sum(read) / len(read)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
