package io.millrace.spark.ml;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.ShutdownOptions;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.Text;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.DefaultParamsReadable;
import org.apache.spark.ml.util.DefaultParamsWritable;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * Fits a model by a cluster of node programs.
 *
 * <pre>{@code
 * MillraceEstimator estimator = new MillraceEstimator()
 *     .setProgram(NodeProgram.file("my_node")).setNumExecutors(4).setMasterNode("chief")
 *     .setInputCols("image", "label").setModelFolder("/shared/models").setOutputs("digit int");
 * MillraceModel model = estimator.fit(df);
 * Dataset<Row> scored = model.transform(test);     // test and its column digit, lazy
 * }</pre>
 *
 * <p>{@code fit} starts the cluster, feeds it the columns {@code inputCols} (vectors of Spark ML as arrays of doubles),
 * {@code numEpochs} times, waits until the programs have ended, and makes a {@link MillraceModel} of the one file that
 * they leave. What they work for they find in {@code $MILLRACE_FIT}, as JSON: {@code {"model_folder":
 * "/shared/models/...", "batch_size": 1024, "num_epochs": 1, "args": {}}}. The folder is empty, and this fit's own; one
 * node, such as the chief, leaves the file there. It stays when the model is gone. The model has the estimator's
 * parameters, and its program, which scores then.
 *
 * <p>Errors: {@code fit} throws a {@link MillraceException}: INVALID_ARGUMENT that names a parameter;
 * FAILED_PRECONDITION if the programs have left no file, or several; what {@link MillraceCluster#run} and {@link
 * MillraceCluster#train(Dataset, TrainOptions)} say, with the first cause. No node is left running, and what the
 * programs have written stays.
 *
 * <p>Not thread-safe while parameters are set; otherwise thread-safe, and fits at once are clusters of their own, which
 * need cores for their nodes at once.
 */
public final class MillraceEstimator extends Estimator<MillraceModel>
    implements MillraceParams<MillraceEstimator>, DefaultParamsWritable {
  private static final long serialVersionUID = 1L;

  private final String uid;

  public MillraceEstimator() {
    this(Identifiable.randomUID("MillraceEstimator"));
  }

  /** With that identity: for copies and readers. */
  public MillraceEstimator(String uid) {
    this.uid = uid;
    Checks.setDefaults(this);
    setDefault(inputCols(), new String[0]);
    setDefault(numPs(), 0);
    setDefault(masterNode(), "");
    setDefault(numEpochs(), 1);
    setDefault(args(), Collections.<String, Object>emptyMap());
  }

  @Override
  public String uid() {
    return uid;
  }

  // -------------------------------------------------------------------------------------- parameters

  /** Default: empty. */
  public StringArrayParam inputCols() {
    return new StringArrayParam(this, "inputCols", "the columns that are fed; by default all");
  }

  /** Default: 0. */
  public IntParam numPs() {
    return new IntParam(uid(), "numPs", "parameter servers among the nodes");
  }

  /** Default: "". */
  public Param<String> masterNode() {
    return new Param<>(uid(), "masterNode", "\"chief\", \"master\", or \"\": workers only");
  }

  /** At least 1. Default: 1. */
  public IntParam numEpochs() {
    return new IntParam(uid(), "numEpochs", "how often every row is fed");
  }

  /** It has no default. */
  public Param<String> modelFolder() {
    return new Param<>(
        uid(),
        "modelFolder",
        "where the folders of fits are made, which nodes write to and Spark reads: on a file system that all share");
  }

  /** Values of JSON: text, numbers, Booleans, null, Lists and Maps of them. Default: empty. */
  public Param<Map<String, Object>> args() {
    return new JsonParam<>(uid(), "args", "of the program's own");
  }

  /** See {@link #inputCols}. */
  public MillraceEstimator setInputCols(String... value) {
    return Checks.set(this, inputCols(), value);
  }

  /** See {@link #numPs}. */
  public MillraceEstimator setNumPs(int value) {
    return Checks.set(this, numPs(), value);
  }

  /** See {@link #masterNode}. */
  public MillraceEstimator setMasterNode(String value) {
    return Checks.set(this, masterNode(), value);
  }

  /** See {@link #numEpochs}. */
  public MillraceEstimator setNumEpochs(int value) {
    return Checks.set(this, numEpochs(), value);
  }

  /** See {@link #modelFolder}. */
  public MillraceEstimator setModelFolder(String value) {
    return Checks.set(this, modelFolder(), value);
  }

  /** See {@link #args}. */
  public MillraceEstimator setArgs(Map<String, Object> value) {
    return Checks.set(this, args(), value);
  }

  // --------------------------------------------------------------------------------------------- fit

  @Override
  public MillraceModel fit(Dataset<?> dataset) {
    Dataset<Row> table = dataset.toDF();
    List<String> columns = Checks.columns(this, inputCols(), table.schema());
    TrainOptions training =
        TrainOptions.builder()
            .numEpochs(Checks.number(this, numEpochs(), 1))
            .feedTimeout(Checks.feedTimeout(this))
            .endOfFeed(true)
            .build();
    ClusterOptions options =
        Checks.cluster(this)
            .numPs(Checks.number(this, numPs(), 0))
            .masterNode(getOrDefault(masterNode()))
            .build();
    NodeProgram program = Checks.program(this);
    Map<String, Object> told = new LinkedHashMap<>();
    String folder = folder();
    told.put("model_folder", folder);
    told.put("batch_size", Checks.number(this, batchSize(), 1));
    told.put("num_epochs", training.numEpochs());
    told.put("args", getOrDefault(args()));
    program = program.env("MILLRACE_FIT", args().jsonEncode(told));
    SparkSession spark = table.sparkSession();
    ModelFiles.makeFolder(spark, folder);
    ModelNodes.endOthers();
    try (MillraceCluster cluster = MillraceCluster.run(spark, program, options)) {
      cluster.train(table.select(Inputs.of(table, columns).toArray(new Column[0])), training);
      cluster.shutdown(ShutdownOptions.defaults());
    } catch (RuntimeException e) {
      ModelFiles.removeIfEmpty(spark, folder);
      throw e;
    }
    return copyValues(new MillraceModel(), ParamMap.empty())
        .setModelFile(ModelFiles.only(spark, folder))
        .setParent(this);
  }

  private String folder() {
    if (!isDefined(modelFolder())) {
      throw Checks.bad("modelFolder is not set: name a folder that nodes and Spark share");
    }
    return getOrDefault(modelFolder()).replaceAll("/+$", "") + "/" + uid + "-" + Text.randomHex(6);
  }

  @Override
  public StructType transformSchema(StructType schema) {
    Checks.columns(this, inputCols(), schema);
    return Checks.transformed(this, schema);
  }

  @Override
  public MillraceEstimator copy(ParamMap extra) {
    return defaultCopy(extra);
  }

  /** Of what {@link #write} has written: parameters, and of the program its path. */
  public static MLReader<MillraceEstimator> read() {
    return new DefaultParamsReadable<MillraceEstimator>() {}.read();
  }

  /** As {@link #read} does. */
  public static MillraceEstimator load(String path) {
    return read().load(path);
  }
}
