package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ColumnView;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Python objects as rows: each is pickled by itself, and no JVM looks into it. */
public final class Pickles {
  /** Their one column, by which a node in Python knows them (millrace/_pickles.py). */
  private static final String COLUMN = "python_object";

  public static final StructType SCHEMA =
      DataTypes.createStructType(
          new StructField[] {DataTypes.createStructField(COLUMN, DataTypes.BinaryType, false)});

  private Pickles() {}

  /** The objects among the results of a node. */
  public static Iterator<byte[]> of(ResultReader reader, ArrowSchema found, List<ColumnView> columns, int rows) {
    Iterator<InternalRow> internal = reader.internalRows(found, columns, rows);
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return internal.hasNext();
      }

      @Override
      public byte[] next() {
        return internal.next().getBinary(0);
      }
    };
  }
}
