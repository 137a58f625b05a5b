"""Spark ML: an estimator that fits by a cluster of nodes, and a model that scores.

    def train(node, fit):
        for batch in node.feed(batch=fit.batch_size):
            learn(batch, rate=fit.args["rate"])
        if node.is_chief:
            save(os.path.join(fit.model_folder, "digits.onnx"))

    estimator = MillraceEstimator(train, inputCols=["image", "label"], numExecutors=4, args={"rate": 0.1},
                                  modelFolder="/shared/models", outputs="scores array<float>")
    model = estimator.fit(df)                     # a MillraceModel of the file that the program left
    scored = model.transform(df)                  # df and its column `scores`, lazy

In a Pipeline, a CrossValidator and on disk like any other stage. It needs PySpark, NumPy and pyarrow; executors need
this package and the library of the model (millrace.scorers).
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from millrace import _jvm, scorers
from millrace.cluster import Cluster
from millrace.error import FailedPreconditionError, InvalidArgumentError
from millrace.options import FailureOptions, InputMode, NodeOptions, NodeProgram, RestartPolicy
from millrace.spark_cluster import spark_jar

__all__ = ["Fit", "MillraceEstimator", "MillraceModel"]

_LOG = logging.getLogger("millrace")


@dataclasses.dataclass(frozen=True)
class Fit:
    """What a program is told of the fit that it works for. A NodeProgram finds it, as JSON, in $MILLRACE_FIT."""

    model_folder: str  # empty, and this fit's own; one node, such as the chief, leaves one file there
    batch_size: int
    num_epochs: int
    args: Mapping[str, Any]  # the parameter `args`: of the program's own


def _dict(value: Any) -> Dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise TypeError(f"Could not convert {value!r} to a dict")


def _param(name: str, what: str, converter: Callable[[Any], Any]) -> Any:
    return Param(Params._dummy(), name, what, typeConverter=converter)


class _ScoringParams(Params):  # type: ignore[misc]  # PySpark has no types here
    """Of a model, and so of the estimator that makes it."""

    inputMapping = _param(
        "inputMapping",
        "the column for each input of the model, {column: input}; several columns for one input become a matrix. "
        "By default the columns have the inputs' names",
        _dict,
    )
    outputs = _param(
        "outputs", "the columns that are added, as DDL: those of the model's outputs by name, or all in their order",
        TypeConverters.toString,
    )  # fmt: skip
    keepCols = _param(
        "keepCols", "the columns of the table that the result has; by default all", TypeConverters.toListString
    )
    batchSize = _param("batchSize", "rows that are used, or scored, at once", TypeConverters.toInt)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(inputMapping={}, keepCols=[], batchSize=1024)

    def _given(self, values: Mapping[str, Any]) -> None:
        self._set(**{name: value for name, value in values.items() if value is not None})


class MillraceModel(Model, _ScoringParams, MLReadable, MLWritable):  # type: ignore[misc]
    """A model of ONNX Runtime, PyTorch, XGBoost or LightGBM (millrace.scorers) that adds columns to tables.

        MillraceModel.of("digits.onnx", inputMapping={"pixels": "image"}, outputs="scores array<float>").transform(df)

    Spark's own Python workers score, each with the model in memory once. They get the model's inputs alone: the other
    columns stay in the JVM, by means of the connector's jar, which is added to an application that came without, as for
    a cluster. Where there is none, all columns of the result go through Python. Columns are numbers, arrays of equally
    many numbers, or Spark ML's vectors. A row in which an input is null has null in every output, but for models of
    trees: for these a number that is null is one that is missing.
    """

    def __init__(self, name: str, data: bytes, **params: Any) -> None:
        """name: of the model's file, whose ending says what it is. data: its content. params: those of the class."""
        super().__init__()
        scorers.suffix_of(name)
        self.name = name
        self.data = data
        self._key = uuid.uuid4().hex
        self._sent: Any = None  # the SparkContext that has the model, and its broadcast
        self._names: Optional[Tuple[str, ...]] = None  # of the model's inputs; none: nobody here knows them
        self._given(params)

    @classmethod
    def of(cls, path: str, **params: Any) -> "MillraceModel":
        """The model in a file, anywhere where Spark reads files."""
        return cls(*_read_file(SparkSession.builder.getOrCreate(), path), **params)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        if not self.isDefined(self.outputs):
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", 'outputs is not set: name the columns to add, outputs="scores array<float>"'
            )
        from pyspark.sql.pandas.types import to_arrow_type

        outputs: Any = _parse_datatype_string(self.getOrDefault(self.outputs))
        if not isinstance(outputs, StructType):
            raise InvalidArgumentError("INVALID_ARGUMENT", f"outputs is no list of columns: {outputs.simpleString()}")
        keep = self.getOrDefault(self.keepCols) or dataset.columns
        added = {field.name: to_arrow_type(field.dataType) for field in outputs}
        if twice := sorted(set(keep) & set(added)):
            raise InvalidArgumentError("INVALID_ARGUMENT", f"the table has columns {twice} already: see outputs")
        context = dataset.sparkSession.sparkContext
        if self._sent is None or self._sent[0] is not context:
            self._sent = context, context.broadcast(self.data)
        mapping = self.getOrDefault(self.inputMapping)
        if not mapping:
            mapping = {name: name for name in self._inputs()}
        for column, put in mapping.items():
            if column not in dataset.columns:
                raise _no_column(column, put)
        read = list(mapping or dataset.columns)
        table, arrays = _without_vectors(dataset, read)
        given = [arrays.get(column, column) for column in read]
        table = table.select([_quoted(name) for name in [*keep, *(name for name in given if name not in keep)]])
        scoring = _Scoring(
            self._key, self.name, self._sent[1], mapping, arrays, keep, added, self.getOrDefault(self.batchSize)
        )
        scored = _scored_beside(table, given, outputs, scoring)
        if scored is not None:
            return scored
        return table.mapInArrow(scoring.score, StructType([table.schema[name] for name in keep] + list(outputs)))

    def _inputs(self) -> Tuple[str, ...]:
        """The names of the model's inputs; none if its library is not here, or does not read it."""
        if self._names is None:
            try:
                self._names = scorers.load(self.name, self.data).inputs
            except Exception as error:  # a worker that needs it will say so
                _LOG.info("the inputs of %s are not known to the driver: %s", self.name, error)
                self._names = ()
        return self._names

    def write(self) -> MLWriter:
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader:
        return _ModelReader(cls)


