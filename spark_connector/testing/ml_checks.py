"""A PySpark application that fits and scores with millrace.ml; run by python_test.py.

    ml_checks.py LIBRARY PACKAGE MODEL.onnx
"""

import os
import sys
import time

import numpy as np
import onnxruntime
import xgboost
from millrace import FailedPreconditionError, InvalidArgumentError, MillraceError
from millrace.ml import MillraceEstimator, MillraceModel
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, when

_ROWS = 500


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def expect_error(kind, words, call):
    try:
        call()
    except Exception as error:
        text = str(error)
        if "java.net.SocketException: Socket is closed" in text:
            # Spark gave the task a Python worker that ended with a task that was killed.
            return expect_error(kind, words, call)
        found = kind.of(error) if issubclass(kind, MillraceError) else error
        expect(isinstance(found, kind) or words in text, repr(error))
        expect(words in text, text)
        return text
    raise AssertionError(f"no error: {words}")


def _images(spark, width, partitions=3):
    images = np.random.default_rng(1).random((_ROWS, width), np.float32)
    rows = [(i, image.tolist()) for i, image in enumerate(images)]
    # Partitions of nothing among them.
    table = spark.createDataFrame(spark.sparkContext.parallelize(rows, partitions), "id long, image array<float>")
    return images, table.union(table.where("id < 0"))


def _points(spark):
    """Two numbers, of which every seventh is null, and what a model learns from them."""
    table = spark.range(_ROWS).select(
        (col("id") % 10).cast("double").alias("x"), ((col("id") * 7) % 11).cast("float").alias("y"), "id"
    )
    table = table.withColumn("x", when(col("id") % 7 != 0, col("x")))
    learnt = when(col("x").isNull(), lit(50)).otherwise(col("x") * 3) + col("y")
    return table.withColumn("label", learnt.cast("float"))


def _matrix(rows):
    return np.array([[np.nan if row.x is None else row.x, row.y] for row in rows], np.float32)


def _goes_through_python(scored):
    """Whether all columns do."""
    return "MapInArrow" in scored._jdf.queryExecution().toString()


def without_the_jar_all_columns_go_through_python(spark, model, folder):
    jar = os.environ.pop("MILLRACE_SPARK_JAR")
    a_model_adds_columns(spark, model, folder, True)
    os.environ["MILLRACE_SPARK_JAR"] = jar


def a_model_adds_columns(spark, model, folder, through_python=False):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    images, table = _images(spark, session.get_inputs()[0].shape[1])
    want = session.run(None, {"image": images})[0]
    scored = MillraceModel.of(model, outputs="scores array<float>", batchSize=64).transform(table)
    expect(scored.columns == ["id", "image", "scores"], scored.columns)
    expect(_goes_through_python(scored) == through_python, scored._jdf.queryExecution().toString())
    rows = scored.sort("id").collect()
    expect(len(rows) == _ROWS and rows[3].image == images[3].tolist(), len(rows))
    expect(np.abs(np.array([row.scores for row in rows]) - want).max() < 1e-6, "scores")
    renamed = MillraceModel.of(
        model, inputMapping={"pixels": "image"}, outputs="p array<double>", keepCols=["id"]
    ).transform(table.withColumnRenamed("image", "pixels"))
    expect(renamed.columns == ["id", "p"], renamed.columns)
    expect(np.allclose(renamed.sort("id").head(3)[2].p, want[2], atol=1e-6), "renamed")


def rows_with_nulls_have_null_answers(spark, model, folder):
    scorer = MillraceModel.of(model, outputs="scores array<float>", keepCols=["id"])
    _, table = _images(spark, onnxruntime.InferenceSession(model).get_inputs()[0].shape[1])
    whole = {row.id: row.scores for row in scorer.transform(table).collect()}
    holes = table.withColumn("image", when(col("id") % 5 != 0, col("image")))
    for row in scorer.transform(holes).collect():
        expect(row.scores == (whole[row.id] if row.id % 5 else None), row)
    nothing = table.withColumn("image", lit(None).cast("array<float>"))
    expect(all(row.scores is None for row in scorer.transform(nothing).collect()), "nulls only")


