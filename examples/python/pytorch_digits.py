"""Two ranks learn to read digits with PyTorch's DistributedDataParallel.

    python examples/python/pytorch_digits.py [FOLDER]

`equal="drop"` gives both ranks equally many batches, all of one size, so that neither waits in an all-reduce
that the other does not come to. FOLDER is made, and gets the model as digits.onnx.
"""

import os
import sys

import digits_data
import millrace
import torch
from torch.nn.parallel import DistributedDataParallel


def main(node):
    """What each rank runs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")  # finds the others by the environment
    layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step, batch in enumerate(node.feed(batch=32, equal="drop")):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch["image"].torch()), batch["label"].torch())
        loss.backward()  # averages the gradients
        optimizer.step()
        node.metric("loss", step, loss.item())
    if folder := os.environ.get("MODEL"):
        node.export_model(folder, lambda made: _export(layers, f"{made}/digits.onnx"))
    feed = node.feed(batch=256, mode="inference")
    with torch.no_grad():
        for batch in feed:
            feed.results({"digit": layers(batch["image"].torch()).argmax(dim=1)})


def _export(layers, path):
    rows = {0: "rows"}
    names = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": {"image": rows, "scores": rows}}
    torch.onnx.export(layers, torch.zeros(1, 64), path, **names)


def drive(folder="", num_ranks=2):
    known, held_out = digits_data.read()
    env = {"MODEL": os.path.abspath(folder)} if folder else {}
    with millrace.Cluster.run(main, num_ranks, input_mode=millrace.InputMode.FEED, env=env) as cluster:
        print(cluster.train(known, num_epochs=20, end_of_feed=True))
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive(*sys.argv[1:]):.2f}")
