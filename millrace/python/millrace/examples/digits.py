"""Learns to read digits on two nodes of this machine, and prints how many of those it has not seen it reads.

    python -m millrace.examples.digits

Each node fits a linear model to the rows that it is fed; afterwards they average their models, each by its rows.
"""

import pathlib
from typing import Any, Tuple

import numpy as np

import millrace

_CLASSES = 10
_PIXELS = 64
_EPOCHS = 30
_RATE = 0.1


def _scores(images: Any, weights: Any) -> Any:
    return images @ weights[:-1] + weights[-1]


def _step(images: Any, labels: Any, weights: Any) -> float:
    """One step down the gradient, in place. Returns the loss before it."""
    scores = _scores(images, weights)
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(likely[rows, labels] + 1e-9).mean()
    likely[rows, labels] -= 1
    weights[:-1] -= _RATE * images.T @ likely / len(labels)
    weights[-1] -= _RATE * likely.mean(axis=0)
    return float(loss)


def _average(node: millrace.Node, weights: Any, rows: int) -> Any:
    """The mean of all nodes' weights."""
    node.kv.set(f"weights/{node.rank}", np.append(weights * rows, rows).astype(np.float64).tobytes())
    parts = [np.frombuffer(node.kv.get(f"weights/{rank}", timeout=60)) for rank in range(node.num_workers)]
    total = np.sum(parts, axis=0)
    return (total[:-1] / total[-1]).reshape(weights.shape)


def main(node: millrace.Node) -> None:
    """What each node runs."""
    weights = np.zeros((_PIXELS + 1, _CLASSES))
    rows = 0
    for step, batch in enumerate(node.feed(batch=32)):
        loss = _step(batch["image"].numpy(), batch["label"].numpy(), weights)
        rows += batch.num_rows
        node.metric("loss", step, loss)
    weights = _average(node, weights, rows)
    feed = node.feed(batch=32, mode="inference")
    for batch in feed:
        feed.results({"digit": _scores(batch["image"].numpy(), weights).argmax(axis=1)})


def _read() -> Tuple[Any, Any]:
    """The images, 64 numbers from 0 to 1 each, and their labels."""
    table = np.loadtxt(pathlib.Path(__file__).with_name("digits.csv"), delimiter=",", skiprows=1)
    return (table[:, 2:] / 16).astype(np.float32), table[:, 1].astype(np.int64)


def drive() -> float:
    """Trains on four fifths of the images. Returns the share of the others that is read right."""
    images, labels = _read()
    held_out = np.arange(len(labels)) % 5 == 0
    with millrace.Cluster.run(main, 2, input_mode=millrace.InputMode.FEED) as cluster:
        known = {"image": images[~held_out], "label": labels[~held_out]}
        result = cluster.train(known, num_epochs=_EPOCHS, end_of_feed=True)
        print(f"trained on {result.rows} rows, exactly once: {result.exactly_once}")
        answers = cluster.inference({"image": images[held_out]}).to_pylist()
    read = np.array([answer["digit"] for answer in answers])
    return float((read == labels[held_out]).mean())


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
