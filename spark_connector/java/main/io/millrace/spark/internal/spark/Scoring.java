package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.rows.DataFrames;
import io.millrace.spark.internal.rows.SparkTypes;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Columns that a function of Python adds to a table, for millrace.ml. Only what the function reads goes to Spark's
 * Python workers, in batches of Arrow, and only what it answers comes back; the rows themselves wait in the JVM.
 *
 * <pre>{@code
 * batches = scoring.batches()                          # RDD of bytes
 * answers = batches.mapPartitions(function)            # in PySpark: bytes for bytes, one for one
 * scored = scoring.rows(answers)
 * }</pre>
 *
 * Batches are messages of Arrow with their bodies, whose schemas are {@link #inputSchema} and {@link #outputSchema}.
 * Immutable.
 */
public final class Scoring {
  private final Dataset<Row> table;
  private final StructType kept;
  private final StructType inputs;
  private final int[] places; // of the inputs in the table
  private final StructType outputs;
  private final int batchRows;

  private Scoring(Dataset<Row> table, int kept, String[] inputs, StructType outputs, int batchRows) {
    this.table = table;
    this.outputs = outputs;
    this.batchRows = batchRows;
    StructType schema = table.schema();
    StructType first = new StructType();
    for (int i = 0; i < kept; i++) {
      first = first.add(schema.fields()[i]);
    }
    this.kept = first;
    places = new int[inputs.length];
    StructType read = new StructType();
    for (int i = 0; i < inputs.length; i++) {
      places[i] = schema.fieldIndex(inputs[i]);
      read = read.add(schema.fields()[places[i]]);
    }
    this.inputs = read;
  }

  /**
   * For a table whose first {@code kept} columns stay, and which has the function's {@code inputs} among all of them.
   *
   * @param batchRows rows of a batch at most; rows that are large come in smaller ones
   * @return null if this cannot be done: of a stream, with types that Arrow's messages do not carry here, and with a
   *     Spark that is not known
   */
  public static Scoring of(Dataset<Row> table, int kept, String[] inputs, StructType outputs, int batchRows) {
    if (table.isStreaming() || !KeptRows.areSupported() || !DataFrames.takesInternalRows(table.sparkSession())) {
      return null;
    }
    Scoring made = new Scoring(table, kept, inputs, outputs, batchRows);
    try {
      made.inputSchema();
      made.outputSchema();
    } catch (MillraceException e) {
      return null;
    }
    return made;
  }

  /** A message of Arrow. */
  public byte[] inputSchema() {
    return SchemaMessage.encode(SparkTypes.schema(inputs));
  }

  /** A message of Arrow. */
  public byte[] outputSchema() {
    return SchemaMessage.encode(SparkTypes.schema(outputs));
  }

  /** The inputs of all rows, lazily. */
  public JavaRDD<byte[]> batches() {
    ScoringInputs function = new ScoringInputs(kept, inputs, places, table.schema().size(), batchRows);
    SparkContext spark = table.sparkSession().sparkContext();
    return new DeferredRdd<byte[]>(
            spark, byte[].class, () -> table.queryExecution().toRdd().toJavaRDD().mapPartitions(function).rdd())
        .toJavaRDD();
  }

  /** The rows with the answers, lazily; {@code answers} has one for each of {@link #batches}, in their order. */
  public Dataset<Row> rows(JavaRDD<byte[]> answers) {
    StructType schema = kept;
    for (StructField field : outputs.fields()) {
      schema = schema.add(field);
    }
    SparkSession session = table.sparkSession();
    return DataFrames.create(
        session,
        () -> answers.<InternalRow>mapPartitions(new ScoringAnswers(outputs)),
        () -> {
          throw new IllegalStateException("this Spark takes no rows of its own form");
        },
        schema);
  }
}
