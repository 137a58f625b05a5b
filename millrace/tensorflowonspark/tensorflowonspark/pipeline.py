"""Spark ML on clusters: TFEstimator trains on a DataFrame, TFModel applies what was exported.

    estimator = TFEstimator(main_fun, args).setInputMapping({"image": "x", "label": "y"}).setClusterSize(4)
    model = estimator.setExportDir("export").fit(df)
    predictions = model.setInputMapping({"image": "x"}).setOutputMapping({"dense": "prediction"}).transform(df)
"""

import argparse
import copy
import itertools
import logging
import sys

from pyspark import SparkContext
from pyspark.ml import Estimator, Model
from pyspark.ml.param.shared import Param, Params, TypeConverters
from pyspark.sql import SparkSession

from tensorflowonspark import TFCluster, util

logger = logging.getLogger(__name__)

_SIGNATURE = "serving_default"  # TensorFlow's


class TFTypeConverters(object):
    """What Spark has not among its TypeConverters."""

    @staticmethod
    def toDict(value):
        if isinstance(value, dict):
            return value
        raise TypeError(f"Could not convert {value!r} to a dict")


def _mixin(accessor, *params):
    """A class of Spark ML with parameters (name, its accessor, what it is, converter), each with setter and getter."""

    def methods(name, own):
        def set_value(self, value):
            return self._set(**{name: value})

        def get_value(self):
            return self.getOrDefault(name)

        return {"set" + own: set_value, "get" + own: get_value}

    members = {"__module__": __name__, "__doc__": f"Parameter {', '.join(param[0] for param in params)}."}
    for name, own, what, converter in params:
        members[name] = Param(Params._dummy(), name, what, typeConverter=converter)
        members.update(methods(name, own))
    return type("Has" + accessor, (Params,), members)


def _one(accessor, name, what, converter):
    return _mixin(accessor, (name, accessor, what, converter))


HasBatchSize = _one("BatchSize", "batch_size", "elements in a batch", TypeConverters.toInt)
HasClusterSize = _one("ClusterSize", "cluster_size", "nodes of the cluster", TypeConverters.toInt)
HasEpochs = _one("Epochs", "epochs", "how often all rows are fed", TypeConverters.toInt)
HasGraceSecs = _one("GraceSecs", "grace_secs", "as TFCluster.shutdown's", TypeConverters.toInt)
HasInputMapping = _one("InputMapping", "input_mapping", "columns to input tensors", TFTypeConverters.toDict)
HasInputMode = _one("InputMode", "input_mode", "1: rows are fed", TypeConverters.toInt)
HasMasterNode = _one("MasterNode", "master_node", '"chief" or "master"', TypeConverters.toString)
HasModelDir = _one("ModelDir", "model_dir", "where checkpoints are", TypeConverters.toString)
HasNumPS = _mixin(
    "NumPS",
    ("num_ps", "NumPS", "parameter servers in the cluster", TypeConverters.toInt),
    ("driver_ps_nodes", "DriverPSNodes", "whether they run on the driver's host", TypeConverters.toBoolean),
)
HasOutputMapping = _one("OutputMapping", "output_mapping", "output tensors to columns", TFTypeConverters.toDict)
HasProtocol = _one("Protocol", "protocol", "of TensorFlow's servers", TypeConverters.toString)
HasReaders = _one("Readers", "readers", "threads that read", TypeConverters.toInt)
HasSteps = _one("Steps", "steps", "the most steps of a training", TypeConverters.toInt)
HasTensorboard = _one("Tensorboard", "tensorboard", "whether TensorBoard runs", TypeConverters.toBoolean)
HasTFRecordDir = _one("TFRecordDir", "tfrecord_dir", "where TFRecord files are", TypeConverters.toString)
HasExportDir = _one("ExportDir", "export_dir", "where the SavedModel is", TypeConverters.toString)
HasSignatureDefKey = _one("SignatureDefKey", "signature_def_key", "a signature of it", TypeConverters.toString)
HasTagSet = _one("TagSet", "tag_set", "its tags, with commas between them", TypeConverters.toString)


class Namespace(object):
    """Arguments of a program as attributes: of a dict, of argparse's or another Namespace; or argv, a list."""

    argv = None

    def __init__(self, d):
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, dict):
            vars(self).update(d)
        elif isinstance(d, (argparse.Namespace, Namespace)):
            vars(self).update(vars(d))
        else:
            raise Exception(f"Unsupported Namespace args: {d}")

    def __iter__(self):
        return iter(self.argv or list(vars(self)))

    def __repr__(self):
        if self.argv:
            return str(self.argv)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"

    def __eq__(self, other):
        return self.argv == other if self.argv else vars(self) == vars(other)


class TFParams(Params):
    """Arguments of a program, `args`, beside Spark's parameters."""

    args = None

    def merge_args_params(self):
        """A copy of the arguments with every parameter among them."""
        merged = copy.copy(self.args)
        for param in self.params:
            setattr(merged, param.name, self.getOrDefault(param.name))
        return merged