class MillraceEstimator(Estimator, _ScoringParams, MLReadable, MLWritable):  # type: ignore[misc]
    """fit(df) runs a program on a cluster of nodes, feeds it the columns `inputCols` (Spark ML's vectors as arrays of
    doubles), and makes a MillraceModel of the one file that it leaves in its model folder.

    program: a function of a node and of what it works for (Fit), which travels as Spark's own functions do, or a
    NodeProgram. Errors are MillraceError, with the first cause; nothing is left running.
    """

    inputCols = _param("inputCols", "the columns that are fed; by default all", TypeConverters.toListString)
    numExecutors = _param("numExecutors", "nodes of the cluster", TypeConverters.toInt)
    numPs = _param("numPs", "parameter servers among them", TypeConverters.toInt)
    masterNode = _param("masterNode", '"chief", "master", or "": workers only', TypeConverters.toString)
    gpusPerNode = _param("gpusPerNode", "GPUs that each node claims", TypeConverters.toInt)
    numEpochs = _param("numEpochs", "how often every row is fed", TypeConverters.toInt)
    feedTimeout = _param("feedTimeout", "seconds without progress that end the fit", TypeConverters.toFloat)
    maxRestarts = _param("maxRestarts", "how often a node that failed is started again", TypeConverters.toInt)
    modelFolder = _param(
        "modelFolder",
        "where the folders of fits are made, which nodes write to and Spark reads: on a file system that all share",
        TypeConverters.toString,
    )
    args = _param("args", "of the program's own", _dict)

    def __init__(self, program: Union[Callable[[Any, Fit], object], NodeProgram], **params: Any) -> None:
        super().__init__()
        if not callable(program) and not isinstance(program, NodeProgram):
            raise InvalidArgumentError("INVALID_ARGUMENT", f"{program!r} is neither a function nor a NodeProgram")
        self.program = program
        self._setDefault(
            inputCols=[], numExecutors=1, numPs=0, masterNode="", gpusPerNode=0, numEpochs=1, feedTimeout=600.0,
            maxRestarts=0, args={},
        )  # fmt: skip
        self._given(params)

    def _fit(self, dataset: DataFrame) -> MillraceModel:
        if not self.isDefined(self.modelFolder):
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", "modelFolder is not set: name a folder that nodes and Spark share"
            )
        spark = dataset.sparkSession
        folder = f"{self.getOrDefault(self.modelFolder).rstrip('/')}/{self.uid}-{uuid.uuid4().hex[:12]}"
        fit = Fit(
            folder, self.getOrDefault(self.batchSize), self.getOrDefault(self.numEpochs), self.getOrDefault(self.args)
        )
        _make_folder(spark, folder)
        options: Any = {}
        if role := self.getOrDefault(self.masterNode):
            options["master_node"] = role
        if gpus := self.getOrDefault(self.gpusPerNode):
            options["node"] = NodeOptions(gpus_per_node=gpus)
        if restarts := self.getOrDefault(self.maxRestarts):
            options["failure"] = FailureOptions(restart=RestartPolicy(restarts))
        with Cluster.run(
            spark,
            _program_of(self.program, fit),
            self.getOrDefault(self.numExecutors),
            num_ps=self.getOrDefault(self.numPs),
            input_mode=InputMode.FEED,
            **options,
        ) as cluster:
            columns = self.getOrDefault(self.inputCols) or dataset.columns
            cluster.train(
                _with_arrays(dataset, columns), fit.num_epochs, self.getOrDefault(self.feedTimeout), end_of_feed=True
            )
        return self._copyValues(MillraceModel(*_read_file(spark, folder)))  # type: ignore[no-any-return]

    def write(self) -> MLWriter:
        return _EstimatorWriter(self)

    @classmethod
    def read(cls) -> MLReader:
        return _EstimatorReader(cls)


