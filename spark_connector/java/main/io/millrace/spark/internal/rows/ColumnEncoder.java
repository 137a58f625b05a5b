package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/** Columns of numbers, copied as they lie where Spark has them so, and of strings. */
public final class ColumnEncoder extends RowEncoder<ColumnSlice> {
  private final ColumnBuilder[] columns;
  private final String[] names;

  /**
   * An encoder for columns of {@code schema}.
   *
   * @throws io.millrace.spark.MillraceException INVALID_ARGUMENT if a feed cannot carry a column
   */
  public ColumnEncoder(StructType schema, BufferPool pool) {
    BatchBuilder builder = new BatchBuilder(SparkTypes.schema(schema), pool);
    setBuilder(builder);
    columns = new ColumnBuilder[schema.fields().length];
    names = schema.fieldNames();
    for (int i = 0; i < columns.length; i++) {
      columns[i] = builder.column(i);
    }
  }

  /** Whether each column is of numbers, times, bools or strings: what has others goes the way of rows. */
  static boolean supports(StructType schema) {
    for (StructField field : schema.fields()) {
      switch (field.dataType().typeName()) {
        case "boolean":
        case "byte":
        case "short":
        case "integer":
        case "long":
        case "float":
        case "double":
        case "date":
        case "timestamp":
        case "timestamp_ntz":
        case "string":
          break;
        default:
          return false;
      }
    }
    return schema.fields().length > 0;
  }

  @Override
  protected void put(ColumnSlice slice) {
    for (int i = 0; i < columns.length; i++) {
      add(slice.batch.column(i), slice.from, slice.rows, columns[i], names[i]);
    }
    builder().endRows(slice.rows);
  }

  @Override
  protected int rowsOf(ColumnSlice slice) {
    return slice.rows;
  }

  @Override
  protected ColumnSlice restOf(ColumnSlice slice, int first) {
    return new ColumnSlice(slice.batch, slice.from + first, slice.rows - first);
  }

  private static void add(ColumnVector from, int first, int count, ColumnBuilder to, String name) {
    boolean writable = from instanceof WritableColumnVector;
    if (writable && ((WritableColumnVector) from).isAllNull()) {
      for (int i = 0; i < count; i++) {
        to.putNull();
      }
      return;
    }
    if (to.type().id() == ArrowType.Id.UTF8) {
      addTexts(from, first, count, to, name);
      return;
    }
    // A vector of Spark's has something in the place of a null; what others do there is not known. One with a
    // dictionary looks into that for single values only.
    boolean whole = writable ? !((WritableColumnVector) from).hasDictionary() : !from.hasNull();
    if (!whole || to.type().id() == ArrowType.Id.BOOL) {
      for (int i = first; i < first + count; i++) {
        if (from.isNullAt(i)) {
          to.putNull();
        } else {
          addOne(from, i, to);
        }
      }
      return;
    }
    int row = to.rows();
    addWhole(from, first, count, to);
    if (from.hasNull()) {
      for (int i = 0; i < count; i++) {
        if (from.isNullAt(first + i)) {
          to.markNull(row + i);
        }
      }
    }
  }

  private static void addTexts(ColumnVector from, int first, int count, ColumnBuilder to, String name) {
    for (int i = first; i < first + count; i++) {
      if (from.isNullAt(i)) {
        to.putNull();
      } else {
        FieldEncoder.putText(from.getUTF8String(i), to, name);
      }
    }
  }

  private static void addOne(ColumnVector from, int i, ColumnBuilder to) {
    switch (to.type().id()) {
      case BOOL:
        to.putBoolean(from.getBoolean(i));
        break;
      case INT8:
        to.putByte(from.getByte(i));
        break;
      case INT16:
        to.putShort(from.getShort(i));
        break;
      case INT32:
      case DATE32:
        to.putInt(from.getInt(i));
        break;
      case FLOAT32:
        to.putFloat(from.getFloat(i));
        break;
      case FLOAT64:
        to.putDouble(from.getDouble(i));
        break;
      default:
        to.putLong(from.getLong(i));
    }
  }

  private static void addWhole(ColumnVector from, int first, int count, ColumnBuilder to) {
    Object values;
    int offset;
    int width;
    switch (to.type().id()) {
      case INT8:
        values = from.getBytes(first, count);
        offset = Platform.BYTE_ARRAY_OFFSET;
        width = 1;
        break;
      case INT16:
        values = from.getShorts(first, count);
        offset = Platform.SHORT_ARRAY_OFFSET;
        width = 2;
        break;
      case INT32:
      case DATE32:
        values = from.getInts(first, count);
        offset = Platform.INT_ARRAY_OFFSET;
        width = 4;
        break;
      case FLOAT32:
        values = from.getFloats(first, count);
        offset = Platform.FLOAT_ARRAY_OFFSET;
        width = 4;
        break;
      case FLOAT64:
        values = from.getDoubles(first, count);
        offset = Platform.DOUBLE_ARRAY_OFFSET;
        width = 8;
        break;
      default:
        values = from.getLongs(first, count);
        offset = Platform.LONG_ARRAY_OFFSET;
        width = 8;
    }
    Platform.copyMemory(values, offset, null, to.putRowsByAddress(count), (long) count * width);
  }
}
