"""Two nodes read digits with ONNX Runtime, by the model that pytorch_digits.py has exported.

    python examples/python/onnx_digits.py

Needs onnxruntime.
"""

import pathlib

import digits_data
import millrace

_MODEL = pathlib.Path(__file__).with_name("digits.onnx")


def main(node):
    """What each node runs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(_MODEL, providers=["CPUExecutionProvider"])
    feed = node.feed(batch=256, mode="inference")
    for batch in feed:
        (scores,) = session.run(["scores"], {"image": batch["image"].numpy()})
        feed.results({"digit": scores.argmax(axis=1)})


def drive(num_nodes=2):
    _, held_out = digits_data.read()
    with millrace.Cluster.run(main, num_nodes, input_mode=millrace.InputMode.FEED) as cluster:
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
