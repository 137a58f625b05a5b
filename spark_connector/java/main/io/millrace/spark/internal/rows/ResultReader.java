package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ColumnView;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Makes Spark's rows of the results of a node, against the schema that the caller of inference gave. Types
 * may be narrower than the schema's (int32 for a bigint), uint8 to uint32 need the next wider one; a null
 * where the schema has none is an error. Errors are MillraceExceptions with INVALID_ARGUMENT that name the
 * column. Not thread-safe.
 */
public final class ResultReader {
  private final StructType schema;
  private ArrowSchema checked;
  private int[] places;

  public ResultReader(StructType schema) {
    this.schema = schema;
  }

  public StructType schema() {
    return schema;
  }

  /**
   * The results row by row, without a copy: one row object, valid until the next, as Spark's own operators
   * make them.
   */
  public Iterator<InternalRow> internalRows(ArrowSchema found, List<ColumnView> columns, int rows) {
    return batch(found, columns, rows).rowIterator();
  }

  /** The results as rows of their own, slower. */
  public Iterator<Row> rows(ArrowSchema found, List<ColumnView> columns, int rows) {
    Iterator<InternalRow> internal = internalRows(found, columns, rows);
    RowConverter converter = new RowConverter(schema);
    return new Iterator<Row>() {
      @Override
      public boolean hasNext() {
        return internal.hasNext();
      }

      @Override
      public Row next() {
        return converter.convert(internal.next());
      }
    };
  }

  private ColumnarBatch batch(ArrowSchema found, List<ColumnView> columns, int rows) {
    if (checked != found) {
      places = ResultSchema.match(schema, found);
      checked = found;
    }
    StructField[] fields = schema.fields();
    ColumnVector[] vectors = new ColumnVector[fields.length];
    for (int i = 0; i < vectors.length; i++) {
      ColumnView column = columns.get(places[i]);
      checkNulls(fields[i].dataType(), fields[i].nullable(), column, fields[i].name());
      vectors[i] = new ResultVector(fields[i].dataType(), column);
    }
    return new ColumnarBatch(vectors, rows);
  }

  // Of nested values only columns with nulls are looked at closely, and a null struct's fields are left out.
  private static void checkNulls(DataType type, boolean nullable, ColumnView column, String place) {
    if (!nullable && column.hasNulls()) {
      for (int row = 0; row < column.rows(); row++) {
        if (column.isNull(row)) {
          throw new MillraceException(
              StatusCode.INVALID_ARGUMENT,
              "the results have a null in \"" + place + "\", which the result schema says is never null");
        }
      }
    }
    if (type instanceof ArrayType && !column.hasNulls()) {
      ArrayType array = (ArrayType) type;
      checkNulls(array.elementType(), array.containsNull(), column.child(), place + "[]");
    } else if (type instanceof StructType && !column.hasNulls()) {
      StructField[] fields = ((StructType) type).fields();
      for (int i = 0; i < fields.length; i++) {
        checkNulls(fields[i].dataType(), fields[i].nullable(), column.child(i), place + "." + fields[i].name());
      }
    }
  }
}
