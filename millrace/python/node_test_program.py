"""The node program of node_test.py: what it does is its first argument. What goes wrong raises."""

import concurrent.futures
import ctypes
import datetime
import functools
import gc
import itertools
import json
import math
import multiprocessing
import os
import queue
import signal
import sys
import threading

import millrace


def train(node):
    """Adds up what it is fed, then answers with twice the number and the text in capitals."""
    total, rows = 0, 0
    for batch in node.feed(batch=7, columns={"id": "id", "image": "x"}):
        assert list(batch) == ["id", "x"] and len(batch) == 2, list(batch)
        x = batch["x"].numpy()
        assert x.shape == (batch.num_rows, 4) and x.dtype == "float32", (x.shape, x.dtype)
        assert batch["x"].shape == x.shape
        total += int(batch["id"].numpy().sum())
        assert float(x.sum()) == 4.0 * float(batch["id"].numpy().sum())
        rows += batch.num_rows
    node.metric("total", rows, total)
    all_rows = node.kv.add("rows", rows)
    node.barrier("trained")
    assert node.kv.add("rows", 0) >= all_rows
    node.kv.set(f"address of {node.rank}", node.address)
    assert node.kv.get("address of 0", timeout=60) == node.cluster_spec["worker"][0].encode()

    feed = node.feed(batch=5, mode="inference")
    for batch in feed:
        answer(feed, batch)
    assert feed.should_stop and feed.next(1) is None


def answer(feed, batch):
    """The same results by way of NumPy, of lists and columns, and of Arrow."""
    doubled = 2 * batch["id"].numpy()
    texts = [text.upper() for text in batch["name"].to_pylist()]
    flags = [number % 2 == 0 for number in batch["id"].to_pylist()]
    middle = 2
    feed.results({
        "id": batch["id"].numpy()[:middle], "doubled": doubled[:middle], "name": texts[:middle],
        "image": batch["image"].numpy()[:middle], "even": flags[:middle],
    })  # fmt: skip
    if batch.num_rows <= middle:
        return
    import pyarrow as pa

    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(batch["id"]).slice(middle), pa.array(doubled)[middle:], pa.array(texts)[middle:],
            pa.array(batch["image"])[middle:], pa.array(flags)[middle:],
        ],
        ["id", "doubled", "name", "image", "even"],
    )  # fmt: skip
    half = rows.num_rows // 2
    feed.results(rows.slice(0, half))
    feed.results(pa.Table.from_batches([rows.slice(half)]))


def types(node):
    """Every type to Python, and columns of a batch back as results."""
    feed = node.feed(batch=100, mode="inference")
    for batch in feed:
        import pyarrow as pa

        assert pa.record_batch(batch).to_pylist() == batch.to_pylist(), batch.to_pylist()
        for name, column in batch.items():
            assert pa.array(column).to_pylist() == column.to_pylist(), name
        assert batch["struct.a"].to_pylist() == [1, 2, 3]
        assert batch["equal"].numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
        assert str(batch["day"].numpy().dtype) == "datetime64[D]"
        assert batch["day"].to_pylist()[0] == datetime.date(2024, 2, 29)
        assert str(batch["moment"].numpy().dtype) == "datetime64[us]"
        assert batch["flag"].numpy().tolist() == [True, False, True]
        feed.results({
            "int": batch["int"], "half": batch["half"], "text": batch["text"], "flag": batch["flag"],
            "maybe": batch["maybe"], "cube": batch["cube"], "moment": batch["moment"].numpy(), "day": batch["day"],
            "nested": [[1.5, 2], [3, 4], [5, 6]], "bytes": [b"a", None, b"\x00"],
        })  # fmt: skip


