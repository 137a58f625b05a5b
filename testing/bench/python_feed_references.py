"""Other ways of a table's rows into a Python program, beside Millrace, for the benchmark python_feed.

    python_feed_references.py FOLDER REPETITIONS SHAPE ...

FOLDER has SHAPE.arrow, the rows as a stream of Arrow. Writes a line of JSON for each figure.
"""

import json
import os
import pathlib
import sys
import time
import warnings

import pyarrow
import pyarrow.parquet
import torch
from pyspark.ml.torch import distributor
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

_BATCH = 256


def _tell(shape, way, rows, seconds):
    print("FIGURE " + json.dumps({"shape": shape, "way": way, "rows": rows, "seconds": seconds}), flush=True)


class _Files(torch.utils.data.IterableDataset):
    """What a careful program does with files of Arrow: slices of the mapped memory as tensors."""

    def __init__(self, path):
        self._path = path

    def __iter__(self):
        with pyarrow.memory_map(self._path) as source, pyarrow.ipc.open_stream(source) as reader:
            for batch in reader:
                for first in range(0, batch.num_rows, _BATCH):
                    yield {
                        name: torch.from_numpy(_numbers(column.slice(first, _BATCH)))
                        for name, column in zip(batch.schema.names, batch.columns)
                    }


def _numbers(column):
    width = getattr(column.type, "list_size", 0)
    values = column.flatten() if width else column
    array = values.to_numpy()
    return array.reshape(-1, width) if width else array


def _lists_of_any_length(table):
    """Spark's arrays are."""
    fields = []
    for field in table.schema:
        if pyarrow.types.is_fixed_size_list(field.type):
            field = field.with_type(pyarrow.list_(field.type.value_type))
        fields.append(field)
    return table.cast(pyarrow.schema(fields))


def _torch_distributor(folder, shape, rows):
    """The loader that a function of TorchDistributor.train_on_dataframe is given, on a partition as Spark left it."""
    path = pathlib.Path(folder, f"{shape}.partition")
    with pyarrow.ipc.open_stream(pathlib.Path(folder, f"{shape}.arrow").read_bytes()) as reader:
        table = _lists_of_any_length(reader.read_all().slice(0, rows))
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)  # spark.sql.execution.arrow.maxRecordsPerBatch
    described = pathlib.Path(folder, f"{shape}.json")
    described.write_text(from_arrow_schema(table.schema).json(), encoding="utf-8")
    os.environ[distributor.SPARK_PARTITION_ARROW_DATA_FILE] = str(path)
    os.environ[distributor.SPARK_DATAFRAME_SCHEMA_FILE] = str(described)
    return distributor._get_spark_partition_data_loader(rows, _BATCH)


def _count(batches):
    yield pyarrow.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})


def _read(loader, rows):
    seen = 0
    for batch in loader:
        first = batch[0] if isinstance(batch, list) else next(iter(batch.values()))
        seen += len(first[0]) if isinstance(first, list) else len(first)
    _expect(seen, rows)


def _measure(shape, way, rows, repetitions, run):
    for repetition in range(-1, repetitions):
        began = time.perf_counter()
        run()
        if repetition >= 0:
            _tell(shape, way, rows, time.perf_counter() - began)


def main():
    warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
    folder, repetitions, shapes = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for shape in shapes:
        path = os.path.join(folder, f"{shape}.arrow")
        with pyarrow.ipc.open_stream(pathlib.Path(path).read_bytes()) as reader:
            table = reader.read_all()
        rows = table.num_rows
        pyarrow.parquet.write_table(_lists_of_any_length(table), os.path.join(folder, f"{shape}.parquet"))
        frame = spark.read.parquet(os.path.join(folder, f"{shape}.parquet")).coalesce(1).cache()
        frame.count()
        _measure(
            shape, "mapInArrow", rows, repetitions,
            lambda df=frame, n=rows: _expect(sum(row.n for row in df.mapInArrow(_count, "n long").collect()), n),
        )  # fmt: skip
        frame.unpersist(True)
        if shape == "d":
            continue  # bytes are no tensors
        _measure(shape, "files", rows, repetitions, lambda p=path, n=rows: _read(
            torch.utils.data.DataLoader(_Files(p), batch_size=None), n
        ))
        few = min(rows, 20_000)
        loader = _torch_distributor(folder, shape, few)
        _measure(shape, "TorchDistributor", few, repetitions, lambda one=loader, n=few: _read(one, n))
    spark.stop()


def _expect(seen, rows):
    if seen != rows:
        raise AssertionError(f"{seen} rows came of {rows}")


if __name__ == "__main__":
    main()
