"""A cluster of node programs on the executors of a Spark application.

This calls the connector's jar over py4j: the rows of DataFrames never pass through Python. Elements of Python's RDDs
are pickled one by one, by the worker that makes them, and unpickled by the node.
"""

from __future__ import annotations

import logging
import os
import pathlib
import pickle
import struct
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union, overload

from millrace import _defaults, _jvm
from millrace._arguments import count
from millrace._jvm import translated
from millrace.cluster import Cluster, TrainResult
from millrace.error import InvalidArgumentError, MillraceError, NotFoundError
from millrace.options import InputMode, NodeInfo, NodeProgram, spark_options

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from pyspark.streaming import DStream, StreamingContext

__all__ = ["SparkCluster", "spark_jar", "start_on_spark"]

_LOG = logging.getLogger("millrace")


class SparkCluster(Cluster):
    """A cluster on Spark's executors: Cluster.run(spark, ...) makes it.

    The SparkContext is never stopped. Calls are as safe among threads as py4j is. An error of an action on the
    DataFrame of inference() is Spark's; MillraceError.of(error) finds Millrace's in it.
    """

    def __init__(self, spark: SparkSession, java: Any, program: NodeProgram) -> None:
        self._spark = spark
        self._java = java
        self._closed = False
        super().__init__(
            program,
            java.clusterId(),
            java.serverAddress(),
            java.numExecutors(),
            InputMode(java.inputMode().name()),
            _jvm.listed(java.queues()),
        )

    def _options(self, name: str, **values: Any) -> Any:
        builder = getattr(self._spark._sc._jvm.io.millrace.spark, name).builder()
        for method, value in values.items():
            getattr(builder, method)(value)
        return builder.build()

    def _duration(self, seconds: Optional[float]) -> Any:
        return _jvm.duration(self._spark._sc._gateway, seconds)

    @overload
    def train(
        self,
        data: Union[DataFrame, RDD[Any]],
        num_epochs: int = _defaults.NUM_EPOCHS,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
        end_of_feed: bool = _defaults.END_OF_FEED,
    ) -> TrainResult: ...

    @overload
    def train(  # type: ignore[overload-cannot-match]  # where there is no PySpark, both are Any
        self,
        data: DStream,
        num_epochs: int = _defaults.NUM_EPOCHS,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
        end_of_feed: bool = _defaults.END_OF_FEED,
    ) -> None: ...

    def train(
        self,
        data: Any,
        num_epochs: int = _defaults.NUM_EPOCHS,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
        end_of_feed: bool = _defaults.END_OF_FEED,
    ) -> Optional[TrainResult]:
        """Feeds every row, num_epochs times; returns when programs have used them all, or stopped reading.

        data: a DataFrame, whose columns batches have; or an RDD of any Python objects, one in each row, which nodes in
        Python read by Batch.objects(). end_of_feed: the queue ends with this call; the programs may serve inference on
        it then.

        Of a DStream, whose elements are Rows, dicts or tuples, every batch is fed as it comes; returns None
        at once. A batch that cannot be fed is the stream's error, unless the programs have ended: then it goes
        nowhere. shutdown(ssc) waits for the stream's end.

        Ctrl-C ends the call, and nothing else: the cluster can be trained again.
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
            if _is_rdd(data):
                feed, java = self._java.trainPickled, _java_pickles(data)
            else:
                feed, java = self._java.train, _java_frame(data)
            result = _jvm.interruptible_call(self._spark, lambda: feed(java, options))
        return TrainResult(
            result.rows(),
            result.rowsRefed(),
            result.exactlyOnce(),
            result.terminated(),
            result.elapsed().toMillis() / 1000.0,
            result.droppedRows(),
            result.repeatedRows(),
            {each.node(): (each.droppedRows(), each.repeatedRows()) for each in _jvm.listed(result.equalNodes())},
        )

    def _train_stream(
        self, stream: DStream, num_epochs: int, feed_timeout: Optional[float], queue: str, end_of_feed: bool
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
        num_epochs: int = _defaults.NUM_EPOCHS,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
    ) -> Callable[[DataFrame, int], None]:
        """What Structured Streaming is to do with each batch: feed it.

            stream.writeStream.foreachBatch(cluster.train_batches()).start()

        A query that is stopped while it feeds a batch ends without an error.
        """
        options = self._options(
            "TrainOptions", numEpochs=num_epochs, feedTimeout=self._duration(feed_timeout), queue=queue
        )
        with translated():
            feed = self._java.trainBatches(options)

        def feed_batch(batch: DataFrame, _: int) -> None:
            try:
                with translated():
                    feed.call(batch._jdf, None)  # py4j would make an Integer of the batch's number, not a Long
            except MillraceError as error:
                # An InterruptedException with our error as its cause: Spark knows by its text that it was stopped.
                cause = error.__cause__
                if cause is not None and _jvm.is_interrupt(cause):
                    raise cause from None
                raise

        return feed_batch

    @overload
    def inference(
        self,
        data: DataFrame,
        result_schema: Union[StructType, str],
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
    ) -> DataFrame: ...

    @overload
    def inference(
        self,
        data: RDD[Any],
        result_schema: None = None,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
    ) -> RDD[Any]: ...

    def inference(
        self,
        data: Any,
        result_schema: Union[StructType, str, None] = None,
        feed_timeout: Optional[float] = _defaults.FEED_TIMEOUT,
        queue: str = _defaults.QUEUE,
    ) -> Any:
        """The results of nodes for every row, one for each, in order; lazy: each action feeds the rows.

        result_schema: of a DataFrame's results: a StructType, or its DDL: "id bigint, prediction bigint". Results of an
        RDD of Python objects are Python objects (Feed.object_results), and have none.
        """
        options = self._options("InferenceOptions", feedTimeout=self._duration(feed_timeout), queue=queue)
        if _is_rdd(data):
            return self._inference_of_objects(data, result_schema, options)
        java_frame = _java_frame(data)
        if result_schema is None:
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", 'inference on a DataFrame needs the columns of the results: "id bigint, y double"'
            )
        jvm = self._spark._sc._jvm
        if isinstance(result_schema, str):
            schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(result_schema)
        else:
            schema = jvm.org.apache.spark.sql.types.DataType.fromJson(result_schema.json())
        with translated():
            java = self._java.inference(java_frame, schema, options)
        return type(data)(java, self._spark)

    def _inference_of_objects(self, data: RDD[Any], result_schema: object, options: Any) -> RDD[Any]:
        from pyspark import RDD
        from pyspark.serializers import CPickleSerializer

        if result_schema is not None:
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", "the results of an RDD are Python objects: they have no result_schema"
            )
        with translated():
            java = self._java.inferencePickled(_java_pickles(data), options)
        return RDD(java, self.spark_context, CPickleSerializer())

    def end_feed(self, queue: str = _defaults.QUEUE) -> None:
        with translated():
            self._java.endFeed(queue)

    def shutdown(
        self,
        ssc: Optional[StreamingContext] = None,
        *,
        grace: Optional[float] = _defaults.GRACE,
        timeout: Optional[float] = _defaults.TIMEOUT,
    ) -> None:
        """As Cluster.shutdown. ssc: of streams that train() was given; first waits until somebody stops it, or the
        programs read no more or have ended, or the cluster has failed, and stops it then, gracefully, without the
        SparkContext.
        """
        # A default is Java's too: to make it there takes ten messages.
        waits = {"grace": (grace, _defaults.GRACE), "timeout": (timeout, _defaults.TIMEOUT)}
        given = {name: self._duration(value) for name, (value, default) in waits.items() if value != default}
        options = self._options("ShutdownOptions", **given)
        with translated():
            if ssc is None:
                self._java.shutdown(options)
            else:
                self._java.shutdown(ssc._jssc, options)

    def close(self) -> None:
        self._closed = True
        with translated():
            self._java.close()

    @property
    def closed(self) -> bool:
        return self._closed

    # ---- what there is --------------------------------------------------------------------------------------

    @property
    def cluster_info(self) -> List[NodeInfo]:
        with translated():
            return [_jvm.node_info(node) for node in _jvm.listed(self._java.clusterInfo())]

    @property
    def cluster_spec(self) -> Dict[str, Any]:
        with translated():
            spec = self._java.clusterSpec()
            return {job: _jvm.listed(spec.get(job)) for job in _jvm.listed(spec.keySet())}

    @property
    def tensorboard_url(self) -> str:
        with translated():
            return str(self._java.tensorboardUrl())

    @property
    def node_rdd(self) -> Any:
        """The RDD whose tasks hold the nodes, as the JVM has it: a JavaRDD of strings."""
        return self._java.nodeRdd()

    @property
    def spark_context(self) -> SparkContext:
        return self._spark.sparkContext

    @property
    def programs_have_ended(self) -> bool:
        """Whether every chief, master and worker has ended by itself, without an error."""
        return bool(self._java.programsHaveEnded())

    @property
    def default_fs(self) -> str:
        return str(self._java.defaultFs())

    @property
    def working_dir(self) -> str:
        return str(self._java.workingDir())


def spark_jar() -> str:
    """The path of the connector's jar: that which MILLRACE_SPARK_JAR names, or came with this package. Raises
    NotFoundError where there is none.

    Cluster.run(spark, ...) adds it to an application that came without. `SparkSession.builder.config("spark.jars",
    millrace.spark_jar())` does so before the executors start.
    """
    given = os.environ.get("MILLRACE_SPARK_JAR")
    jar = pathlib.Path(given or pathlib.Path(__file__).resolve().parent / "lib" / "millrace-spark.jar")
    if not jar.exists():
        why = "MILLRACE_SPARK_JAR names it" if given else "the package comes with it as a wheel"
        raise NotFoundError("NOT_FOUND", f"there is no {jar}: {why}")
    return str(jar)


def _java_frame(data: Any) -> Any:
    java = getattr(data, "_jdf", None)
    if java is None:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"a {type(data).__name__} cannot be fed on Spark: make a DataFrame or an RDD of it",
        )
    return java


def _is_rdd(data: Any) -> bool:
    from pyspark import RDD

    return isinstance(data, RDD)


def _java_pickles(data: RDD[Any]) -> Any:
    """A JavaRDD of byte arrays: the elements, each pickled by itself. (PySpark's own RDDs have them in batches, whose
    elements may refer to each other, so that the ledger could neither count nor divide them.)"""

    def unchanged(elements: Any) -> Any:  # here, so that it travels as the serialiser does
        return elements

    pickled = data.mapPartitions(unchanged, preservesPartitioning=True)
    pickled._jrdd_deserializer = _element_serializer()
    return pickled._jrdd


def _element_serializer() -> Any:
    """As PySpark's CPickleSerializer, in a fraction of its time: that asks of every element whether it needs classes or
    functions of the program itself, which have to go along. The class is this function's own, so that it travels with
    the job: the Python of Spark's workers need not have this package."""
    from pyspark.serializers import CPickleSerializer

    class ElementSerializer(CPickleSerializer):  # type: ignore[misc]  # PySpark has no types here
        def dump_stream(self, iterator: Any, stream: Any) -> None:
            pack, dumps, protocol, write = struct.Struct("!i").pack, pickle.dumps, pickle.HIGHEST_PROTOCOL, stream.write
            for element in iterator:
                try:
                    pickled = dumps(element, protocol)
                except Exception:  # it does need them, or nobody can pickle it
                    pickled = self.dumps(element)
                if len(pickled) > 0x7FFFFFFF:
                    raise ValueError(f"an element of {len(pickled)} bytes; those of an RDD have less than 2 GiB")
                write(pack(len(pickled)))
                write(pickled)

    return ElementSerializer()