def _program_of(program: Any, fit: Fit) -> Any:
    if isinstance(program, NodeProgram):
        described = json.dumps(dataclasses.asdict(fit))
        return NodeProgram(program.program, program.shipped, program.args, {**program.env, "MILLRACE_FIT": described})

    def main(node: Any) -> None:
        program(node, fit)

    return main


# ---- files, anywhere where Hadoop has them --------------------------------------------------------------------------


def _located(spark: SparkSession, name: str) -> Tuple[Any, Any]:
    """Hadoop's file system of a path, and its Path."""
    path: Any = spark._jvm.org.apache.hadoop.fs.Path(name)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path


def _make_folder(spark: SparkSession, folder: str) -> None:
    files, path = _located(spark, folder)
    files.mkdirs(path)


def _read_file(spark: SparkSession, path: str) -> Tuple[str, bytes]:
    """Name and content of a file, or of the one in a folder."""
    files, located = _located(spark, path)
    found = spark.sparkContext.binaryFiles(path, 1).take(2) if files.exists(located) else []
    if len(found) != 1:
        raise FailedPreconditionError(
            "FAILED_PRECONDITION",
            f"{'several files are' if found else 'no file is'} in {path}: a program leaves one, the model",
        )
    return found[0][0].rpartition("/")[2], found[0][1]


class _ModelWriter(MLWriter):  # type: ignore[misc]
    def __init__(self, instance: MillraceModel) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self._instance, path, self.sc, {"name": self._instance.name})
        self.sc.parallelize([self._instance.data], 1).saveAsPickleFile(f"{path}/data")


class _ModelReader(MLReader):  # type: ignore[misc]
    def __init__(self, made: Any) -> None:
        super().__init__()
        self._made = made

    def load(self, path: str) -> MillraceModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        model = self._made(metadata["name"], self.sc.pickleFile(f"{path}/data", 1).first())
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model  # type: ignore[no-any-return]


class _EstimatorWriter(MLWriter):  # type: ignore[misc]
    def __init__(self, instance: MillraceEstimator) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        from pyspark.serializers import CloudPickleSerializer

        pickled = base64.b64encode(CloudPickleSerializer().dumps(self._instance.program)).decode("ascii")
        DefaultParamsWriter.saveMetadata(self._instance, path, self.sc, {"program": pickled})


