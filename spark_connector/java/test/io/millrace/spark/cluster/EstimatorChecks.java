package io.millrace.spark.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.ml.MillraceEstimator;
import io.millrace.spark.ml.MillraceModel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.evaluation.RegressionEvaluator;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.tuning.CrossValidator;
import org.apache.spark.ml.tuning.CrossValidatorModel;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Clusters as stages of Spark ML; two executors of one core each. */
final class EstimatorChecks extends Checks {
  private static final int ROWS = 500;
  private static final double SLOPE = 3;

  private final String models;

  EstimatorChecks(String[] args) {
    super(args);
    models = folder + "/models";
  }

  @Override
  void runAll() {
    check("fitsAndAddsColumns", this::fitsAndAddsColumns);
    check("isLazy", this::isLazy);
    check("keepsWhatNoFeedCarries", this::keepsWhatNoFeedCarries);
    check("inAPipeline", this::inAPipeline);
    check("inACrossValidator", this::inACrossValidator);
    check("savedAndLoaded", this::savedAndLoaded);
    check("mistakes", this::mistakes);
    check("failures", this::failures);
    check("wideRows", this::wideRows);
    check("nothingIsLeft", this::nothingIsLeft);
  }

  private NodeProgram program(String... args) {
    return NodeProgram.file(node, args);
  }

  private MillraceEstimator estimator() {
    return new MillraceEstimator()
        .setProgram(program("learn"))
        .setInputCols("x", "y")
        .setNumExecutors(2)
        .setBatchSize(50)
        .setModelFolder(models)
        .setInputMapping(Collections.singletonMap("x", "x"))
        .setOutputs("guess double");
  }

  /** y = 3 x, in partitions of which one is empty. */
  private Dataset<Row> line() {
    Dataset<Row> rows = numbers(ROWS, 3).selectExpr("x", "3 * x AS y", "concat('row ', x) AS name");
    return rows.union(rows.where("x < 0"));
  }

  private static void requireGuesses(Dataset<Row> scored, int rows) {
    List<Row> found = scored.select("x", "guess").collectAsList();
    requireEqual(rows, found.size());
    for (Row row : found) {
      double wanted = SLOPE * row.getLong(0);
      require(Math.abs(row.getDouble(1) - wanted) < 1e-3, row.toString());
    }
  }

  private void fitsAndAddsColumns() {
    try (MillraceModel model = estimator().setNumEpochs(2).fit(line())) {
      Dataset<Row> scored = model.transform(line());
      requireEqual(Arrays.asList("x", "y", "name", "guess"), Arrays.asList(scored.columns()));
      requireGuesses(scored, ROWS);
      requireEqual("row 7", scored.where("x = 7").first().getString(2));
      requireGuesses(scored, ROWS); // rows are asked for again
      Dataset<Row> few = model.setKeepCols("name").transform(line());
      requireEqual(Arrays.asList("name", "guess"), Arrays.asList(few.columns()));
      requireEqual((long) ROWS, few.where("guess = 3 * CAST(substring(name, 5) AS INT)").count());
      // A copy is scored for by the same nodes.
      int running = nodes();
      requireGuesses(model.copy(new ParamMap()).setKeepCols().transform(line()), ROWS);
      requireEqual(running, nodes());
      requireEqual(2, running);
    }
    requireEqual(0, nodes());
  }

