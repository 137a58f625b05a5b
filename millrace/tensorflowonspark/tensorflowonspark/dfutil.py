"""DataFrames in TFRecord files, and back, without TensorFlow: records are tf.train.Examples.

Files are read and written by the connector's jar, on any file system that Hadoop has.
"""

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StringType, StructField, StructType

from tensorflowonspark import _example

_INPUT = "io.millrace.spark.internal.tfrecord.TfRecordInputFormat"
_OUTPUT = "io.millrace.spark.internal.tfrecord.TfRecordOutputFormat"
_KEY = "org.apache.hadoop.io.BytesWritable"
_VALUE = "org.apache.hadoop.io.NullWritable"

_SAMPLE = 100  # records
_FLOATS = ("float", "double")
_INTS = ("boolean", "tinyint", "smallint", "int", "bigint", "long")

loadedDF = {}  # DataFrames that loadTFRecords() has made: to their folder


def isLoadedDF(df):
    """Whether loadTFRecords() has made this DataFrame."""
    return df in loadedDF


def _needs_jar(sc):
    from millrace._jvm import cluster_class
    from millrace.spark_cluster import spark_jar

    cluster_class(sc, spark_jar)  # or an error that says how it comes there


def saveAsTFRecords(df, output_dir):
    """Writes a DataFrame to a new folder, a file for each partition. A null is a feature that is not there."""
    _needs_jar(df.rdd.context)
    examples = df.rdd.mapPartitions(toTFExample(df.dtypes))
    examples.saveAsNewAPIHadoopFile(output_dir, _OUTPUT, keyClass=_KEY, valueClass=_VALUE)


def loadTFRecords(sc, input_dir, binary_features=[]):
    """A DataFrame of the files of a folder, compressed or not. The first hundred records say which columns it has: one
    of values where each record has one, otherwise of arrays.

    binary_features: those whose bytes are no text.
    """
    _needs_jar(sc)
    records = sc.newAPIHadoopFile(input_dir, _INPUT, keyClass=_KEY, valueClass=_VALUE)
    sample = [_example.parse(bytes(record)) for record, _ in records.take(_SAMPLE)]
    if not sample:
        raise ValueError(f"{input_dir} has no record, which would say what its columns are")
    schema = _merged([infer_schema(example, binary_features) for example in sample], sample)
    rows = records.mapPartitions(lambda part: _fitting(fromTFExample(part, binary_features), schema))
    df = SparkSession.builder.getOrCreate().createDataFrame(rows, schema)
    loadedDF[df] = input_dir
    return df


def _merged(schemas, examples):
    """The columns of several Examples: what has no value or several somewhere is an array."""
    types = {}
    for schema, example in zip(schemas, examples):
        for field in schema.fields:
            feature = example.features.feature[field.name]
            count = max(len(each.value) for each in (feature.int64_list, feature.float_list, feature.bytes_list))
            known, is_list = types.get(field.name, (None, False))
            kind = field.dataType.elementType if isinstance(field.dataType, ArrayType) else field.dataType
            types[field.name] = (kind if count or known is None else known, is_list or count != 1)
    return StructType([
        StructField(name, ArrayType(kind) if is_list else kind, True) for name, (kind, is_list) in sorted(types.items())
    ])  # fmt: skip


def _fitting(rows, schema):
    """Rows with the columns of the schema."""

    def fit(row, field):
        value = row[field.name] if field.name in row else None
        if isinstance(field.dataType, ArrayType):
            if field.name not in row:
                return None
            return [] if value is None else value if isinstance(value, list) else [value]
        if isinstance(value, list):
            raise ValueError(
                f"feature {field.name!r} has {len(value)} values where the first {_SAMPLE} records have one each"
            )
        return value

    for row in rows:
        yield tuple(fit(row, field) for field in schema.fields)


def _feature(value, dtype):
    """None for a type that an Example has not."""
    is_list = dtype.startswith("array<") and dtype.endswith(">")
    element = dtype[len("array<") : -1] if is_list else dtype
    values = value if is_list else [value]
    if element in _FLOATS:
        return _example.float_feature(values)
    if element in _INTS:
        return _example.int64_feature(values)
    if element == "binary":
        return _example.bytes_feature(map(bytes, values))
    if element == "string":
        return _example.bytes_feature(str(each).encode() for each in values)
    return None


def toTFExample(dtypes):
    """For mapPartitions: rows with these columns (DataFrame.dtypes) to pairs of an Example's bytes and None."""

    def to_examples(rows):
        for row in rows:
            features = {}
            for name, dtype in dtypes:
                if row[name] is None:
                    continue
                features[name] = _feature(row[name], dtype)
                if features[name] is None:
                    raise Exception(f"Unsupported dtype: {dtype}")
            yield bytearray(_example.serialize(features)), None

    return to_examples


def infer_schema(example, binary_features=[]):
    """The columns of an Example, by name: bigint, double, string or, for `binary_features`, binary; of several values
    an array."""

    def type_of(name, feature):
        text = BinaryType() if name in binary_features else StringType()
        for values, kind in (
            (feature.int64_list.value, LongType()),
            (feature.float_list.value, DoubleType()),
            (feature.bytes_list.value, text),
        ):
            if values:
                return ArrayType(kind) if len(values) > 1 else kind
        return text

    features = sorted(example.features.feature.items())
    return StructType([StructField(name, type_of(name, feature), True) for name, feature in features])


def fromTFExample(iter, binary_features=[]):
    """For mapPartitions: pairs of an Example's bytes and anything to Rows, whose columns are sorted by name."""

    def value_of(name, feature):
        if feature.bytes_list.value:
            values = [
                bytearray(value) if name in binary_features else value.decode() for value in feature.bytes_list.value
            ]
        else:
            values = list(feature.int64_list.value or feature.float_list.value)
        return values if len(values) > 1 else values[0] if values else None

    for record in iter:
        features = _example.parse(bytes(record[0])).features.feature
        yield Row(**{name: value_of(name, feature) for name, feature in sorted(features.items())})