def models_of_trees_take_several_columns(spark, model, folder):
    table = _points(spark)
    rows = table.collect()
    booster = xgboost.train({}, xgboost.DMatrix(_matrix(rows), [row.label for row in rows]), 20)
    path = f"{folder}/points.ubj"
    booster.save_model(path)
    scorer = MillraceModel.of(path, inputMapping={"x": "features", "y": "features"}, outputs="guess double")
    want = booster.predict(xgboost.DMatrix(_matrix(rows)))
    guesses = {row.id: row.guess for row in scorer.transform(table).collect()}
    expect(np.allclose([guesses[row.id] for row in rows], want, atol=1e-6), "guesses")
    assembled = VectorAssembler(inputCols=["x", "y"], outputCol="both", handleInvalid="keep").transform(table)
    of_vectors = MillraceModel.of(path, inputMapping={"both": "features"}, outputs="guess float", keepCols=["id"])
    guesses = {row.id: row.guess for row in of_vectors.transform(assembled).collect()}
    expect(np.allclose([guesses[row.id] for row in rows], want, atol=1e-6), "of vectors")


def _points_model(spark, folder):
    rows = _points(spark).collect()
    booster = xgboost.train({}, xgboost.DMatrix(_matrix(rows), [row.label for row in rows]), 5)
    booster.save_model(f"{folder}/few.ubj")
    return {"inputMapping": {"x": "features", "y": "features"}, "outputs": "guess double"}, f"{folder}/few.ubj"


def columns_that_are_kept_stay_as_they_are(spark, model, folder):
    params, path = _points_model(spark, folder)
    table = _points(spark).selectExpr(
        "*",
        "CAST(id AS decimal(30, 2)) AS amount",
        "map(id, array('a', NULL)) AS pairs",
        "IF(id % 3 = 0, NULL, named_struct('a', id, 'b', CAST(id AS string))) AS nested",
    )
    table = VectorAssembler(inputCols=["y", "label"], outputCol="both").transform(table)
    wanted = {row.id: row for row in table.collect()}
    of_all = MillraceModel.of(path, batchSize=7, **params)
    for given in (table, table.repartition(3, "id"), table.coalesce(1), table.where("id < 3").union(table.limit(9))):
        scored = of_all.transform(given)
        expect(not _goes_through_python(scored) and scored.columns == [*table.columns, "guess"], scored.columns)
        for row in scored.collect():
            expect(row[:-1] == tuple(wanted[row.id]) and row.guess is not None, row)
    some = MillraceModel.of(path, keepCols=["nested", "y", "amount"], **params).transform(table)
    expect(some.columns == ["nested", "y", "amount", "guess"], some.columns)
    expect(some.count() == _ROWS, "rows")
    # One model's answer is the other's input; two tables in one task; a reader who stops early.
    guesses = {row.id: row.guess for row in of_all.transform(table).collect()}
    again = {"inputMapping": {"x": "features", "guess": "features"}, "outputs": "second double"}
    second = MillraceModel.of(path, keepCols=["id", "guess"], **again).transform(of_all.transform(table))
    expect({row.id: row.guess for row in second.collect()} == guesses, "a model on a model")
    scored = of_all.transform(table.where("id < 20")).select("id", "guess")
    both = scored.union(scored).coalesce(1).crossJoin(scored.toDF("other", "its"))
    expect(both.where("guess = its OR id <> other").count() == 800, "two in a task")
    expect(of_all.transform(table).limit(3).count() == 3, "limit")


