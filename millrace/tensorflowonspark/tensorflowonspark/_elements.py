"""The elements that a node is fed, one by one."""

import collections
import itertools
import threading

# Millrace feeds a queue either for training or for inference, and here both come through one: a queue of the cluster
# has another one beside it, for inference.
_INFERENCE = ".inference"
_MOST_ROWS = 1024  # that are taken at a time where the program takes fewer


def inference_queue(name):
    """The queue that carries inference on the queue `name`."""
    return name + _INFERENCE


def _elements(batch):
    """The objects of an RDD, or the rows of a DataFrame."""
    if batch.has_objects:
        return batch.objects()
    from pyspark.sql import Row

    row = Row(*batch)
    return list(itertools.starmap(row, zip(*[column.to_pylist() for column in batch.values()])))


class _Reader(threading.Thread):
    """Reads one feed, when it is asked to."""

    def __init__(self, feed, changed):
        super().__init__(name=f"millrace-{feed.mode}", daemon=True)
        self.feed = feed
        self._changed = changed
        # Guarded by changed.
        self.asked = 0  # elements; 0 while the feed is not read
        self.ended = False
        self.error = None
        self.elements = collections.deque()

    def is_over(self):
        """No elements are left, and none will come. A feed that is being read says so by itself."""
        if self.elements or self.error is not None:
            return False
        return self.ended or (not self.asked and self.feed.should_stop)

    def run(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.asked)
                rows = self.asked
            batch, elements, error = None, (), None
            try:
                batch = self.feed.next(rows, max(rows, _MOST_ROWS))
                if batch is not None:
                    elements = _elements(batch)
            except Exception as why:  # the program's thread raises it
                error = why
            with self._changed:
                self.asked = 0
                self.elements.extend(elements)
                self.error = error
                self.ended = batch is None
                self._changed.notify_all()
                if self.ended:
                    return


class Elements:
    """What comes through one queue of the cluster to this node, for training and for inference. Asking for elements
    says that those before have been used. One thread reads, another may answer."""

    def __init__(self, node, queue):
        self._changed = threading.Condition()
        feeds = [node.feed(queue=queue), node.feed(queue=inference_queue(queue), mode="inference")]
        self._readers = [_Reader(feed, self._changed) for feed in feeds]
        self._answering = threading.Lock()
        self._results = []  # guarded by answering: collected, as a call for each would be slow
        for reader in self._readers:
            reader.start()

    def next(self, count):
        """So many; fewer at the end of a train call, and of a partition of inference. [] once no more will come."""
        with self._changed:
            has_some = any(reader.elements for reader in self._readers)
        if not has_some:
            self._send_results()  # before more is asked for
        with self._changed:
            if not has_some:
                for reader in self._readers:
                    if not reader.ended and not reader.asked:
                        reader.asked = count
                self._changed.notify_all()
                self._changed.wait_for(self._has_come)
            for reader in self._readers:
                if reader.error is not None:
                    raise reader.error
            for reader in self._readers:
                if reader.elements:
                    return [reader.elements.popleft() for _ in range(min(count, len(reader.elements)))]
            return []

    def _has_come(self):
        readers = self._readers
        return any(reader.elements or reader.error for reader in readers) or all(reader.ended for reader in readers)

    @property
    def ended(self):
        """Whether no more will come, and all that came was returned. Seeing True says that those were used."""
        self._send_results()
        with self._changed:
            return all(reader.is_over() for reader in self._readers)

    def answer(self, results):
        """The results of the next elements of inference."""
        inference = self._readers[1]
        with self._answering:
            self._results.extend(results)
            if len(self._results) < _MOST_ROWS and inference.elements:
                return
        self._send_results()

    def _send_results(self):
        with self._answering:
            results, self._results = self._results, []
            if results:
                self._readers[1].feed.object_results(results)

    def terminate(self):
        """The program wants no more."""
        self._send_results()
        with self._changed:
            for reader in self._readers:
                reader.elements.clear()
        for reader in self._readers:
            reader.feed.terminate()