class _EstimatorReader(MLReader):  # type: ignore[misc]
    """Loading runs what the program's pickle says: load what you trust."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self._made = made

    def load(self, path: str) -> MillraceEstimator:
        from pyspark.serializers import CloudPickleSerializer

        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        estimator = self._made(CloudPickleSerializer().loads(base64.b64decode(metadata["program"])))
        estimator._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(estimator, metadata)
        return estimator  # type: ignore[no-any-return]


# ---- scoring, in Spark's Python workers -----------------------------------------------------------------------------


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _has_vectors(dataset: DataFrame, column: str) -> bool:
    from pyspark.ml.linalg import VectorUDT

    return isinstance(dataset.schema[column].dataType, VectorUDT)


def _with_arrays(dataset: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns, with arrays instead of Spark ML's vectors."""
    from pyspark.ml.functions import vector_to_array

    return dataset.select(
        [
            vector_to_array(_quoted(name)).alias(name) if _has_vectors(dataset, name) else _quoted(name)
            for name in columns
        ]
    )


def _without_vectors(dataset: DataFrame, read: Sequence[str]) -> Tuple[DataFrame, Dict[str, str]]:
    """A table that has an array beside each column of `read` that has Spark ML's vectors, and its name by theirs."""
    from pyspark.ml.functions import vector_to_array

    arrays = {name: f"__{name}" for name in read if _has_vectors(dataset, name)}
    for name, made in arrays.items():
        dataset = dataset.withColumn(made, vector_to_array(_quoted(name)))
    return dataset, arrays


def _scored_beside(table: DataFrame, given: Sequence[str], outputs: StructType, scoring: "_Scoring") -> Any:
    """The table with the answers, of which only the columns `given` go through Python; None if that cannot be done."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    context = table.sparkSession.sparkContext
    gateway = context._gateway
    try:
        _jvm.cluster_class(context, spark_jar)
    except FailedPreconditionError as error:
        _LOG.info("all columns of the result go through Python: %s", error.message)
        return None
    java_outputs = gateway.jvm.org.apache.spark.sql.types.DataType.fromJson(outputs.json())
    ends = gateway.jvm.io.millrace.spark.internal.spark.Scoring.of(
        table._jdf, len(scoring.keep), _jvm.strings(gateway, given), java_outputs, scoring.rows
    )
    if ends is None:
        return None
    inputs, answers = (pa.ipc.read_schema(pa.py_buffer(each)) for each in (ends.inputSchema(), ends.outputSchema()))
    batches = RDD(ends.batches(), context, NoOpSerializer()).mapPartitions(_Batches(scoring, inputs, answers).score)
    return type(table)(ends.rows(batches._reserialize(NoOpSerializer())._jrdd), table.sparkSession)


@dataclasses.dataclass(frozen=True)
class _Scoring:
    """What a worker does with the batches of a partition."""

    key: str
    name: str
    model: Any  # a broadcast
    mapping: Mapping[str, str]
    arrays: Mapping[str, str]
    keep: Sequence[str]
    added: Mapping[str, pa.DataType]
    rows: int

    def score(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in batches:
            for begin in range(0, whole.num_rows, self.rows):
                batch = whole.slice(begin, self.rows)
                columns = [batch.column(name) for name in self.keep] + self.answers(batch)
                yield pa.RecordBatch.from_arrays(columns, [*self.keep, *self.added])

    def answers(self, batch: pa.RecordBatch) -> List[pa.Array]:
        """The columns that are added to these rows."""
        columns = []
        scorer = _scorer(self.key, self.name, self.model)
        inputs, known = self._inputs(scorer, batch)
        answers: Dict[str, Any] = {}
        if known.any():
            answers = scorer(inputs if known.all() else {name: rows[known] for name, rows in inputs.items()})
        for i, (name, kind) in enumerate(self.added.items()):
            if not answers:
                columns.append(pa.nulls(batch.num_rows, kind))
                continue
            answer = answers[_answer(name, i, list(answers), len(self.added))]
            made = _column(name, answer, kind, int(known.sum()))
            if not known.all():
                places = np.cumsum(known) - 1
                made = made.take(pa.array(places, mask=~known))
            columns.append(made)
        return columns

    def _inputs(self, scorer: scorers.Scorer, batch: pa.RecordBatch) -> Tuple[Dict[str, Any], Any]:
        """The model's inputs, and which rows have them all."""
        mapping = self.mapping or {name: name for name in scorer.inputs}
        known = np.ones(batch.num_rows, bool)
        parts: Dict[str, List[Any]] = {}
        for column, put in mapping.items():
            if put not in scorer.inputs:
                raise InvalidArgumentError(
                    "INVALID_ARGUMENT", f"the model has no input {put!r}; it has {', '.join(scorer.inputs)}"
                )
            given = self.arrays.get(column, column)
            if given not in batch.schema.names:
                raise _no_column(column, put)
            numbers, missing = _array(column, batch.column(given), scorer.takes_missing)
            known &= ~missing
            parts.setdefault(put, []).append(numbers)
        if short := [name for name in scorer.inputs if name not in parts]:
            raise InvalidArgumentError("INVALID_ARGUMENT", f"no column is mapped to the model's inputs {short}")
        return {put: _joined(found) for put, found in parts.items()}, known