class TFEstimator(
    Estimator, TFParams, HasInputMapping, HasClusterSize, HasNumPS, HasInputMode, HasMasterNode, HasProtocol,
    HasGraceSecs, HasTensorboard, HasModelDir, HasExportDir, HasTFRecordDir, HasBatchSize, HasEpochs, HasReaders,
    HasSteps,
):  # fmt: skip
    """fit(df) runs train_fn(args, ctx) on a cluster, feeds it the columns of the input mapping, in the order of their
    names, and returns a TFModel of the same arguments and parameters."""

    train_fn = None

    def __init__(self, train_fn, tf_args, export_fn=None):
        super().__init__()
        if export_fn is not None:
            raise Exception("Please use native TF2.x APIs to export a saved_model.")
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={}, cluster_size=1, num_ps=0, driver_ps_nodes=False, input_mode=TFCluster.InputMode.SPARK,
            master_node="chief", protocol="grpc", tensorboard=False, model_dir=None, export_dir=None,
            tfrecord_dir=None, batch_size=100, epochs=1, readers=1, steps=1000, grace_secs=30,
        )  # fmt: skip

    def _fit(self, dataset):
        merged = self.merge_args_params()
        cluster = TFCluster.run(
            SparkContext.getOrCreate(),
            self.train_fn,
            self.args.argv or merged,
            merged.cluster_size,
            merged.num_ps,
            merged.tensorboard,
            TFCluster.InputMode.SPARK,
            master_node=merged.master_node,
            driver_ps_nodes=merged.driver_ps_nodes,
        )
        try:
            cluster.train(dataset.select(sorted(self.getInputMapping())).rdd, merged.epochs)
            cluster.shutdown(grace_secs=merged.grace_secs)
        finally:
            cluster.close()
        return self._copyValues(TFModel(self.args))


class TFModel(
    Model, TFParams, HasInputMapping, HasOutputMapping, HasBatchSize, HasModelDir, HasExportDir, HasSignatureDefKey,
    HasTagSet,
):  # fmt: skip
    """transform(df) applies the SavedModel in the export folder to the columns of the input mapping, in Spark's own
    Python workers, each of which loads it once. The result has the columns of the output mapping, and no others."""

    def __init__(self, tf_args):
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={}, output_mapping={}, batch_size=100, model_dir=None, export_dir=None,
            signature_def_key=None, tag_set=None,
        )  # fmt: skip

    def _transform(self, dataset):
        merged = self.merge_args_params()
        inputs = sorted(self.getInputMapping())
        outputs = [column for _, column in sorted(self.getOutputMapping().items())]
        rows = dataset.select(inputs).rdd.mapPartitions(lambda rows: _apply(rows, merged))
        return SparkSession.builder.getOrCreate().createDataFrame(rows, outputs)


_loaded = {}  # in a worker: signatures by what they were loaded with


def _signature(args):
    import tensorflow as tf

    assert args.export_dir, "Inferencing requires --export_dir argument"
    key = (args.export_dir, args.tag_set, args.signature_def_key)
    if key not in _loaded:
        model = tf.saved_model.load(args.export_dir, tags=args.tag_set and args.tag_set.split(","))
        _loaded.clear()  # one at a time is in memory
        _loaded[key] = model, model.signatures[args.signature_def_key or _SIGNATURE]  # which needs the model
    return _loaded[key][1]


def _apply(rows, args):
    """Rows of outputs for rows of inputs."""
    single_node_env(args)
    import tensorflow as tf

    signature = _signature(args)
    specs = signature.structured_input_signature[1]
    inputs = [tensor for _, tensor in sorted(args.input_mapping.items())]
    outputs = [tensor for tensor, _ in sorted(args.output_mapping.items())]
    for columns in yield_batch(rows, args.batch_size, len(inputs)):
        given = {}
        for name, values in zip(inputs, columns):
            spec = specs[name]
            # Spark's arrays have one dimension.
            given[name] = tf.reshape(tf.constant(values, dtype=spec.dtype), [len(values), *spec.shape[1:]])
        results = signature(**given)
        made = [results[name].numpy().tolist() for name in outputs]
        sizes = [len(column) for column in made]
        assert all(size == len(columns[0]) for size in sizes), (
            f"Output array sizes {sizes} must match input size: {len(columns[0])}"
        )
        yield from zip(*made)


def single_node_env(args):
    """Prepares a worker for a program's arguments: argv, and GPUs."""
    argv = args if isinstance(args, list) else getattr(args, "argv", None)
    if argv:
        sys.argv = argv
    num_gpus = getattr(args, "num_gpus", None)
    util.single_node_env(1 if num_gpus is None else num_gpus)


def yield_batch(iterable, batch_size, num_tensors=1):
    """Batches of rows, as a list of values for each of the first `num_tensors` columns."""
    rows = iter(iterable)
    while batch := list(itertools.islice(rows, batch_size)):
        columns = list(zip(*batch))[:num_tensors]
        yield [[bytes(value) if isinstance(value, bytearray) else value for value in column] for column in columns]
