"""Two ranks learn to read digits with Accelerate, which finds the others as under torchrun.

    python examples/python/accelerate_digits.py

Needs torch and accelerate. Every rank is fed rows of its own: only the model and the optimizer are prepared, because a
DataLoader that is prepared would divide the rows among the ranks once more.
"""

import digits_data
import millrace


def main(node):
    """What each rank runs."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    torch.set_num_threads(1)
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model, optimizer = accelerator.prepare(layers, torch.optim.Adam(layers.parameters(), lr=0.003))
    for step, batch in enumerate(node.feed(batch=32, equal="drop")):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch["image"].torch()), batch["label"].torch())
        accelerator.backward(loss)  # averages the gradients
        optimizer.step()
        node.metric("loss", step, accelerator.reduce(loss.detach(), "mean").item())
    feed = node.feed(batch=256, mode="inference")
    with torch.no_grad():
        for batch in feed:
            feed.results({"digit": layers(batch["image"].torch()).argmax(dim=1)})


def drive(num_ranks=2):
    known, held_out = digits_data.read()
    with millrace.Cluster.run(main, num_ranks, input_mode=millrace.InputMode.FEED) as cluster:
        print(cluster.train(known, num_epochs=20, end_of_feed=True))
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