def _session_of(spark: Any) -> Any:
    if hasattr(spark, "_gateway"):  # a SparkContext
        from pyspark.sql import SparkSession

        return SparkSession(spark)
    if getattr(spark, "_sc", None) is None:
        raise MillraceError(
            "UNIMPLEMENTED", "Spark Connect has no JVM on this side; run the application with spark-submit"
        )
    return spark


def _function_program(
    session: SparkSession, function: Callable[[Any], object], env: Mapping[str, str]
) -> Tuple[NodeProgram, Any]:
    """What runs a function, and that program in Java with the function, which is pickled as those of Spark's tasks."""
    from pyspark.serializers import CloudPickleSerializer

    context = session._sc
    # As PySpark's own workers have it; where modules are is added to what an executor has.
    environment = {**context.environment, **env}
    path = environment.pop("PYTHONPATH", "")
    program = NodeProgram.path(context.pythonExec, "-u", "-m", "millrace._spark_function", env=environment)
    gateway = context._gateway
    pickled = pickle.dumps((sys.version_info[:2], CloudPickleSerializer().dumps(function)))
    java_function = gateway.jvm.io.millrace.spark.internal.cluster.PythonFunction(
        pickled, path, list(context._python_includes)
    )
    return program, _jvm.program(gateway, program, {}).withFunction(java_function)


def start_on_spark(
    spark: Union[SparkSession, SparkContext],
    program: Union[NodeProgram, Callable[[Any], object]],
    num_executors: int = 1,
    **options: Any,
) -> SparkCluster:
    """Cluster.run(spark, program, ...)."""
    given = spark_options(options)
    num_executors = count("num_executors", num_executors)
    if not isinstance(program, NodeProgram) and not callable(program):
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"{program!r} is no program for Spark's executors: give NodeProgram.file(path), which is sent to them, "
            "NodeProgram.path(path) for what they have, or a function of one node",
        )
    session = _session_of(spark)
    gateway = session._sc._gateway
    java_class = _jvm.cluster_class(session._sc, spark_jar)
    env = given.pop("env", {})
    with translated():
        made_of = _jvm.cluster_options(gateway, num_executors, given)
        if isinstance(program, NodeProgram):
            java_program = _jvm.program(gateway, program, env)
        else:
            program, java_program = _function_program(session, program, env)
        java = java_class.run(session._sc._jsc, java_program, made_of)
    return SparkCluster(session, java, program)
