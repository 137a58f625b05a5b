"""The application of the benchmark scoring: measures, and writes a line of JSON for each call."""

import argparse
import json
import time

import numpy as np
import onnx
from millrace.ml import MillraceModel
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType

_SIZES = (784, 128, 10)


def write_model(path):
    """Layers with weights that are drawn, and what is between them."""
    drawn = np.random.default_rng(7)
    nodes, weights, put = [], [], "image"
    for i, (inputs, outputs) in enumerate(zip(_SIZES, _SIZES[1:])):
        for name, shape in ((f"w{i}", (inputs, outputs)), (f"b{i}", (outputs,))):
            values = (drawn.random(shape, np.float32) - 0.5) / 10
            weights.append(onnx.numpy_helper.from_array(values, name))
        last = i == len(_SIZES) - 2
        made = "scores" if last else f"h{i}"
        nodes.append(onnx.helper.make_node("Gemm", [put, f"w{i}", f"b{i}"], [made if last else f"g{i}"]))
        if not last:
            nodes.append(onnx.helper.make_node("Relu", [f"g{i}"], [made]))
        put = made
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "mlp",
        [onnx.helper.make_tensor_value_info("image", kind, ["rows", _SIZES[0]])],
        [onnx.helper.make_tensor_value_info("scores", kind, ["rows", _SIZES[-1]])],
        weights,
    )
    # What every ONNX Runtime of the last years reads.
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def reference(path, batch):
    """As Spark's documentation has it; the model is in memory once, and on one core, as ours."""
    with open(path, "rb") as file:
        data = file.read()

    def make():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return lambda image: session.run(None, {"image": image.astype(np.float32, copy=False)})[0]

    return predict_batch_udf(
        make, return_type=ArrayType(FloatType()), batch_size=batch, input_tensor_shapes=[[_SIZES[0]]]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--reps", type=int)
    arguments = parser.parse_args()
    write_model(arguments.model)
    spark = SparkSession.builder.appName("scoring").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    image = f"transform(sequence(0, {_SIZES[0] - 1}), k -> CAST((id * 7 + k) % 256 / 255 AS float)) AS image"
    table = spark.range(0, arguments.rows, 1, 2).selectExpr("id", image).cache()
    table.count()
    scores = reference(arguments.model, arguments.batch)
    settings = {"outputs": "scores array<float>", "batchSize": arguments.batch}
    whole = MillraceModel.of(arguments.model, **settings)
    ways = {
        "predict_batch_udf": table.withColumn("scores", scores("image")),
        "predict_batch_udf, id only": table.select("id", scores("image").alias("scores")),
        "transform": whole.transform(table),
        "transform, id only": MillraceModel.of(arguments.model, keepCols=["id"], **settings).transform(table),
    }
    for rep in range(-1, arguments.reps):  # one that does not count
        for way, scored in ways.items():
            began = time.perf_counter()
            scored.write.format("noop").mode("overwrite").save()
            rate = arguments.rows / (time.perf_counter() - began)
            if rep >= 0:
                print("FIGURE " + json.dumps({"way": way, "rows_per_second": rate}), flush=True)
    ours, theirs = (
        {row.id: row.scores for row in ways[way].where("id % 97 = 0").collect()}
        for way in ("transform", "predict_batch_udf")
    )
    if ours.keys() != theirs.keys() or any(not np.allclose(ours[i], theirs[i], atol=1e-6) for i in ours):
        raise AssertionError("the scores differ")
    spark.stop()


if __name__ == "__main__":
    main()
