"""A node and its driver where there is no package but millrace: rows of every kind go there and back."""

import sys

import millrace

_ROWS = {
    "id": list(range(40)),
    "text": [None if row % 7 == 0 else f"row {row} \u00fc" for row in range(40)],
    "image": [[row / 2, 1.0, -row] for row in range(40)],
    "even": [row % 2 == 0 for row in range(40)],
    "bytes": [bytes([row]) for row in range(40)],
}


def main(node: millrace.Node) -> None:
    """Answers each batch with itself, by the one and the other of the ways to do so."""
    feed = node.feed(batch=3, mode="inference")
    for number, batch in enumerate(feed):
        batch["image"].__dlpack__(), batch["text"].__arrow_c_array__()  # which nobody takes over
        feed.results(batch if number % 2 == 0 else dict(batch))
    node.kv.set(f"ended/{node.rank}", "")
    node.barrier("ended")


def drive() -> None:
    """Feeds the rows, and once more what came back, as a stream."""
    with millrace.Cluster.run(main, 2, input_mode=millrace.InputMode.FEED) as cluster:
        answers = cluster.inference(cluster.inference(_ROWS)).to_pylist()
        assert "2 running" in repr(cluster), cluster
    assert answers == [dict(zip(_ROWS, row)) for row in zip(*_ROWS.values())], answers
    foreign = {name.split(".")[0] for name in sys.modules} & {"numpy", "torch", "pyarrow", "pandas", "jax", "pyspark"}
    assert not foreign, foreign
    print("every row came back")


if __name__ == "__main__":
    drive()
