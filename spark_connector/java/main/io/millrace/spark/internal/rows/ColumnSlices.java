package io.millrace.spark.internal.rows;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The columns of a DataFrame that Spark has as columns: a cached one, files of Parquet or ORC. */
public final class ColumnSlices implements FlatMapFunction<Iterator<ColumnarBatch>, ColumnSlice> {
  private static final long serialVersionUID = 1L;

  private final int rowsPerSlice;
  private final int[] texts; // columns whose values have a length

  private ColumnSlices(int rowsPerSlice, int[] texts) {
    this.rowsPerSlice = rowsPerSlice;
    this.texts = texts;
  }

  /**
   * The rows of {@code data}, in the order and the partitions of {@code toRdd()}, without making rows of them
   * first; null if Spark has rows, or columns other than of numbers and strings.
   */
  public static JavaRDD<ColumnSlice> of(Dataset<Row> data) {
    StructType schema = data.schema();
    if (!ColumnEncoder.supports(schema)) {
      return null;
    }
    SparkPlan plan = columnar(data.queryExecution().executedPlan());
    if (!plan.supportsColumnar()) {
      return null;
    }
    int width = 0;
    for (StructField field : schema.fields()) {
      width += field.dataType().defaultSize();
    }
    return plan.executeColumnar()
        .toJavaRDD()
        .mapPartitions(
            new ColumnSlices((int) Math.max(1, RowEncoder.BATCH_BYTES / Math.max(1, width)), textsOf(schema)));
  }

  private static int[] textsOf(StructType schema) {
    return IntStream.range(0, schema.size())
        .filter(i -> schema.fields()[i].dataType() instanceof StringType)
        .toArray();
  }

  /** How many rows from {@code first} on are about a batch, at most {@code rows}; at least one. */
  private int measure(ColumnarBatch batch, int first, int rows) {
    long bytes = 0;
    int count = 0;
    while (count < rows && bytes < RowEncoder.BATCH_BYTES) {
      for (int text : texts) {
        ColumnVector column = batch.column(text);
        bytes += column.isNullAt(first + count) ? 0 : column.getUTF8String(first + count).numBytes();
      }
      count++;
    }
    return count;
  }

  /** The plan without what makes rows of its columns, if it ends so: {@code toRdd()} runs the same. */
  private static SparkPlan columnar(SparkPlan executed) {
    SparkPlan plan = executed;
    if (plan instanceof AdaptiveSparkPlanExec) {
      plan = ((AdaptiveSparkPlanExec) plan).finalPhysicalPlan();
    }
    // WholeStageCodegen(ColumnarToRow(InputAdapter(scan))); a cached DataFrame is a scan that can do both.
    if (plan instanceof WholeStageCodegenExec) {
      plan = ((WholeStageCodegenExec) plan).child();
    }
    if (plan instanceof ColumnarToRowExec) {
      plan = ((ColumnarToRowExec) plan).child();
    }
    return plan instanceof InputAdapter ? ((InputAdapter) plan).child() : plan;
  }

  @Override
  public Iterator<ColumnSlice> call(Iterator<ColumnarBatch> batches) {
    return new Iterator<ColumnSlice>() {
      private ColumnarBatch batch;
      private int at;

      @Override
      public boolean hasNext() {
        while ((batch == null || at == batch.numRows()) && batches.hasNext()) {
          batch = batches.next();
          at = 0;
        }
        return batch != null && at < batch.numRows();
      }

      @Override
      public ColumnSlice next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        int rows = Math.min(rowsPerSlice, batch.numRows() - at);
        if (texts.length > 0) {
          rows = measure(batch, at, rows);
        }
        ColumnSlice slice = new ColumnSlice(batch, at, rows);
        at += rows;
        return slice;
      }
    };
  }
}