def wide(node):
    """Some columns are read one by one, and then all at once; every third is text."""
    gc.disable()  # what holds itself would never be freed
    held = []
    for batch in node.feed(batch=4):
        first = batch["id"].numpy()[0]
        for _ in range(2):
            for number, (name, column) in enumerate(list(batch.items())[1:61]):
                if number % 3 == 0:
                    raises(millrace.InvalidArgumentError, f'"{name}" of type utf8', lambda: column.shape)
                else:
                    assert column.numpy().tolist() == [number + first + i for i in range(4)], (name, column.numpy())
        ids = batch["id"].to_pylist()
        assert batch["point.x"].numpy().tolist() == ids
        assert batch["pair"].numpy().tolist() == [[i, i + 0.5] for i in ids], batch["pair"].numpy()
        assert batch["cube"].numpy().tolist() == [[[[i], [i]]] for i in ids], batch["cube"].numpy()
        for name, kind in (("day", "D"), ("moment", "ns")):
            assert str(batch[name].numpy().dtype) == f"datetime64[{kind}]"
            assert batch[name].numpy().astype(int).tolist() == ids, name
        if first == 0:
            assert batch["maybe"].numpy().tolist() == [1.5, 2.5, 3.5, 4.5]
        else:
            raises(millrace.InvalidArgumentError, "1 nulls", batch["maybe"].numpy)
        batch["f1"].numpy()[0] = -1
        assert batch["f1"].to_pylist()[0] == -1
        held.append(batch["f2"].numpy())
        node.metric("rows", int(first), batch.num_rows)
    del batch, column
    assert [each[0] for each in held] == [2, 6], held
    del held
    left = [each for each in gc.get_objects() if type(each).__name__ == "_Rows"]
    assert not left, left


def tensors(node):
    feed = node.feed(batch=100, mode="inference")
    for batch in feed:
        made = {name: batch[name].torch() for name in ("int", "half", "flag", "cube", "equal")}
        for name in ("int", "half", "cube", "equal"):
            assert made[name].data_ptr() == batch[name].numpy().ctypes.data, name
        raises(millrace.InvalidArgumentError, "1 nulls", batch["maybe"].torch)
        raises(millrace.InvalidArgumentError, "timestamps", batch["moment"].torch)
        raises(millrace.InvalidArgumentError, "several lengths", batch["ragged"].torch)
        raises(millrace.InvalidArgumentError, "of type utf8 is no tensor", batch["text"].torch)
        feed.results(made)


def lifetimes(node):
    """What is made of a column holds its memory alone, with everything else gone."""
    import numpy as np
    import pyarrow as pa

    makers = {
        "numpy": lambda batch: batch["image"].numpy(),
        "__array__": lambda batch: np.asarray(batch["image"]),
        "__dlpack__": lambda batch: np.from_dlpack(batch["image"]),
        "column": lambda batch: batch["image"],
        "column to Arrow": lambda batch: pa.array(batch["image"]).flatten(),
        "batch to Arrow": lambda batch: pa.record_batch(batch).column("image").flatten(),
        "view of a view": lambda batch: memoryview(batch["image"].numpy()[1:])[1:],
    }
    feed = node.feed(batch=4)
    held, expected = {}, {}
    for how, make in makers.items():  # each of a partition, which is one piece of memory, of its own
        batch = feed.next(4)
        expected[how] = batch["image"].numpy().copy()
        held[how] = make(batch)
        addresses = {batch["image"].numpy().ctypes.data for _ in range(2)}
        assert len(addresses) == 1  # no copy
        batch.__arrow_c_array__(), batch["image"].__dlpack__()  # which nobody takes over
    held["numpy"][:] += 1  # the program's own memory
    expected["numpy"] += 1
    feed.terminate()
    feed.close()
    del batch, feed
    node.close()
    gc.collect()
    junk = [bytearray(1 << 19) for _ in range(64)]  # takes the place of what was freed
    for how, made in held.items():
        values = np.asarray(made).reshape(-1)
        assert (values == expected[how].reshape(-1)[-len(values) :]).all(), how
    del junk
    for act in (lambda: node.feed(), lambda: node.kv.get("x"), lambda: node.metric("x", 0, 0)):
        raises(millrace.FailedPreconditionError, "the node is closed", act)
    raises(millrace.FailedPreconditionError, "once", millrace.Node)
    print("outlived", flush=True)


def tensors_outlive(node):
    """Tensors of PyTorch too, and what is made of them; they hold the memory, and may be written to."""
    import torch

    makers = {
        "torch()": lambda batch: batch["image"].torch(),
        "from_dlpack()": lambda batch: torch.from_dlpack(batch["image"]),
        "view": lambda batch: batch["image"].torch()[1:].view(-1),
    }
    feed = node.feed(batch=4)
    held, expected = {}, {}
    for how, make in makers.items():  # each of a partition, which is one piece of memory, of its own
        batch = feed.next(4)
        held[how] = make(batch)
        memory = batch["image"].numpy()
        assert memory.ctypes.data <= held[how].data_ptr() < memory.ctypes.data + memory.nbytes, how  # no copy
        expected[how] = held[how].clone()
    held["torch()"] += 1
    expected["torch()"] += 1
    feed.terminate()
    feed.close()
    del batch, memory, feed
    node.close()
    del node
    gc.collect()
    junk = [torch.full((1 << 17,), -1.0) for _ in range(64)]  # takes the place of what was freed
    for how, made in held.items():
        assert torch.equal(made, expected[how]), how
    del junk
    print("outlived", flush=True)


