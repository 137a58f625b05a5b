package io.millrace.spark.internal.rows;

import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Some rows of a batch of columns. Valid until its iterator is asked for the next one; never serialised. */
public final class ColumnSlice {
  final ColumnarBatch batch;
  final int from;
  final int rows;

  ColumnSlice(ColumnarBatch batch, int from, int rows) {
    this.batch = batch;
    this.from = from;
    this.rows = rows;
  }
}
