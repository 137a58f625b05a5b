package io.millrace.spark.ml;

import static org.apache.spark.sql.functions.struct;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InferenceOptions;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.internal.base.Json;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.util.DefaultParamsReadable;
import org.apache.spark.ml.util.DefaultParamsWritable;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * A model that adds columns to tables, computed by a cluster of node programs: one result for each row, beside it.
 *
 * <pre>{@code
 * try (MillraceModel model = new MillraceModel()
 *         .setProgram(NodeProgram.file("my_node")).setModelFile("/shared/models/digits.bin")
 *         .setNumExecutors(4).setOutputs("digit int, scores array<float>")) {
 *   model.transform(df).write().parquet("scored");     // df and its columns digit and scores
 * }
 * }</pre>
 *
 * <p>The program is told what to do in {@code $MILLRACE_MODEL}, as JSON: {@code {"model_file": "/shared/models/...",
 * "batch_size": 1024}}. It reads its queue in inference mode, without training before, and answers with the columns of
 * {@code outputs}, by name (docs/spark.md). It is fed the columns of {@code inputMapping}, each under its input's name.
 * Spark ML's vectors become arrays of doubles. A null is the program's business.
 *
 * <p>Nothing runs before an action asks for rows of a table that {@link #transform} has made. Then {@code numExecutors}
 * nodes start, each in one task slot until all run, and serve all tables of this model and its copies. They end with
 * {@link #close}, with the application, or when the model and the tables are garbage, which a collection of garbage
 * finds out: before another model's nodes start and before a fit there is one.
 *
 * <p>The file of the model is not the model's own: it must be there, and readable where the nodes run, for as long as
 * they may start. {@link #write} copies it.
 *
 * <p>Errors: a mistake in a parameter is a {@link MillraceException} with INVALID_ARGUMENT from {@code transform} that
 * names it. An action fails with Spark's exception, whose cause is one of {@link MillraceCluster#run} or {@link
 * MillraceCluster#inference(Dataset, StructType, InferenceOptions)}; the next table that is made has other nodes.
 *
 * <p>Not thread-safe while parameters are set; otherwise thread-safe.
 */
public final class MillraceModel extends Model<MillraceModel>
    implements MillraceParams<MillraceModel>, DefaultParamsWritable, AutoCloseable {
  private static final long serialVersionUID = 1L;

  private final String uid;
  private transient ModelNodes nodes = new ModelNodes();

  public MillraceModel() {
    this(Identifiable.randomUID("MillraceModel"));
  }

  /** With that identity: for copies and readers. */
  public MillraceModel(String uid) {
    this.uid = uid;
    Checks.setDefaults(this);
  }

  @Override
  public String uid() {
    return uid;
  }

  /** Where the model's file is, as the nodes open it and Spark reads it. It has no default. */
  public Param<String> modelFile() {
    return new Param<>(uid(), "modelFile", "the file of the model, which nodes and Spark can read");
  }

  /** See {@link #modelFile}. */
  public MillraceModel setModelFile(String value) {
    return Checks.set(this, modelFile(), value);
  }

  private String file() {
    if (!isDefined(modelFile())) {
      throw Checks.bad("modelFile is not set: name a file that nodes and Spark can read, or fit a MillraceEstimator");
    }
    return getOrDefault(modelFile());
  }

  @Override
  public Dataset<Row> transform(Dataset<?> dataset) {
    StructType outputs = Checks.outputs(this);
    transformSchema(dataset.schema());
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("model_file", file());
    int batchSize = Checks.number(this, batchSize(), 1);
    told.put("batch_size", batchSize);
    NodeProgram program = Checks.program(this).env("MILLRACE_MODEL", Json.write(told));
    ClusterOptions options = Checks.cluster(this).build();
    InferenceOptions feeding = InferenceOptions.builder().feedTimeout(Checks.feedTimeout(this)).build();
    SparkSession spark = dataset.sparkSession();
    String what =
        Json.write(
            Arrays.asList(
                program().jsonEncode(program),
                options.numExecutors(),
                getOrDefault(gpusPerNode()),
                getOrDefault(maxRestarts())));
    ModelNodes held = nodes; // by the table, too
    return MillraceCluster.inferenceBeside(
        () -> held.cluster(what, () -> MillraceCluster.run(spark, program, options)),
        pairs(dataset.toDF()),
        outputs,
        batchSize,
        feeding);
  }

  /** What is fed, and what stays. */
  private Dataset<Row> pairs(Dataset<Row> table) {
    StructType schema = table.schema();
    List<Column> kept = new ArrayList<>();
    for (String name : Checks.columns(this, keepCols(), schema)) {
      kept.add(Inputs.column(table, name));
    }
    return table.select(
        struct(Inputs.of(table, getOrDefault(inputMapping())).toArray(new Column[0])).as("fed"),
        struct(kept.toArray(new Column[0])).as("kept"));
  }

  /** Ends the nodes that score; tables whose rows are asked for again fail then, and others start nodes again. */
  @Override
  public void close() {
    nodes.close();
  }

  @Override
  public StructType transformSchema(StructType schema) {
    return Checks.transformed(this, schema);
  }

  /** Nodes serve both. */
  @Override
  public MillraceModel copy(ParamMap extra) {
    MillraceModel copy = defaultCopy(extra);
    copy.nodes = nodes;
    return copy.setParent(parent());
  }

  private Object readResolve() {
    nodes = new ModelNodes();
    return this;
  }

  /** With the model's file, so that the folder that is written is all of it but the program. */
  @Override
  public MLWriter write() {
    return new Writer(this, DefaultParamsWritable.super.write());
  }

  private static final class Writer extends MLWriter {
    private final MillraceModel model;
    private final MLWriter ofParams;

    Writer(MillraceModel model, MLWriter ofParams) {
      this.model = model;
      this.ofParams = ofParams;
    }

    @Override
    public void saveImpl(String path) {
      String file = model.file();
      try {
        ofParams.session(sparkSession()).save(path);
      } catch (IOException e) {
        throw ModelFiles.unavailable(path, e);
      }
      ModelFiles.copy(sparkSession(), file, path + "/data");
    }
  }

  /** Of what {@link #write} has written, where it lies. */
  public static MLReader<MillraceModel> read() {
    return new Reader();
  }

  private static final class Reader extends MLReader<MillraceModel> {
    @Override
    public MillraceModel load(String path) {
      MillraceModel model =
          new DefaultParamsReadable<MillraceModel>() {}.read().session(sparkSession()).load(path);
      return model.setModelFile(ModelFiles.only(sparkSession(), path + "/data"));
    }
  }

  /** As {@link #read} does. */
  public static MillraceModel load(String path) {
    return read().load(path);
  }
}