def raises(kind, part, act):
    try:
        act()
    except kind as error:
        assert part in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__} with {part!r}")


def copies(batch):
    """As NumPy and DLPack ask for them, or for none."""
    import numpy as np

    ids, memory = batch["id"], batch["id"].numpy()
    assert np.shares_memory(ids.__array__(copy=False), memory) and np.shares_memory(ids.__array__(), memory)
    assert not np.shares_memory(ids.__array__(copy=True), memory)
    assert ids.__array__(np.float64).tolist() == memory.tolist()
    raises(ValueError, "no array of <class 'numpy.float64'>", lambda: ids.__array__(np.float64, copy=False))
    raises(ValueError, "copy=False", lambda: batch["name"].__array__(copy=False))

    class Shared:  # hands out one tensor, as NumPy wants it
        def __init__(self, **asked):
            self.asked = asked

        def __dlpack__(self, **_):
            return ids.__dlpack__(**self.asked)

        def __dlpack_device__(self):
            return ids.__dlpack_device__()

    assert np.shares_memory(np.from_dlpack(Shared(max_version=(1, 0), dl_device=(1, 0), copy=False)), memory)
    copied = np.from_dlpack(Shared(copy=True))
    assert copied.tolist() == memory.tolist() and not np.shares_memory(copied, memory)
    raises(BufferError, "the CPU", lambda: ids.__dlpack__(dl_device=(2, 0)))


