package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.ColumnView;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of results as Spark reads columns, where it lies. {@link ResultSchema} has seen to it that the
 * types agree. Valid as long as the column.
 */
final class ResultVector extends ColumnVector {
  private static final long MILLIS_PER_DAY = 86_400_000L;

  private final ColumnView column;
  private final ResultVector[] children;

  ResultVector(DataType type, ColumnView column) {
    super(type);
    this.column = column;
    if (type instanceof ArrayType) {
      children = new ResultVector[] {new ResultVector(((ArrayType) type).elementType(), column.child())};
    } else if (type instanceof StructType) {
      StructField[] fields = ((StructType) type).fields();
      children = new ResultVector[fields.length];
      for (int i = 0; i < children.length; i++) {
        children[i] = new ResultVector(fields[i].dataType(), column.child(i));
      }
    } else {
      children = new ResultVector[0];
    }
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return column.hasNulls();
  }

  @Override
  public int numNulls() {
    int nulls = 0;
    for (int row = 0; column.hasNulls() && row < column.rows(); row++) {
      nulls += column.isNull(row) ? 1 : 0;
    }
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return column.isNull(row);
  }

  @Override
  public boolean getBoolean(int row) {
    return column.getBoolean(row);
  }

  @Override
  public byte getByte(int row) {
    return column.getByte(row);
  }

  @Override
  public short getShort(int row) {
    return (short) column.getInteger(row);
  }

  @Override
  public int getInt(int row) {
    if (column.type().id() == ArrowType.Id.DATE64) {
      return (int) Math.floorDiv(column.getLong(row), MILLIS_PER_DAY);
    }
    return (int) column.getInteger(row);
  }

  @Override
  public long getLong(int row) {
    long value = column.getInteger(row);
    if (column.type().id() != ArrowType.Id.TIMESTAMP) {
      return value;
    }
    switch (column.type().unit()) {
      case SECOND:
        return Math.multiplyExact(value, 1_000_000L);
      case MILLISECOND:
        return Math.multiplyExact(value, 1000L);
      case NANOSECOND:
        return Math.floorDiv(value, 1000L);
      default:
        return value;
    }
  }

  @Override
  public float getFloat(int row) {
    return column.type().id() == ArrowType.Id.FLOAT16 ? half(column.getShort(row)) : column.getFloat(row);
  }

  private static float half(short bits) {
    int sign = (bits & 0x8000) << 16;
    int exponent = bits >> 10 & 0x1f;
    int fraction = bits & 0x3ff;
    if (exponent == 0) {
      float tiny = fraction / (float) (1 << 24);
      return sign == 0 ? tiny : -tiny;
    }
    int wide = exponent == 31 ? 255 : exponent + 112;
    return Float.intBitsToFloat(sign | wide << 23 | fraction << 13);
  }

  @Override
  public double getDouble(int row) {
    return column.type().id() == ArrowType.Id.FLOAT64 ? column.getDouble(row) : getFloat(row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    int start = column.listStart(row);
    return new ColumnarArray(children[0], start, column.listEnd(row) - start);
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("a map in results");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw new UnsupportedOperationException("a decimal in results");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (column.isNull(row)) {
      return null;
    }
    ByteBuffer bytes = column.bytes(row);
    if (bytes.hasArray()) {
      return UTF8String.fromBytes(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
    }
    return UTF8String.fromBytes(column.getBytes(row));
  }

  @Override
  public byte[] getBinary(int row) {
    return column.isNull(row) ? null : column.getBytes(row);
  }

  @Override
  public ColumnVector getChild(int i) {
    return children[i];
  }
}
