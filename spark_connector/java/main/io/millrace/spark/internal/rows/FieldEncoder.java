package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Copies one column, field or element out of Spark's own form of rows, without boxing. */
abstract class FieldEncoder {
  final ColumnBuilder column;

  FieldEncoder(ColumnBuilder column) {
    this.column = column;
  }

  /** Adds value {@code i} of a row or array. */
  final void put(SpecializedGetters row, int i) {
    if (row.isNullAt(i)) {
      column.putNull();
    } else {
      putValue(row, i);
    }
  }

  abstract void putValue(SpecializedGetters row, int i);

  static void putText(UTF8String text, ColumnBuilder to, String place) {
    putText(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), to, place);
  }

  static void putText(Object base, long offset, int size, ColumnBuilder to, String place) {
    long target = to.beginBytes(size);
    if (!Utf8.isAscii(Utf8.copy(base, offset, size, target)) && !Utf8.isValid(target, size)) {
      throw notUtf8(place);
    }
    to.endBytes();
  }

  /** A cast from binary makes strings of any bytes, and a node would bar a feeder that sends such. */
  static MillraceException notUtf8(String place) {
    return new MillraceException(
        StatusCode.INVALID_ARGUMENT,
        "column \"" + place + "\": a string is not valid UTF-8; cast the column to binary");
  }

  /** {@code place} names the column in messages. */
  static FieldEncoder create(DataType type, ColumnBuilder column, String place) {
    DataType stored = SparkTypes.stored(type);
    switch (column.type().id()) {
      case BOOL:
        return new BooleanEncoder(column);
      case INT8:
        return new ByteEncoder(column);
      case INT16:
        return new ShortEncoder(column);
      case INT32:
      case DATE32:
        return new IntEncoder(column);
      case INT64:
      case TIMESTAMP:
        return new LongEncoder(column);
      case FLOAT32:
        return new FloatEncoder(column);
      case FLOAT64:
        return new DoubleEncoder(column);
      case UTF8:
        return new TextEncoder(column, place);
      case BINARY:
        return new BinaryEncoder(column);
      case LIST:
        DataType element = ((ArrayType) stored).elementType();
        return new ArrayEncoder(column, create(element, column.child(), place + "[]"));
      default:
        return new StructEncoder(column, (StructType) stored, place);
    }
  }

  private static final class BooleanEncoder extends FieldEncoder {
    BooleanEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putBoolean(row.getBoolean(i));
    }
  }

  private static final class ByteEncoder extends FieldEncoder {
    ByteEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putByte(row.getByte(i));
    }
  }

  private static final class ShortEncoder extends FieldEncoder {
    ShortEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putShort(row.getShort(i));
    }
  }

  private static final class IntEncoder extends FieldEncoder {
    IntEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putInt(row.getInt(i));
    }
  }

  private static final class LongEncoder extends FieldEncoder {
    LongEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putLong(row.getLong(i));
    }
  }

  private static final class FloatEncoder extends FieldEncoder {
    FloatEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putFloat(row.getFloat(i));
    }
  }

  private static final class DoubleEncoder extends FieldEncoder {
    DoubleEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      column.putDouble(row.getDouble(i));
    }
  }

  private static final class TextEncoder extends FieldEncoder {
    private final String place;

    TextEncoder(ColumnBuilder column, String place) {
      super(column);
      this.place = place;
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      if (row instanceof UnsafeRow) {
        UnsafeRow unsafe = (UnsafeRow) row;
        long bytes = unsafe.getLong(i);
        putText(unsafe.getBaseObject(), unsafe.getBaseOffset() + (bytes >>> 32), (int) bytes, column, place);
      } else {
        putText(row.getUTF8String(i), column, place);
      }
    }
  }

  private static final class BinaryEncoder extends FieldEncoder {
    BinaryEncoder(ColumnBuilder column) {
      super(column);
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      if (row instanceof UnsafeRow) {
        // The place and the size of the bytes in the row's own memory: getBinary would make an array of them.
        UnsafeRow unsafe = (UnsafeRow) row;
        long bytes = unsafe.getLong(i);
        int size = (int) bytes;
        long source = unsafe.getBaseOffset() + (bytes >>> 32);
        Platform.copyMemory(unsafe.getBaseObject(), source, null, column.putBytesByAddress(size), size);
        return;
      }
      byte[] bytes = row.getBinary(i);
      long address = column.putBytesByAddress(bytes.length);
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, address, bytes.length);
    }
  }

  private static final class StructEncoder extends FieldEncoder {
    private final FieldEncoder[] fields;

    StructEncoder(ColumnBuilder column, StructType type, String place) {
      super(column);
      StructField[] types = type.fields();
      fields = new FieldEncoder[types.length];
      for (int i = 0; i < fields.length; i++) {
        fields[i] = create(types[i].dataType(), column.child(i), place + "." + types[i].name());
      }
    }

    @Override
    void putValue(SpecializedGetters row, int i) {
      InternalRow struct = row.getStruct(i, fields.length);
      for (int field = 0; field < fields.length; field++) {
        fields[field].put(struct, field);
      }
      column.endStruct();
    }
  }
}