def misuse(node):
    import numpy as np

    raises(millrace.InvalidArgumentError, "at least 1 row", lambda: node.feed(batch=0))
    raises(millrace.InvalidArgumentError, '"train" or "inference"', lambda: node.feed(mode="eval"))
    raises(millrace.InvalidArgumentError, '"drop", "pad" or None', lambda: node.feed(equal="even"))
    raises(millrace.InvalidArgumentError, "for training", lambda: node.feed(mode="inference", equal="drop"))
    raises(millrace.InvalidArgumentError, "a list of names", lambda: node.feed(columns="x"))
    raises(millrace.NotFoundError, "nowhere", lambda: node.feed(queue="nowhere"))
    raises(KeyError, "nothing", lambda: node.kv.get("nothing"))
    raises(TimeoutError, "nothing", lambda: node.kv.get("nothing", timeout=0.01))
    raises(millrace.InvalidArgumentError, "no GPU", lambda: node.claim_gpus([]))
    raises(TypeError, "batch is 3.5, of type float: it must be int", lambda: node.feed(batch=3.5))
    raises(TypeError, "batch is True", lambda: node.feed(batch=True))
    raises(TypeError, "queue is 3, of type int: it must be str", lambda: node.feed(queue=3))
    raises(TypeError, "step is 1.5, of type float: it must be int", lambda: node.metric("x", 1.5, 0))
    raises(TypeError, "value is 'much', of type str: it must be float", lambda: node.metric("x", 1, "much"))
    raises(TypeError, "name is 3, of type int: it must be str", lambda: node.metric(3, 1, 0))
    raises(TypeError, "key is 3, of type int: it must be str", lambda: node.kv.set(3, "x"))
    raises(TypeError, "value is 3, of type int: it must be bytes or str", lambda: node.kv.set("x", 3))
    raises(TypeError, "key is None", lambda: node.kv.get(None))
    raises(TypeError, "timeout is '5', of type str: it must be float", lambda: node.kv.get("x", timeout="5"))
    raises(millrace.InvalidArgumentError, "timeout=nan", lambda: node.barrier("x", timeout=math.nan))
    raises(TypeError, "delta is 0.5, of type float: it must be int", lambda: node.kv.add("x", 0.5))
    raises(TypeError, "name is b'x', of type bytes: it must be str", lambda: node.barrier(b"x"))
    node.kv.set("numbers", np.arange(3, dtype=np.uint8))
    assert node.kv.get("numbers", timeout=math.inf) == b"\x00\x01\x02"
    node.metric("rows", np.int64(1), np.float32(2))
    node.barrier("alone", timeout=math.inf)
    assert node.wait_for_stop(0.01) is False and node.gpus == []
    feed = node.feed(batch=np.int64(4), mode="inference")
    raises(TypeError, "rows is 3.5, of type float: it must be int", lambda: feed.next(3.5))
    batch = next(feed)
    raises(millrace.NotFoundError, "it has: id, image, name", lambda: batch["label"])
    raises(KeyError, "it has: id, image, name", lambda: batch["label"])
    assert batch.get("label") is None and "id" in batch and "label" not in batch
    raises(millrace.InvalidArgumentError, "of type utf8 is no tensor", lambda: batch["name"].__dlpack__())
    raises(millrace.InvalidArgumentError, '"b"', lambda: feed.results({"a": [1, 2], "b": [1]}))
    raises(millrace.InvalidArgumentError, "int is no column", lambda: feed.results({"a": 1}))
    raises(millrace.InvalidArgumentError, "one type", lambda: feed.results({"a": [1, "x"]}))
    raises(millrace.InvalidArgumentError, "several lengths", lambda: feed.results({"a": [[1], [1, 2]]}))
    raises(millrace.InvalidArgumentError, "results of int", lambda: feed.results(3))
    copies(batch)
    feed.results({"a": [1, 2]})
    raises(millrace.InvalidArgumentError, "change their schema", lambda: feed.results({"a": [1.5, 2.5]}))
    raises(millrace.FailedPreconditionError, "5 results for the 4 rows", lambda: feed.results({"a": [3, 4, 5]}))
    feed.close()
    raises(millrace.FailedPreconditionError, "the feed is closed", lambda: next(feed))
    assert batch["id"].to_pylist() == [0, 1, 2, 3]
    raises(millrace.InvalidArgumentError, "columns is empty", lambda: node.feed(columns=[]))
    trains = node.feed(batch=4, queue="output", equal="drop")
    raises(millrace.FailedPreconditionError, 'mode="inference"', lambda: trains.results({"a": [1]}))
    raises(millrace.InvalidArgumentError, "batches of 4 rows", lambda: trains.next(5))
    raises(millrace.InvalidArgumentError, "at least 1 row", lambda: trains.next(0))
    raises(millrace.InvalidArgumentError, "what state_dict() returned", lambda: trains.load_state_dict({"rows": []}))
    print("refused", flush=True)


def streams(node):
    """The feed as a stream of Arrow, which outlives it; then a feed that ends without a row."""
    import pyarrow as pa

    feed = node.feed(batch=7, columns={"id": "id", "name": "who"})
    reader = pa.RecordBatchReader.from_stream(feed)
    feed.close()
    assert reader.schema.names == ["id", "who"], reader.schema
    batches = list(reader)
    assert {batch.num_rows for batch in batches} == {7, 3}, batches
    rows = pa.Table.from_batches(batches)
    assert rows["who"].to_pylist() == [f"row {i}" for i in rows["id"].to_pylist()]
    node.metric("total", rows.num_rows, sum(rows["id"].to_pylist()))
    assert pa.RecordBatchReader.from_stream(node.feed()).read_all().num_columns == 0


def forks(node):
    """A fork reads the memory, but neither feed nor node, and its end changes nothing here."""
    feed = node.feed(batch=4)
    batch = next(feed)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            raises(millrace.FailedPreconditionError, "fork", functools.partial(next, feed))
            raises(millrace.FailedPreconditionError, "fork", functools.partial(node.metric, "x", 0, 0))
            raises(millrace.FailedPreconditionError, "fork", node.close)
            feed.close()
            assert batch["id"].numpy().tolist() == [0, 1, 2, 3]
            del feed, batch
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    node.metric("rows", 0, batch.num_rows + sum(batch.num_rows for batch in feed))


def members(node):
    """The first worker hears that the second one was started again."""
    if node.task_index == 1:
        if node.attempt == 0:
            node.kv.get("listening", timeout=60)
            os._exit(1)
        node.kv.get("heard", timeout=60)
        return
    assert "CERTIFICATE" in node.tls.ca and "PRIVATE KEY" in node.tls.key and node.tls.key not in repr(node.tls)
    heard = queue.Queue()
    node.on_membership_change(heard.put)
    node.kv.set("listening", "")
    members = heard.get(timeout=60)
    assert members["worker"][0] == node.address and len(members["worker"]) == 2, members
    node.kv.set("heard", "")