class _Batches:
    """The same for batches of the inputs alone, as the JVM gives and takes them: messages of Arrow with their bodies
    (io.millrace.spark.internal.spark.Scoring)."""

    def __init__(self, scoring: _Scoring, inputs: pa.Schema, outputs: pa.Schema) -> None:
        self._scoring = dataclasses.replace(scoring, added={field.name: field.type for field in outputs})
        self._inputs = inputs
        self._outputs = outputs

    def score(self, batches: Iterator[bytes]) -> Iterator[bytes]:
        for batch in batches:
            answers = self._scoring.answers(pa.ipc.read_record_batch(pa.py_buffer(batch), self._inputs))
            yield pa.RecordBatch.from_arrays(answers, schema=self._outputs).serialize().to_pybytes()


def _no_column(column: str, put: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "INVALID_ARGUMENT", f"there is no column {column!r} for the model's input {put!r}: see inputMapping"
    )


def _joined(parts: List[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _array(name: str, column: pa.Array, takes_missing: bool) -> Tuple[Any, Any]:
    """A column as an array, and the rows that are not known."""
    missing = _nulls(column)
    rows = np.flatnonzero(~missing)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = column.value_lengths().drop_null().to_numpy(zero_copy_only=False)
        length = int(lengths[0]) if len(rows) else 0
        if (lengths != length).any():
            raise InvalidArgumentError(
                "INVALID_ARGUMENT",
                f"column {name!r} has arrays of {length} and of {lengths[lengths != length][0]} numbers: an input "
                "takes equally many of every row",
            )
        values = column.flatten()
        numbers = values.to_numpy(zero_copy_only=False).reshape(len(rows), length)
        if not takes_missing:
            missing[rows] |= _nulls(values).reshape(len(rows), length).any(axis=1)
    elif pa.types.is_nested(column.type):
        raise InvalidArgumentError("INVALID_ARGUMENT", f"column {name!r} is a {column.type}, which no input takes")
    elif takes_missing and column.null_count:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.zeros(len(column), bool)
    else:
        numbers = column.drop_null().to_numpy(zero_copy_only=False)
    if len(rows) == len(column):
        return numbers, missing
    spread = np.zeros((len(column), *numbers.shape[1:]), numbers.dtype)
    spread[rows] = numbers
    return spread, missing


def _nulls(column: pa.Array) -> Any:
    if not column.null_count:
        return np.zeros(len(column), bool)
    return column.is_null().to_numpy(zero_copy_only=False).copy()


def _answer(name: str, place: int, names: List[str], added: int) -> str:
    """Which of the model's outputs a column gets."""
    if name in names:
        return name
    if len(names) != added:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT", f"the model has no output {name!r}; it has {', '.join(names)}: see outputs"
        )
    return names[place]


def _column(name: str, answer: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """An answer as a column of its type."""
    answer = np.asarray(answer)
    width = answer.size // max(rows, 1)
    nested = pa.types.is_list(kind)
    if len(answer) != rows or (width != 1 and not nested):
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"the model answered {'x'.join(map(str, answer.shape))} numbers for {rows} rows, and column {name!r} is "
            f"{kind}: see outputs",
        )
    values = pa.array(answer.reshape(-1)).cast(kind.value_type if nested else kind)
    if not nested:
        return values
    return pa.ListArray.from_arrays(pa.array(np.arange(0, (rows + 1) * width, width, np.int32)), values)


_loaded: Dict[str, scorers.Scorer] = {}  # in a worker: the last one


def _scorer(key: str, name: str, model: Any) -> scorers.Scorer:
    if key not in _loaded:
        _loaded.clear()  # one at a time is in memory
        _loaded[key] = scorers.load(name, model.value)
    return _loaded[key]
