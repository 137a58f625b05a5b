"""Two workers learn to read digits with XGBoost, which grows one forest from the rows of both.

    python examples/python/xgboost_digits.py

Needs xgboost (or xgboost-cpu). XGBoost's workers find each other through a tracker, whose address is in the
cluster's key-value store.
"""

import json

import digits_data
import millrace


def main(node):
    """What each worker runs."""
    import numpy as np
    import xgboost
    from xgboost.tracker import RabitTracker

    class Rows(xgboost.DataIter):
        """XGBoost reads its rows several times, so they stay where they were received."""

        def __init__(self, batches):
            super().__init__()
            self._batches = batches
            self.reset()

        def reset(self):
            self._left = iter(self._batches)

        def next(self, input_data):
            batch = next(self._left, None)
            if batch is None:
                return False
            input_data(data=batch["image"].numpy(), label=batch["label"].numpy())
            return True

    tracker = None
    if node.rank == 0:
        tracker = RabitTracker(node.num_workers, host_ip=node.address.rpartition(":")[0])
        tracker.start()
        node.kv.set("xgboost", json.dumps(tracker.worker_args()))
    batches = list(node.feed(batch=256, equal="drop"))
    with xgboost.collective.CommunicatorContext(**json.loads(node.kv.get("xgboost", timeout=60))):
        options = {"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "eta": 0.3, "nthread": 1}
        model = xgboost.train(options, xgboost.QuantileDMatrix(Rows(batches)), num_boost_round=30)
    if tracker is not None:
        tracker.wait_for()
    feed = node.feed(batch=256, mode="inference")
    for batch in feed:
        feed.results({"digit": np.argmax(model.inplace_predict(batch["image"].numpy()), axis=1)})


def drive(num_workers=2):
    known, held_out = digits_data.read()
    with millrace.Cluster.run(main, num_workers, input_mode=millrace.InputMode.FEED) as cluster:
        print(cluster.train(known, end_of_feed=True))
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