def _load_states(feed, folder):
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            feed.load_state_dict(json.load(file))


def _save_state(node, feed, folder):
    with open(os.path.join(folder, f"{node.cluster_id}-{node.rank}"), "w") as file:
        json.dump(feed.state_dict(), file)


def goes_on(node):
    """After the states that are in the folder argv[3], reads argv[2] batches (-1: all) and leaves its own state
    there."""
    folder, limit = sys.argv[3], int(sys.argv[2])
    feed = node.feed(batch=7)
    _load_states(feed, folder)
    node.barrier("loaded")
    read = 0
    for batch in feed if limit < 0 else itertools.islice(feed, limit):
        print("ids", json.dumps(batch["id"].to_pylist()), flush=True)
        read += len(batch["id"])
    _save_state(node, feed, folder)
    if read:  # the other node may have been faster
        raises(millrace.FailedPreconditionError, "before the first", lambda: feed.load_state_dict(feed.state_dict()))
    feed.terminate()


def loads_and_goes_on(node):
    """The same by a DataLoader of PyTorch."""
    from torch.utils.data import DataLoader

    folder, limit = sys.argv[3], int(sys.argv[2])
    feed = node.feed(batch=7)
    data = feed.torch()
    _load_states(data, folder)
    node.barrier("loaded")
    loader = DataLoader(data, batch_size=None)
    for batch in loader if limit < 0 else itertools.islice(loader, limit):
        print("ids", json.dumps(batch["id"].tolist()), flush=True)
    _save_state(node, data, folder)
    feed.terminate()


def dies(node):
    """After three batches, having saved its state, with which it goes on."""
    feed = node.feed(batch=7)
    if node.attempt > 0:
        feed.load_state_dict(json.loads(node.kv.get("state")))
    for step, batch in enumerate(feed, 1):
        print("ids", json.dumps(batch["id"].to_pylist()), flush=True)
        if step == 3 and node.attempt == 0:
            node.kv.set("state", json.dumps(feed.state_dict()))
            os._exit(1)


def _loads_in_a_worker(_):
    """For a DataLoader, which has each worker call it."""
    from torch.utils.data import get_worker_info

    state = {"cluster": "c", "feed": "", "rows": []}
    data = get_worker_info().dataset
    raises(millrace.FailedPreconditionError, "before the loop begins", lambda: data.load_state_dict(state))


def loads(node):
    """By a DataLoader of PyTorch, with argv[2] workers that are started as argv[3] says."""
    import torch.distributed
    from torch.utils.data import DataLoader

    torch.distributed.init_process_group("gloo")  # by the environment
    everybody = torch.ones(1)
    torch.distributed.all_reduce(everybody)
    assert everybody.item() == int(os.environ["LOCAL_WORLD_SIZE"]) == 2 and os.environ["NODE_RANK"] == "0"
    how = {
        "num_workers": int(sys.argv[2]), "multiprocessing_context": sys.argv[3] if len(sys.argv) > 3 else None,
        "worker_init_fn": _loads_in_a_worker,
    }  # fmt: skip
    data = node.feed(batch=7).torch()
    total = rows = 0
    for batch in DataLoader(data, batch_size=None, **how):
        assert batch["name"] == [f"row {i}" for i in batch["id"].tolist()], batch
        assert (batch["image"].sum(dim=1) == 4 * batch["id"]).all() and batch["image"].dtype == torch.float32
        batch["image"] += 1  # its own memory
        total += int(batch["id"].sum())
        rows += len(batch["id"])
        if how["num_workers"] > 0:
            raises(millrace.FailedPreconditionError, "num_workers=0", data.state_dict)
        else:
            assert sum(end - first for _, _, first, end in data.state_dict()["rows"]) == rows
    node.metric("total", rows, total)


def load_fails(node):
    """What the feed raises is raised where a DataLoader asks; PyTorch makes it a RuntimeError if that is a worker."""
    from torch.utils.data import DataLoader

    data = node.feed(batch=7, columns=["label"]).torch()
    raises(RuntimeError, "NOT_FOUND", lambda: next(iter(DataLoader(data, batch_size=None, num_workers=1))))
    raises(millrace.NotFoundError, "label", lambda: next(iter(DataLoader(data, batch_size=None))))