  /** How many nodes score for models of this application. */
  private int nodes() {
    try (Stream<Path> processes = Files.list(Paths.get("/proc"))) {
      return (int) processes.filter(this::scores).count();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private boolean scores(Path process) {
    try {
      byte[] environment = Files.readAllBytes(process.resolve("environ"));
      for (String variable : new String(environment, StandardCharsets.UTF_8).split("\0")) {
        if (variable.startsWith("MILLRACE_MODEL=") && variable.contains(folder)) {
          return true;
        }
      }
    } catch (IOException e) {
      return false; // of another user, no process, or ended meanwhile
    }
    return false;
  }

  private void isLazy() {
    try (MillraceModel model = estimator().fit(line())) {
      sc.setJobGroup("lazy", "what transform runs", false);
      Dataset<Row> scored = model.transform(line().repartition(3)).where("guess > 10");
      scored.queryExecution().executedPlan();
      requireEqual(0, nodes());
      requireEqual(0, sc.statusTracker().getJobIdsForGroup("lazy").length);
      requireEqual((long) ROWS - 4, scored.count());
      require(sc.statusTracker().getJobIdsForGroup("lazy").length > 0, "jobs of the action");
      sc.clearJobGroup();
    }
  }

  /** Decimals, maps and vectors stay where they are; of rows that nobody asks for, nothing. */
  private void keepsWhatNoFeedCarries() {
    try (MillraceModel model = estimator().fit(line())) {
      Dataset<Row> all =
          line().selectExpr(
              "x", "CAST(x AS DECIMAL(20, 2)) AS money", "map(x, name) AS names", "IF(x % 2 = 0, name, NULL) AS some");
      requireGuesses(model.transform(all), ROWS);
      List<Row> kept = model.transform(all).drop("guess").collectAsList();
      requireEqual(all.collectAsList(), kept);
      requireEqual(10, model.transform(all).limit(10).collectAsList().size());
      MillraceException e =
          requireError(
              StatusCode.INVALID_ARGUMENT,
              () -> model.setInputMapping(Collections.<String, String>emptyMap()).transform(all));
      requireContains(e.getMessage(), "money");
    }
  }

  private void inAPipeline() throws Exception {
    Map<String, String> mapping = new LinkedHashMap<>();
    mapping.put("both", "x");
    mapping.put("y", "x");
    VectorAssembler assembler = new VectorAssembler().setInputCols(new String[] {"x", "zero"}).setOutputCol("both");
    Dataset<Row> table = line().selectExpr("x", "y", "0 AS zero");
    Pipeline pipeline =
        new Pipeline().setStages(new PipelineStage[] {assembler, estimator().setInputMapping(mapping)});
    PipelineModel fitted = pipeline.fit(table);
    // What is guessed from is x + 0 + y: a vector and a number are one input.
    List<Row> rows = fitted.transform(table).select("x", "guess").collectAsList();
    requireEqual(ROWS, rows.size());
    for (Row row : rows) {
      require(Math.abs(row.getDouble(1) - SLOPE * 4 * row.getLong(0)) < 1e-2, row.toString());
    }
    pipeline.write().overwrite().save(folder + "/pipeline");
    fitted.write().overwrite().save(folder + "/fitted");
    ((MillraceModel) fitted.stages()[1]).close();
    PipelineModel loaded = PipelineModel.load(folder + "/fitted");
    requireEqual(fitted.stages()[1].uid(), loaded.stages()[1].uid());
    requireEqual(rows, loaded.transform(table).select("x", "guess").collectAsList());
    ((MillraceModel) loaded.stages()[1]).close();
    MillraceEstimator again = (MillraceEstimator) Pipeline.load(folder + "/pipeline").getStages()[1];
    requireEqual(mapping, again.getOrDefault(again.inputMapping()));
  }

  private void inACrossValidator() throws Exception {
    MillraceEstimator estimator = estimator();
    List<ParamMap> grid = new ArrayList<>();
    for (double shrink : new double[] {0.5, 1, 0.9}) {
      Map<String, Object> args = Collections.singletonMap("shrink", shrink);
      grid.add(new ParamMap().put(estimator.args(), args));
    }
    CrossValidator search =
        new CrossValidator()
            .setEstimator(estimator)
            .setEstimatorParamMaps(grid.toArray(new ParamMap[0]))
            .setEvaluator(new RegressionEvaluator().setLabelCol("y").setPredictionCol("guess").setMetricName("rmse"))
            .setNumFolds(2)
            .setSeed(3);
    CrossValidatorModel found = search.fit(line());
    double[] errors = found.avgMetrics();
    require(errors[1] < 1e-3 && errors[2] > 1 && errors[0] > errors[2], Arrays.toString(errors));
    // The nodes of models that are gone are, too: the last ones after a collection of garbage.
    require(nodes() <= 2, nodes() + " nodes of six models");
    try (MillraceModel best = (MillraceModel) found.bestModel()) {
      requireGuesses(best.transform(line()), ROWS);
      Eventually.await(
          "the end of the others' nodes",
          () -> {
            System.gc();
            return nodes() == 2;
          });
    }
  }

  private void savedAndLoaded() throws Exception {
    Map<String, Object> args = new LinkedHashMap<>();
    args.put("shrink", 0.5);
    args.put("words", Arrays.asList("ünï", 1L, true));
    MillraceEstimator estimator =
        estimator()
            .setProgram(program("learn").env("A", "b"))
            .setArgs(args)
            .setFeedTimeout(60.5)
            .setMasterNode("chief");
    estimator.write().overwrite().save(folder + "/estimator");
    MillraceEstimator loaded = MillraceEstimator.load(folder + "/estimator");
    requireEqual(estimator.uid(), loaded.uid());
    requireEqual(estimator.explainParam(estimator.args()), loaded.explainParam(loaded.args()));
    requireEqual(args, loaded.getOrDefault(loaded.args()));
    requireEqual(60.5, loaded.getOrDefault(loaded.feedTimeout()));
    requireEqual(Collections.singletonMap("A", "b"), loaded.getOrDefault(loaded.program()).env());
    require(loaded.getOrDefault(loaded.program()).isShipped(), "shipped");
    try (MillraceModel model = loaded.fit(line())) {
      model.write().overwrite().save(folder + "/model");
      // It needs nothing of where it was fitted.
      Files.delete(Paths.get(model.getOrDefault(model.modelFile())));
      try (MillraceModel again = MillraceModel.load(folder + "/model")) {
        requireEqual(model.uid(), again.uid());
        requireEqual(
            (long) ROWS, again.transform(line()).where("abs(guess - 0.5 * 3 * x) < 0.001").count());
      }
    }
  }

  private void mistakes() {
    Dataset<Row> table = line();
    requireMistake("program is not set", of -> of.clear(of.program()));
    requireMistake("modelFolder is not set", of -> of.clear(of.modelFolder()));
    requireMistake("inputCols names no column \"z\"; the table has x, y, name", of -> of.setInputCols("x", "z"));
    requireMistake("numExecutors is 0", of -> of.setNumExecutors(0));
    requireMistake("numPs is -1", of -> of.setNumPs(-1));
    requireMistake("2 ps, master and evaluator are 3 nodes", of -> of.setNumPs(2).setMasterNode("chief"));
    requireMistake("masterNode is \"boss\"", of -> of.setMasterNode("boss"));
    requireMistake("gpusPerNode is -1", of -> of.setGpusPerNode(-1));
    requireMistake("maxRestarts is -1", of -> of.setMaxRestarts(-1));
    requireMistake("numEpochs is 0", of -> of.setNumEpochs(0));
    requireMistake("batchSize is 0", of -> of.setBatchSize(0));
    requireMistake("feedTimeout is 0.0 s", of -> of.setFeedTimeout(0));
    requireMistake(
        "args: class java.lang.Object", of -> of.setArgs(Collections.<String, Object>singletonMap("a", new Object())));
    // What transform looks at.
    MillraceModel model =
        new MillraceModel().setProgram(program("learn")).setModelFile("/nowhere/slope.txt").setOutputs("guess double");
    requireMistake(model, "modelFile is not set", of -> of.clear(of.modelFile()));
    requireMistake(model, "program is not set", of -> of.clear(of.program()));
    requireMistake(model, "outputs is not set", of -> of.clear(of.outputs()));
    requireMistake(model, "outputs is \"guess of\"", of -> of.setOutputs("guess of"));
    requireMistake(model, "outputs has the column \"x\"", of -> of.setOutputs("x double"));
    requireMistake(model, "keepCols names no column \"z\"", of -> of.setKeepCols("z"));
    requireMistake(
        model, "inputMapping names no column \"z\"", of -> of.setInputMapping(Collections.singletonMap("z", "x")));
    requireMistake(model, "numExecutors is 0", of -> of.setNumExecutors(0));
    requireMistake(model, "batchSize is 0", of -> of.setBatchSize(0));
    // A Pipeline finds them before it fits anything.
    Pipeline pipeline = new Pipeline().setStages(new PipelineStage[] {estimator().setOutputs("x int")});
    requireContains(
        requireError(StatusCode.INVALID_ARGUMENT, () -> pipeline.fit(table)).getMessage(), "outputs has the column");
    String[] begun = Paths.get(models, "nothing").toFile().list();
    require(begun == null || begun.length == 0, "folders of fits that did not begin: " + Arrays.toString(begun));
  }

  private void requireMistake(String words, Consumer<MillraceEstimator> change) {
    MillraceEstimator changed = estimator().setModelFolder(models + "/nothing");
    change.accept(changed);
    MillraceException e = requireError(StatusCode.INVALID_ARGUMENT, () -> changed.fit(line()));
    requireContains(e.getMessage(), words);
  }

  private void requireMistake(MillraceModel model, String words, Consumer<MillraceModel> change) {
    MillraceModel changed = model.copy(new ParamMap());
    change.accept(changed);
    MillraceException e = requireError(StatusCode.INVALID_ARGUMENT, () -> changed.transform(line()));
    requireContains(e.getMessage(), words);
  }

  private void failures() {
    MillraceException e =
        requireError(
            StatusCode.INTERNAL, () -> estimator().setProgram(program("fail_at", "7")).fit(line()));
    requireContains(e.getMessage(), "row 7 is too much");
    requireContains(String.join("\n", e.stderrLines()), "cannot bear row 7");
    require(e.node().startsWith("worker:"), e.node());
    e =
        requireError(
            StatusCode.FAILED_PRECONDITION, () -> estimator().setProgram(program("sum")).fit(line()));
    requireContains(e.getMessage(), "no file is in " + models);
    try (MillraceModel model = estimator().fit(line())) {
      Dataset<Row> scored = model.setProgram(program("learn", "7")).transform(line());
      requireContains(requireActionError(StatusCode.INTERNAL, scored::count).getMessage(), "row 7 is too much");
      // Other tables have other nodes.
      requireEqual((long) ROWS - 8, model.transform(line().where("x > 7")).count());
    }
    MillraceModel none =
        new MillraceModel().setProgram(program("learn")).setModelFile("/nowhere/slope.txt").setOutputs("guess double");
    requireContains(
        requireActionError(StatusCode.NOT_FOUND, () -> none.transform(line()).count()).getMessage(),
        "/nowhere/slope.txt");
    none.close();
  }

  /** What stays with the task is bounded, however little of a row is fed. */
  private void wideRows() {
    try (MillraceModel model = estimator().fit(line())) {
      Dataset<Row> wide = numbers(40_000, 1).selectExpr("x", "repeat(CAST(x AS STRING), 1500) AS pad");
      Dataset<Row> scored = model.transform(wide);
      requireEqual(
          40_000L, scored.where("abs(guess - 3 * x) < 0.01 AND pad = repeat(CAST(x AS STRING), 1500)").count());
    }
  }

  private void nothingIsLeft() throws Exception {
    Eventually.await(
        "the end of all nodes",
        () -> {
          System.gc();
          return nodes() == 0;
        });
  }
}
