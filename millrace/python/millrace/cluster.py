"""A cluster of node programs, from a driver's point of view."""

from __future__ import annotations

import abc
import dataclasses
import html
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from millrace import _defaults
from millrace.options import InputMode, NodeInfo, NodeProgram, Program

if TYPE_CHECKING:
    from typing_extensions import Protocol, Unpack

    from millrace.local_cluster import LocalCluster
    from millrace.options import LocalOptions, SparkOptions
    from millrace.spark_cluster import SparkCluster

    class _Spark(Protocol):
        """A SparkSession or a SparkContext, for type checkers that have no PySpark too."""

        @property
        def version(self) -> str: ...


__all__ = ["Cluster", "TrainResult"]

_Self = TypeVar("_Self", bound="Cluster")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What became of a train call."""

    rows: int  # that programs have used, in all epochs
    rows_refed: int  # that were fed again although a node had them: perhaps used twice
    exactly_once: bool  # it is known that every row was used exactly once
    terminated: bool  # no node reads the queue any more; rows may be unread
    elapsed: float  # seconds of feeding
    # With feed(equal=...): rows that are in no batch (nor in `rows`), and rows that were there once more.
    dropped_rows: int = 0
    repeated_rows: int = 0
    # The same by node: {"worker:0": (dropped, repeated)}. Empty without `equal`.
    equal_nodes: Mapping[str, Tuple[int, int]] = dataclasses.field(default_factory=dict)


def _is_of_spark(value: object) -> bool:
    return any(kind.__module__.split(".")[0] == "pyspark" for kind in type(value).__mro__)


class Cluster(abc.ABC):
    """A running cluster: `run` makes it.

        with millrace.Cluster.run("train.py", num_executors=4, input_mode=InputMode.FEED) as cluster:
            cluster.train(table, num_epochs=5, end_of_feed=True)
            for batch in cluster.inference(test):  # record batches of pyarrow, as they come
                save(batch)

    Driven by this process it is a LocalCluster; Cluster.run(spark, program) makes a SparkCluster. A `with` ends with
    shutdown(), or after an error with close(). Every call that fails raises MillraceError with the cluster's first
    cause. All methods may be called from any thread.
    """

    def __init__(
        self,
        program: NodeProgram,
        cluster_id: str,
        server_address: str,
        num_executors: int,
        input_mode: InputMode,
        queues: Sequence[str],
    ) -> None:
        self._program = program
        self.cluster_id = cluster_id
        self.server_address = server_address  # of its coordinator, "host:port"
        self.num_executors = num_executors
        self.input_mode = input_mode
        self.queues: List[str] = list(queues)

    @overload
    @classmethod
    def run(
        cls, program: Program, num_executors: Optional[int] = None, **options: Unpack[LocalOptions]
    ) -> LocalCluster: ...

    @overload
    @classmethod
    def run(
        cls,
        spark: _Spark,
        program: Union[NodeProgram, Callable[[Any], object]],
        num_executors: int = 1,
        **options: Unpack[SparkOptions],
    ) -> SparkCluster: ...

    @classmethod
    def run(cls, *args: Any, **options: Any) -> Cluster:
        """Starts a cluster, and returns when every node runs.

            Cluster.run(program, num_executors=1, **options)           on this machine
            Cluster.run(program, agents=Agents(...), **options)        on agents that a resolver names
            Cluster.run(spark, program, num_executors=1, **options)    on the executors of a Spark application

        program: a NodeProgram; or, on Spark, any function of one node, which travels as the functions of Spark's own
        do; or, elsewhere, a script of Python ("train.py", with the option `args`), an executable, or a function of one
        node that a file has at its top level. Agents must have these at the same path, and by default there are as
        many nodes as the resolver names. The options are those of
        millrace.ClusterOptions, and of LocalOptions or SparkOptions; names and groups are those of C++ and Java.
        """
        if "spark" in options or (args and _is_of_spark(args[0])):
            from millrace.spark_cluster import start_on_spark

            return start_on_spark(*args, **options)
        from millrace.local_cluster import start_here

        return start_here(*args, **options)

    # ---- what every cluster can -----------------------------------------------------------------------------

    @abc.abstractmethod
    def end_feed(self, queue: str = _defaults.QUEUE) -> None:
        """Ends what nodes do with a queue: their feed ends once what was fed is read."""

    @abc.abstractmethod
    def shutdown(
        self, *, grace: Optional[float] = _defaults.GRACE, timeout: Optional[float] = _defaults.TIMEOUT
    ) -> None:
        """Ends all queues, waits for chief, master and workers, then stops ps and evaluator. Idempotent.

        grace: in InputMode.FEED how long workers may take after the end of their rows, then they are asked to
        stop and the error names them (in InputMode.DIRECT they end when their work is done); in both, how long
        an evaluator may take after the workers (None: no time). It is stopped then, which is its normal end: a
        log line says so. timeout: all of it, then everything is stopped. None is without end.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends everything at once, without waiting for programs; nothing after close or shutdown."""

    @property
    @abc.abstractmethod
    def closed(self) -> bool:
        """Whether close() has been called, or a `with` has ended."""

    @property
    @abc.abstractmethod
    def cluster_info(self) -> List[NodeInfo]:
        """Every node as it is now."""

    @property
    @abc.abstractmethod
    def cluster_spec(self) -> Dict[str, Any]:
        """The members now: {"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]}."""

    @property
    @abc.abstractmethod
    def tensorboard_url(self) -> str:
        """ "" until it takes connections, or where there is none."""

    # ---- in a `with`, and in a notebook ---------------------------------------------------------------------

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            if kind is None:
                self.shutdown()
        finally:
            self.close()

    def _states(self) -> str:
        """ "2 running, 1 failed"."""
        if self.closed:
            return "closed"
        count: Dict[str, int] = {}
        for node in self.cluster_info:
            count[node.state] = count.get(node.state, 0) + 1
        return ", ".join(f"{number} {state}" for state, number in count.items())

    def __repr__(self) -> str:
        return f"<millrace.{type(self).__name__} {self.cluster_id}: {self._program.program}, {self._states()}>"

    def _repr_html_(self) -> str:
        """A table of the nodes, for notebooks."""
        title = f"<b>{html.escape(self.cluster_id)}</b>: {self._states()}"
        if self.closed:
            return title
        head = "<tr><th>node</th><th>state</th><th>attempt</th><th>address</th><th>pid</th></tr>"
        rows = "".join(
            f"<tr><td>{html.escape(node.name)}</td><td>{html.escape(node.state)}</td><td>{node.attempt}</td>"
            f"<td>{html.escape(node.address)}</td><td>{node.pid or ''}</td></tr>"
            for node in self.cluster_info
        )
        return f"{title}<table>{head}{rows}</table>"