def gil(node):
    """Other threads run while the feed waits: the driver begins to feed when it has heard them."""
    waits = threading.Event()

    def tick():
        waits.wait()
        for step in range(1 << 30):
            node.metric("tick", step, 0)
            if node.wait_for_stop(0.01) or done.is_set():
                return

    done = threading.Event()
    ticker = threading.Thread(target=tick)
    ticker.start()
    feed = node.feed(batch=1000)
    waits.set()
    rows = sum(batch.num_rows for batch in feed)
    done.set()
    ticker.join()
    node.metric("rows", 0, rows)


def closes(node):
    """A feed that another thread waits in is closed: that thread ends with its rows, and frees it."""
    feed = node.feed(batch=4)
    waits = threading.Event()
    ends = []

    def read():
        waits.set()
        ends.append(feed.next(4))

    reader = threading.Thread(target=read)
    reader.start()
    waits.wait()
    node.metric("waits", 0, 0)
    reader.join()
    feed.close()
    assert ends[0].num_rows == 4


def claims(node):
    """GPUs: one from the start, and another that it claims, by number and by id; argv[2:] are those of the host."""
    first, second = sys.argv[2:]
    assert node.gpus == [first] and os.environ["CUDA_VISIBLE_DEVICES"] == first, node.gpus
    assert node.claim_gpus(1) == [second] and node.gpus == [first, second], node.gpus
    raises(millrace.ResourceExhaustedError, node.name, lambda: node.claim_gpus(1))
    node.release_gpus([second])
    assert node.gpus == [first] and node.claim_gpus([second]) == [second], node.gpus
    raises(millrace.NotFoundError, "GPU-none", lambda: node.release_gpus(["GPU-none"]))
    raises(TypeError, f"gpus is {second!r}, of type str: it must be int", lambda: node.claim_gpus(second))
    print("claimed", flush=True)


def export(node):
    path = sys.argv[2]

    def write(directory):
        with open(os.path.join(directory, "model"), "w") as file:
            file.write("weights")

    def fail(directory):
        raise ZeroDivisionError("no model")

    raises(ZeroDivisionError, "no model", lambda: node.export_model(path, fail))
    assert not os.path.exists(path)
    node.export_model(path, write)


def fails(node):
    raise ValueError("the loss is not a number")


def exits(node):
    sys.exit(3)


def exits_at_once(node):
    os._exit(4)


def crashes(node):
    ctypes.string_at(0)


def is_killed(node):
    os.kill(os.getpid(), signal.SIGKILL)


def shard(number):
    if number == 2:
        raise ValueError(f"no shard {number}")
    return number


def fails_in_a_thread(node):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        print(list(pool.map(shard, range(4))))


def fails_in_a_process(node):
    """That is started as argv[2] says."""
    context = multiprocessing.get_context(sys.argv[2])
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        assert list(pool.map(shard, range(2))) == [0, 1]
        print(list(pool.map(shard, range(4))))


class Shards:
    """A data set of PyTorch."""

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return shard(number)


def fails_in_a_loader(node):
    """Whose worker says it in an exception of many lines."""
    from torch.utils.data import DataLoader

    print(list(DataLoader(Shards(), num_workers=1)))


def fails_at_length(node):
    raise ValueError("cannot read the file:\n  at row 3\nno such number: x\n")


def forks_fail(node):
    """Forks that leave main by an exception, by sys.exit() and by returning are not the node: it goes on."""
    feed = node.feed(batch=4)
    rows = next(feed).num_rows
    for how in ("raises", "exits", "returns"):
        child = os.fork()
        if child == 0:
            if how == "raises":
                raise ValueError("only a fork")
            return sys.exit(5) if how == "exits" else None
        _, status = os.waitpid(child, 0)
        node.metric(how, os.waitstatus_to_exitcode(status), 0)
    node.metric("rows", 0, rows + sum(batch.num_rows for batch in feed))


def leaves(node):
    """Inference rows without results."""
    next(node.feed(batch=4, mode="inference"))


if __name__ == "__main__":
    if sys.argv[1] in ("lifetimes", "tensors_outlive"):
        globals()[sys.argv[1]](millrace.Node())  # which it closes itself
    else:
        millrace.run_node(globals()[sys.argv[1]])
