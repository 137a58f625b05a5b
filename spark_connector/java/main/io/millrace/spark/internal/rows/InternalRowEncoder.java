package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Rows of {@code Dataset.queryExecution().toRdd()}, which one mutable row goes through. */
public final class InternalRowEncoder extends RowEncoder<InternalRow> {
  private final FieldEncoder[] fields;

  /**
   * An encoder for rows of {@code schema}.
   *
   * @throws io.millrace.spark.MillraceException INVALID_ARGUMENT if a feed cannot carry a column
   */
  public InternalRowEncoder(StructType schema, BufferPool pool) {
    ArrowSchema arrow = SparkTypes.schema(schema);
    BatchBuilder builder = new BatchBuilder(arrow, pool);
    setBuilder(builder);
    StructField[] types = schema.fields();
    ColumnBuilder[] columns = new ColumnBuilder[types.length];
    fields = new FieldEncoder[types.length];
    for (int i = 0; i < fields.length; i++) {
      columns[i] = builder.column(i);
      fields[i] = FieldEncoder.create(types[i].dataType(), columns[i], types[i].name());
    }
    setBlock(RowBlock.create(columns, schema.fieldNames()));
  }

  @Override
  protected void put(InternalRow row) {
    for (int i = 0; i < fields.length; i++) {
      fields[i].put(row, i);
    }
    builder().endRow();
  }
}
