"""Two ranks learn to read digits with Lightning, which finds the others as under torchrun.

    python examples/python/lightning_digits.py

Needs torch and pytorch-lightning. `devices` and `num_nodes` are asked for: Lightning does not take them from the
environment.
"""

import os

import digits_data
import millrace


def main(node):
    """What each rank runs."""
    import pytorch_lightning as lightning
    import torch
    from torch.utils.data import DataLoader

    class Digits(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

        def _register_sharded_tensor_state_dict_hooks_if_available(self):
            """For PyTorch 1.13 on Python 3.11, where torch.distributed._shard cannot be imported."""

        def training_step(self, batch, number):
            loss = torch.nn.functional.cross_entropy(self.layers(batch["image"]), batch["label"])
            node.metric("loss", number, loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.003)

    torch.set_num_threads(1)
    lightning.seed_everything(0)
    here, everywhere = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=here, num_nodes=everywhere // here, max_epochs=1, **quiet
    )
    model = Digits()
    # One epoch of Lightning's: how often the rows come, the driver says.
    trainer.fit(model, DataLoader(node.feed(batch=32, equal="drop").torch(), batch_size=None))
    feed = node.feed(batch=256, mode="inference")
    with torch.no_grad():
        for batch in feed:
            feed.results({"digit": model.layers(batch["image"].torch()).argmax(dim=1)})


def drive(num_ranks=2):
    known, held_out = digits_data.read()
    with millrace.Cluster.run(main, num_ranks, input_mode=millrace.InputMode.FEED) as cluster:
        print(cluster.train(known, num_epochs=20, end_of_feed=True))
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