def rows_that_wait_may_be_more_than_memory_holds(spark, model, folder):
    params, path = _points_model(spark, folder)
    table = spark.range(0, 20_000, 1, 2).selectExpr(
        "CAST(id % 10 AS double) AS x", "CAST(id % 11 AS double) AS y", "repeat(CAST(id % 10 AS string), 20000) AS text"
    )
    scored = MillraceModel.of(path, **params).transform(table)
    found = scored.selectExpr("sum(length(text)) AS size", "count(guess) AS rows").head()
    expect(found == (20_000 * 20_000, 20_000), found)


def a_stream_is_scored(spark, model, folder):
    params, path = _points_model(spark, folder)
    table = _points(spark).repartition(2)
    table.write.parquet(f"{folder}/points")
    stream = MillraceModel.of(path, **params).transform(
        spark.readStream.schema(table.schema).parquet(f"{folder}/points")
    )
    query = stream.writeStream.format("memory").queryName("scored").trigger(availableNow=True).start()
    expect(query.awaitTermination(120), "the stream does not end")
    guesses = {row.id: row.guess for row in spark.table("scored").collect()}
    scored = MillraceModel.of(path, **params).transform(table)
    expect(guesses == {row.id: row.guess for row in scored.collect()}, "the same")


def mistakes_say_what_to_do(spark, model, folder):
    _, table = _images(spark, 3)
    of = MillraceModel.of
    scores = "scores array<float>"
    expect_error(InvalidArgumentError, 'outputs="scores array<float>"', lambda: of(model).transform(table))
    expect_error(InvalidArgumentError, "names end with .onnx", lambda: MillraceModel("model.bin", b""))
    expect_error(InvalidArgumentError, "['id'] already", lambda: of(model, outputs="id int").transform(table))
    expect_error(FailedPreconditionError, "no file is in", lambda: of(folder + "/none", outputs=scores))
    for words, mapping, outputs, changed in (
        ("and a row has 3 numbers", {}, scores, table),
        ("there is no column 'image'", {}, scores, table.drop("image")),
        ("the model has no input 'picture'; it has image", {"image": "picture"}, scores, table),
        ("is float: see outputs", {}, "scores float", _images(spark, 64)[1]),
        ("has arrays of 3 and of 1 numbers", {}, scores, table.selectExpr("slice(image, 1, 3 - 2 * (id % 2)) image")),
        ("column 'image' is a struct", {}, scores, table.selectExpr("named_struct('a', id) image")),
    ):
        expect_error(
            InvalidArgumentError,
            words,
            lambda: of(model, inputMapping=mapping, outputs=outputs).transform(changed).collect(),
        )


def _learn(node, fit):
    """Node programs in Python know what they work for."""
    rows = [batch.to_pylist() for batch in node.feed(batch=fit.batch_size)]
    flat = [row for batch in rows for row in batch]
    if node.job_name != "chief":
        return
    matrix = np.array([[np.nan if row["x"] is None else row["x"], row["y"]] for row in flat], np.float32)
    labels = xgboost.DMatrix(matrix, [row["label"] for row in flat])
    xgboost.train({"max_depth": fit.args["depth"]}, labels, fit.args.get("rounds", 20)).save_model(
        os.path.join(fit.model_folder, "points.ubj")
    )


def _estimator(folder, program=_learn, **params):
    return MillraceEstimator(
        program,
        inputCols=["x", "y", "label"],
        numExecutors=1,
        masterNode="chief",
        modelFolder=f"{folder}/models",
        batchSize=100,
        inputMapping={"x": "features", "y": "features"},
        outputs="prediction double",
        args={"depth": 4},
        **params,
    )


def _error(scored):
    return RegressionEvaluator(metricName="rmse").evaluate(scored)


def an_estimator_fits_in_a_pipeline(spark, model, folder):
    table = _points(spark)
    fitted = Pipeline(stages=[_estimator(folder, numEpochs=2)]).fit(table)
    rmse = _error(fitted.transform(table))
    expect(rmse < 1, rmse)
    fitted.write().overwrite().save(f"{folder}/pipeline")
    loaded = PipelineModel.load(f"{folder}/pipeline")
    expect(_error(loaded.transform(table)) == rmse, "of the loaded one")
    expect(loaded.stages[0].uid == fitted.stages[0].uid, "uid")


