package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Rows as Java objects: {@code Row}, a pair (columns "_1" and "_2"), or anything that is one value (column
 * "value": a number, String, byte[], an array or list of these). {@link InternalRowEncoder} is faster.
 */
public final class ObjectRowEncoder<T> extends RowEncoder<T> {
  private final BufferPool pool;
  private ValueEncoder[] columns; // null until the schema is known

  /**
   * An encoder for rows of {@code schema}.
   *
   * @param schema null: that of the first row, or made of its values, all of which must not be null then
   */
  public ObjectRowEncoder(StructType schema, BufferPool pool) {
    this.pool = pool;
    if (schema != null) {
      begin(schema);
    }
  }

  private void begin(StructType schema) {
    BatchBuilder builder = new BatchBuilder(SparkTypes.schema(schema), pool);
    StructField[] fields = schema.fields();
    columns = new ValueEncoder[fields.length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = new ValueEncoder(fields[i].dataType(), builder.column(i), fields[i].name());
    }
    setBuilder(builder);
  }

  @Override
  protected void put(T row) {
    if (row == null) {
      throw new MillraceException(StatusCode.INVALID_ARGUMENT, "a row is null; filter such rows out");
    }
    if (columns == null) {
      begin(ObjectTypes.schemaOf(row));
    }
    if (row instanceof Row) {
      addRow((Row) row);
    } else if (row instanceof Tuple2) {
      requireColumns(2, row);
      columns[0].put(((Tuple2<?, ?>) row)._1());
      columns[1].put(((Tuple2<?, ?>) row)._2());
    } else {
      requireColumns(1, row);
      columns[0].put(row);
    }
    builder().endRow();
  }

  private void addRow(Row row) {
    requireColumns(row.length(), row);
    for (int i = 0; i < columns.length; i++) {
      columns[i].put(row.get(i));
    }
  }

  private void requireColumns(int count, Object row) {
    if (count != columns.length) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT,
          "a row (" + row.getClass().getName() + ") has " + count + " columns where those before have "
              + columns.length);
    }
  }
}
