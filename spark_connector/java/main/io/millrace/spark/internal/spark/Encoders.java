package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.rows.ColumnEncoder;
import io.millrace.spark.internal.rows.ColumnSlice;
import io.millrace.spark.internal.rows.InternalRowEncoder;
import io.millrace.spark.internal.rows.ObjectRowEncoder;
import io.millrace.spark.internal.rows.Pickles;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** The encoders of what Spark has rows in. */
public final class Encoders {
  private Encoders() {}

  /** Of {@code Dataset.queryExecution().toRdd()}. */
  public static EncoderFactory<InternalRow> ofInternalRows(StructType schema) {
    return pool -> new InternalRowEncoder(schema, pool);
  }

  /** Of {@code ColumnSlices.of}. */
  public static EncoderFactory<ColumnSlice> ofColumns(StructType schema) {
    return pool -> new ColumnEncoder(schema, pool);
  }

  /** Of an RDD's elements; the columns are those of the first. */
  public static <T> EncoderFactory<T> ofObjects() {
    return pool -> new ObjectRowEncoder<>(null, pool);
  }

  /** Of Python objects, each pickled by itself. */
  public static EncoderFactory<byte[]> ofPickles() {
    return pool -> new ObjectRowEncoder<>(Pickles.SCHEMA, pool);
  }
}