def _learn_of_vectors(node, fit):
    rows = [row for batch in node.feed(batch=fit.batch_size) for row in batch.to_pylist()]
    matrix = xgboost.DMatrix(np.array([row["both"] for row in rows]), [row["label"] for row in rows])
    xgboost.train({}, matrix, 20).save_model(os.path.join(fit.model_folder, "points.ubj"))


def vectors_are_fed_and_scored_as_arrays(spark, model, folder):
    table = _points(spark).na.fill(50)
    estimator = MillraceEstimator(
        _learn_of_vectors,
        inputCols=["both", "label"],
        modelFolder=f"{folder}/models",
        inputMapping={"both": "features"},
        outputs="prediction double",
    )
    assembler = VectorAssembler(inputCols=["x", "y"], outputCol="both")
    rmse = _error(Pipeline(stages=[assembler, estimator]).fit(table).transform(table))
    expect(rmse < 1, rmse)


def an_estimator_is_saved_and_loaded(spark, model, folder):
    _estimator(folder).write().overwrite().save(f"{folder}/estimator")
    loaded = MillraceEstimator.load(f"{folder}/estimator")
    expect(loaded.getOrDefault(loaded.args) == {"depth": 4}, loaded.explainParams())
    table = _points(spark)
    expect(_error(loaded.fit(table).transform(table)) < 1, "fit")


def parameters_are_searched_for(spark, model, folder):
    table = _points(spark)
    estimator = _estimator(folder)
    grid = ParamGridBuilder().addGrid(estimator.args, [{"depth": 1, "rounds": 1}, {"depth": 4, "rounds": 30}]).build()
    search = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=grid,
        evaluator=RegressionEvaluator(metricName="rmse"),
        numFolds=2,
        seed=3,
    )
    found = search.fit(table)
    expect(found.avgMetrics[1] < found.avgMetrics[0], found.avgMetrics)
    expect(_error(found.transform(table)) < 1, "the best one")


def _fails(node, fit):
    raise ValueError("no such thing as learning")


def _leaves_nothing(node, fit):
    for _ in node.feed():
        pass


def a_fit_that_fails_says_why(spark, model, folder):
    table = _points(spark)
    begun = time.monotonic()
    text = expect_error(MillraceError, "no such thing as learning", lambda: _estimator(folder, _fails).fit(table))
    expect("chief:0" in text, text)
    expect(time.monotonic() - begun < 60, "at once")
    lazy = _estimator(folder, _leaves_nothing)
    expect_error(FailedPreconditionError, "a program leaves one, the model", lambda: lazy.fit(table))
    unset = MillraceEstimator(_learn)
    expect_error(InvalidArgumentError, "modelFolder is not set", lambda: unset.fit(table))
    expect(_error(_estimator(folder).fit(table).transform(table)) < 1, "the next one")


def main():
    spark = (
        SparkSession.builder.appName("ml")
        .config("spark.executorEnv.MILLRACE_LIBRARY", sys.argv[1])
        .config("spark.task.maxFailures", "1")  # a mistake is one the first time
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    folder = os.path.abspath("ml")
    os.makedirs(folder)
    for check in (
        without_the_jar_all_columns_go_through_python,
        a_model_adds_columns,
        columns_that_are_kept_stay_as_they_are,
        rows_that_wait_may_be_more_than_memory_holds,
        a_stream_is_scored,
        rows_with_nulls_have_null_answers,
        models_of_trees_take_several_columns,
        mistakes_say_what_to_do,
        an_estimator_fits_in_a_pipeline,
        vectors_are_fed_and_scored_as_arrays,
        an_estimator_is_saved_and_loaded,
        parameters_are_searched_for,
        a_fit_that_fails_says_why,
    ):
        check(spark, sys.argv[3], folder)
        print(f"CHECK {check.__name__} ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
