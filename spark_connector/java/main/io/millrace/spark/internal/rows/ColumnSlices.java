package io.millrace.spark.internal.rows;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The columns of a DataFrame that Spark has as columns: a cached one, files of Parquet or ORC. */
public final class ColumnSlices implements FlatMapFunction<Iterator<ColumnarBatch>, ColumnSlice> {
  private static final long serialVersionUID = 1L;

  private final int rowsPerSlice;

  private ColumnSlices(int rowsPerSlice) {
    this.rowsPerSlice = rowsPerSlice;
  }

  /**
   * The rows of {@code data}, in the order and the partitions of {@code toRdd()}, without making rows of them
   * first; null if Spark has rows, or columns other than of numbers.
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
        .mapPartitions(new ColumnSlices((int) Math.max(1, RowEncoder.BATCH_BYTES / Math.max(1, width))));
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
        ColumnSlice slice = new ColumnSlice(batch, at, rows);
        at += rows;
        return slice;
      }
    };
  }
}
