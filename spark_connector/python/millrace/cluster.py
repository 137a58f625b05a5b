"""A cluster of node programs on the executors of a Spark application."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from millrace.error import MillraceError, is_interrupt, require_class, translated
from millrace.options import (
    InputMode,
    NodeProgram,
    QuarantinePolicy,
    RestartPolicy,
    Sidecar,
    duration,
    string_array,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from pyspark.streaming import DStream, StreamingContext

_LOG = logging.getLogger("millrace")
_THREE_DAYS = 259_200.0


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What became of a train call."""

    rows: int  # acknowledged by programs, over all epochs
    refed_rows: int  # fed again although a node had them: perhaps used twice
    exactly_once: bool  # it is known that every row was delivered exactly once
    terminated: bool  # every program stopped reading before the end


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """One node of a cluster, as it was when it was asked for."""

    executor_id: int
    job_name: str
    task_index: int
    state: str
    attempt: int
    host: str
    address: str  # "host:port", its reserved port
    pid: int  # 0 if it does not run


class MillraceCluster:
    """Made by `run`; every call that fails raises MillraceError, with the cluster's first cause.

    The SparkContext is never stopped. As a context manager: shutdown() at the end, close() after an
    error. Thread-safe as far as py4j is.
    """

    def __init__(self, spark: "SparkSession", java: Any) -> None:
        self._spark = spark
        self._java = java

    @classmethod
    def run(
        cls,
        spark: "SparkSession",
        program: NodeProgram,
        num_executors: int = 1,
        *,
        num_ps: Optional[int] = None,
        master_node: Optional[str] = None,
        eval_node: Optional[bool] = None,
        driver_ps_nodes: Optional[bool] = None,
        input_mode: Optional[InputMode] = None,
        queues: Optional[Sequence[str]] = None,
        log_dir: Optional[str] = None,
        tensorboard: Optional[bool] = None,
        release_port: Optional[bool] = None,
        reservation_timeout: Optional[float] = None,
        nodes_per_executor: Optional[int] = None,
        gpus_per_node: Optional[int] = None,
        gpus_by_job: Optional[Mapping[str, int]] = None,
        restart: Optional[RestartPolicy] = None,
        restart_by_job: Optional[Mapping[str, RestartPolicy]] = None,
        quarantine: Optional[QuarantinePolicy] = None,
        sidecars: Optional[Sequence[Sidecar]] = None,
        default_fs: Optional[str] = None,
        working_dir: Optional[str] = None,
        port_range: Optional[str] = None,
        feed_port_range: Optional[str] = None,
        coordinator_port_range: Optional[str] = None,
        feed_budget_bytes: Optional[int] = None,
        stop_grace: Optional[float] = None,
        stop_timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> "MillraceCluster":
        """Starts a cluster and returns when every node runs.

        The arguments are those of the Java class ClusterOptions, whose defaults hold for what is None;
        times are in seconds. restart: of every node; restart_by_job: of the jobs that differ.
        """
        context = getattr(spark, "_sc", None)
        if context is None:
            raise MillraceError(
                "UNIMPLEMENTED", "Spark Connect has no JVM on this side; run the application with spark-submit"
            )
        gateway = context._gateway
        cluster_class = require_class(gateway.jvm)
        builder = gateway.jvm.io.millrace.spark.ClusterOptions.builder()

        def option(name: str, value: Any) -> None:
            if value is not None:
                getattr(builder, name)(value)

        def seconds(name: str, value: Optional[float]) -> None:
            if value is not None:
                option(name, duration(gateway, value))

        def policy(name: str, value: Any) -> None:
            if value is not None:
                option(name, value._to_java(gateway))

        option("numExecutors", num_executors)
        option("numPs", num_ps)
        option("masterNode", master_node)
        option("evalNode", eval_node)
        option("driverPsNodes", driver_ps_nodes)
        if input_mode is not None:
            option("inputMode", getattr(gateway.jvm.io.millrace.spark.InputMode, InputMode(input_mode).value))
        if queues is not None:
            option("queues", string_array(gateway, queues))
        option("logDir", log_dir)
        option("tensorboard", tensorboard)
        option("releasePort", release_port)
        seconds("reservationTimeout", reservation_timeout)
        option("nodesPerExecutor", nodes_per_executor)
        option("gpusPerNode", gpus_per_node)
        option("gpusByJob", gpus_by_job)
        policy("restart", restart)
        if restart_by_job is not None:
            option("restartByJob", {job: one._to_java(gateway) for job, one in restart_by_job.items()})
        policy("quarantine", quarantine)
        if sidecars is not None:
            array = gateway.new_array(gateway.jvm.io.millrace.spark.Sidecar, len(sidecars))
            for i, sidecar in enumerate(sidecars):
                array[i] = sidecar._to_java(gateway)
            option("sidecars", array)
        option("defaultFs", default_fs)
        option("workingDir", working_dir)
        option("portRange", port_range)
        option("feedPortRange", feed_port_range)
        option("coordinatorPortRange", coordinator_port_range)
        option("feedBudgetBytes", feed_budget_bytes)
        seconds("stopGrace", stop_grace)
        seconds("stopTimeout", stop_timeout)
        if env is not None:
            option("env", {str(key): str(text) for key, text in env.items()})
        with translated():
            java = cluster_class.run(context._jsc, program._to_java(gateway), builder.build())
        return cls(spark, java)

    def _options(self, name: str, **values: Any) -> Any:
        builder = getattr(self._spark._sc._jvm.io.millrace.spark, name).builder()
        for method, value in values.items():
            getattr(builder, method)(value)
        return builder.build()

    def _duration(self, seconds: Optional[float]) -> Any:
        return duration(self._spark._sc._gateway, seconds)

    def train(
        self,
        data: Union["DataFrame", "DStream"],
        num_epochs: int = 1,
        feed_timeout: float = 600.0,
        queue: str = "input",
        end_of_feed: bool = False,
    ) -> Optional[TrainResult]:
        """Feeds every row, num_epochs times; returns when programs have used them all, or stopped reading.

        end_of_feed: the queue ends with this call; the programs may serve inference on it then.

        Of a DStream, whose elements are Rows, dicts or tuples, every batch is fed as it comes; returns None
        at once. A batch that cannot be fed is the stream's error, unless the programs have ended: then it goes
        nowhere. shutdown(ssc) waits for the stream's end.
        """
        if hasattr(data, "foreachRDD"):
            self._train_stream(data, num_epochs, feed_timeout, queue, end_of_feed)
            return None
        options = self._options(
            "TrainOptions",
            numEpochs=num_epochs,
            feedTimeout=self._duration(feed_timeout),
            queue=queue,
            endOfFeed=end_of_feed,
        )
        with translated():
            result = self._java.train(_java_frame(data), options)
        return TrainResult(result.rows(), result.refedRows(), result.exactlyOnce(), result.terminated())

    def _train_stream(
        self, stream: "DStream", num_epochs: int, feed_timeout: float, queue: str, end_of_feed: bool
    ) -> None:
        def feed(rdd: Any) -> None:
            if rdd.isEmpty():  # a schema is inferred from rows
                return
            try:
                self.train(self._spark.createDataFrame(rdd), num_epochs, feed_timeout, queue, end_of_feed)
            except MillraceError as error:
                if error.code != "FAILED_PRECONDITION" or not self.programs_have_ended:
                    raise
                _LOG.warning("a batch of a stream was not fed: %s", error.message)

        stream.foreachRDD(feed)

    def train_batches(
        self,
        num_epochs: int = 1,
        feed_timeout: float = 600.0,
        queue: str = "input",
    ) -> Callable[["DataFrame", int], None]:
        """What Structured Streaming is to do with each batch: feed it.

            stream.writeStream.foreachBatch(cluster.train_batches()).start()

        A query that is stopped while it feeds a batch ends without an error.
        """
        options = self._options(
            "TrainOptions", numEpochs=num_epochs, feedTimeout=self._duration(feed_timeout), queue=queue
        )
        with translated():
            feed = self._java.trainBatches(options)

        def feed_batch(batch: "DataFrame", _: int) -> None:
            try:
                with translated():
                    feed.call(batch._jdf, None)  # py4j would make an Integer of the batch's number, not a Long
            except MillraceError as error:
                # An InterruptedException with our error as its cause: Spark knows by its text that it was stopped.
                if is_interrupt(error.__cause__):
                    raise error.__cause__ from None
                raise

        return feed_batch

    def inference(
        self,
        data: "DataFrame",
        result_schema: Union["StructType", str],
        feed_timeout: float = 600.0,
        queue: str = "input",
    ) -> "DataFrame":
        """The results of nodes for every row, one for each, in order; lazy: each action feeds the rows.

        result_schema: a StructType, or its DDL: "id bigint, prediction bigint".
        """
        jvm = self._spark._sc._jvm
        if isinstance(result_schema, str):
            schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(result_schema)
        else:
            schema = jvm.org.apache.spark.sql.types.DataType.fromJson(result_schema.json())
        options = self._options("InferenceOptions", feedTimeout=self._duration(feed_timeout), queue=queue)
        with translated():
            java = self._java.inference(_java_frame(data), schema, options)
        return type(data)(java, self._spark)

    def end_feed(self, queue: str = "input") -> None:
        """Ends what nodes do with a queue: ShouldStop() turns true once what was fed is read."""
        with translated():
            self._java.endFeed(queue)

    def shutdown(
        self,
        ssc: Optional["StreamingContext"] = None,
        grace: Optional[float] = None,
        timeout: Optional[float] = _THREE_DAYS,
    ) -> None:
        """Ends all queues, waits for chief, master and workers, then stops ps and evaluator. Idempotent.

        grace: in InputMode.FEED how long workers may take after the end of their rows, then they are
        asked to stop and the error names them; in InputMode.DIRECT, where workers end when their work
        is done, how long an evaluator may take after them (None: no time). timeout: all of it, then
        everything is stopped. None is without end. ssc: of streams that train() was given; first waits
        until somebody stops it, or the programs read no more or have ended, or the cluster has failed, and
        stops it then, gracefully, without the SparkContext.
        """
        options = self._options("ShutdownOptions", grace=self._duration(grace), timeout=self._duration(timeout))
        with translated():
            if ssc is None:
                self._java.shutdown(options)
            else:
                self._java.shutdown(ssc._jssc, options)

    def close(self) -> None:
        """Ends everything at once, without waiting for programs; nothing after shutdown."""
        with translated():
            self._java.close()

    def __enter__(self) -> "MillraceCluster":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.shutdown()
        else:
            self.close()

    # ------------------------------------------------------------------------------------ attributes

    @property
    def cluster_id(self) -> str:
        return self._java.clusterId()

    @property
    def cluster_info(self) -> List[NodeInfo]:
        """Every node as it is now."""
        with translated():
            return [
                NodeInfo(
                    node.executorId(),
                    node.jobName(),
                    node.taskIndex(),
                    node.state(),
                    node.attempt(),
                    node.host(),
                    node.address(),
                    node.pid(),
                )
                for node in self._java.clusterInfo()
            ]

    @property
    def cluster_spec(self) -> Dict[str, List[str]]:
        """The addresses of every job, by task index."""
        with translated():
            return {job: list(addresses) for job, addresses in self._java.clusterSpec().items()}

    @property
    def node_rdd(self) -> Any:
        """The RDD whose tasks hold the nodes, as the JVM has it: a JavaRDD of strings."""
        return self._java.nodeRdd()

    @property
    def spark_context(self) -> "SparkContext":
        return self._spark.sparkContext

    @property
    def programs_have_ended(self) -> bool:
        """Whether every chief, master and worker has ended by itself, without an error."""
        return self._java.programsHaveEnded()

    @property
    def default_fs(self) -> str:
        return self._java.defaultFs()

    @property
    def working_dir(self) -> str:
        return self._java.workingDir()

    @property
    def input_mode(self) -> InputMode:
        return InputMode(self._java.inputMode().name())

    @property
    def num_executors(self) -> int:
        return self._java.numExecutors()

    @property
    def queues(self) -> List[str]:
        return list(self._java.queues())

    @property
    def server_address(self) -> str:
        """ "host:port" of the coordinator on the driver."""
        return self._java.serverAddress()

    @property
    def tensorboard_url(self) -> str:
        """ "" until it takes connections, or where there is none."""
        with translated():
            return self._java.tensorboardUrl()


def _java_frame(data: Any) -> Any:
    java = getattr(data, "_jdf", None)
    if java is None:
        raise MillraceError(
            "INVALID_ARGUMENT",
            f"a {type(data).__name__} cannot be fed: RDDs of Python objects are pickles to the JVM; make a "
            "DataFrame of it, spark.createDataFrame(rdd)",
        )
    return java
