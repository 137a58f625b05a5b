package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Rows of {@code Dataset.queryExecution().toRdd()}, which one mutable row goes through. */
public final class InternalRowEncoder extends RowEncoder<InternalRow> {
  private final FieldEncoder[] fields;
  private final int[] places; // of the fields in a row

  /**
   * An encoder for rows of {@code schema}.
   *
   * @throws io.millrace.spark.MillraceException INVALID_ARGUMENT if a feed cannot carry a column
   */
  public InternalRowEncoder(StructType schema, BufferPool pool) {
    this(schema, IntStream.range(0, schema.size()).toArray(), pool);
    ColumnBuilder[] columns = new ColumnBuilder[fields.length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = builder().column(i);
    }
    setBlock(RowBlock.create(columns, schema.fieldNames()));
  }

  /** As above, for some columns of wider rows: {@code places} says where in a row each one is. */
  public InternalRowEncoder(StructType schema, int[] places, BufferPool pool) {
    this.places = places;
    ArrowSchema arrow = SparkTypes.schema(schema);
    BatchBuilder builder = new BatchBuilder(arrow, pool);
    setBuilder(builder);
    StructField[] types = schema.fields();
    fields = new FieldEncoder[types.length];
    for (int i = 0; i < fields.length; i++) {
      fields[i] = FieldEncoder.create(types[i].dataType(), builder.column(i), types[i].name());
    }
  }

  @Override
  protected void put(InternalRow row) {
    for (int i = 0; i < fields.length; i++) {
      fields[i].put(row, places[i]);
    }
    builder().endRow();
  }
}
