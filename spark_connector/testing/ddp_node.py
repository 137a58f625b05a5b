"""The node program of ddp_checks.py: a rank of PyTorch's DistributedDataParallel over Gloo.

ddp_node.py FOLDER BATCH WHAT: FOLDER is one that all ranks and the driver see. WHAT is a function below.
"""

import array
import hashlib
import json
import os
import pathlib
import signal
import sys
import time

import millrace
import torch
from torch.nn.parallel import DistributedDataParallel

_FOLDER = pathlib.Path(sys.argv[1])
_BATCH = int(sys.argv[2])
_KILLED_AT = 5  # the step
_PATIENCE_S = 400


def _join(node):
    torch.set_num_threads(1)
    if node.attempt == 0:
        torch.distributed.init_process_group("gloo")  # finds the others by the environment
        return
    # All ranks have been started again, and the first one may have lost its port.
    key = f"store of attempt {node.attempt}"
    if node.rank == 0:
        store = torch.distributed.TCPStore("127.0.0.1", 0, node.num_workers, True, wait_for_workers=False)
        node.kv.set(key, str(store.port))
    else:
        port = int(node.kv.get(key, timeout=_PATIENCE_S))
        store = torch.distributed.TCPStore("127.0.0.1", port, node.num_workers, False)
    torch.distributed.init_process_group("gloo", store=store, rank=node.rank, world_size=node.num_workers)


class _Learner:
    """Learns y from x. The gradients are averaged over all ranks."""

    def __init__(self, state=None):
        torch.manual_seed(torch.distributed.get_rank())  # the first rank's parameters become everybody's
        self.layer = torch.nn.Linear(4, 1)
        if state is not None:
            self.layer.load_state_dict(state)
        self._model = DistributedDataParallel(self.layer)
        self._optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.5)

    def step(self, batch):
        x, y = batch["x"].torch(), batch["y"].torch()
        assert x.shape == (_BATCH, 4), x.shape
        self._optimizer.zero_grad()
        torch.nn.functional.mse_loss(self._model(x).squeeze(1), y).backward()
        self._optimizer.step()

    def told(self):
        numbers = [parameter.detach().flatten().tolist() for parameter in self.layer.parameters()]
        return {"hash": hashlib.sha256(repr(numbers).encode()).hexdigest(), "weights": numbers[0]}


def _write(name, value):
    part = _FOLDER / f"part of {os.getpid()}"
    part.write_text(json.dumps(value), encoding="utf-8")
    part.rename(_FOLDER / f"{name}.json")


def _learn(node, num_rows):
    """All that the first queue brings; tells how often each row was used by all ranks together."""
    learner = _Learner()
    used = torch.zeros(num_rows, dtype=torch.int32)
    one = torch.ones(_BATCH, dtype=torch.int32)
    steps = 0
    for batch in node.feed(batch=_BATCH, equal="drop"):
        learner.step(batch)
        used.index_add_(0, batch["id"].torch(), one)
        steps += 1
    torch.distributed.all_reduce(used)
    told = {"steps": steps, "used": int(used.sum()), "most": int(used.max()), **learner.told()}
    _write(node.name, told)
    return learner


def learns(node):
    _learn(node, int(sys.argv[4]))


def learns_and_is_killed(node):
    """Then, in the middle of another call, the second rank's process is killed. The others tell what they hear."""
    learner = _learn(node, int(sys.argv[4]))
    feed = node.feed(batch=_BATCH, queue="output", equal="drop")
    try:
        for step, batch in enumerate(feed, 1):
            if step == _KILLED_AT and node.rank == 1:
                _write("killed", time.time())
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                learner.step(batch)
            except RuntimeError:  # Gloo's; it knows an address at most
                break
        for _ in feed:
            pass  # what was granted
    except millrace.AbortedError as error:
        _write(f"{node.name} heard", [time.time(), str(error)])
        raise


def _checkpoint(rank, step):
    return _FOLDER / f"rank {rank}, step {step}"


def _go_on(node, feed):
    """From the last step that every rank has a checkpoint of. Returns that, and the learner."""
    mine = [int(path.name.rpartition(" ")[2]) for path in _FOLDER.glob(_checkpoint(node.rank, "*").name)]
    step = torch.tensor(max(mine, default=0))
    torch.distributed.all_reduce(step, torch.distributed.ReduceOp.MIN)
    step = int(step)
    if step == 0:
        return 0, _Learner()
    for rank in range(node.num_workers):
        checkpoint = torch.load(_checkpoint(rank, step))
        feed.load_state_dict(checkpoint["feed"])  # of all ranks: any rows may come to this one now
    return step, _Learner(checkpoint["layer"])


def resumes(node):
    """The second rank's process is killed when it alone has no checkpoint of the step. Then all are started again."""
    feed = node.feed(batch=_BATCH, equal="drop")
    step, learner = _go_on(node, feed)
    first = step
    for step, batch in enumerate(feed, step + 1):
        learner.step(batch)
        if step == _KILLED_AT and node.rank == 1 and node.attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        part = _FOLDER / f"part of {os.getpid()}"
        torch.save({"layer": learner.layer.state_dict(), "feed": feed.state_dict()}, part)
        part.rename(_checkpoint(node.rank, step))
        ids = array.array("q", batch["id"].to_pylist())
        (_FOLDER / f"ids {node.rank}, {step}").write_bytes(ids.tobytes())
        # Asking for the next batch acknowledges this one: that is for when all have it in a checkpoint.
        torch.distributed.barrier()
    _write(node.name, {"first": first, "steps": step, **learner.told()})


def main(node):
    _join(node)
    globals()[sys.argv[3]](node)


if __name__ == "__main__":
    millrace.run_node(main)
