package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Tuple2;

/** Copies Java objects into one column, field or element. */
final class ValueEncoder {
  private final ColumnBuilder column;
  private final DataType type;
  private final String place; // the column, in messages
  private final ValueEncoder[] children;

  ValueEncoder(DataType type, ColumnBuilder column, String place) {
    this.type = SparkTypes.stored(type);
    this.column = column;
    this.place = place;
    if (this.type instanceof ArrayType) {
      DataType element = ((ArrayType) this.type).elementType();
      children = new ValueEncoder[] {new ValueEncoder(element, column.child(), place + "[]")};
    } else if (this.type instanceof StructType) {
      StructField[] fields = ((StructType) this.type).fields();
      children = new ValueEncoder[fields.length];
      for (int i = 0; i < children.length; i++) {
        children[i] = new ValueEncoder(fields[i].dataType(), column.child(i), place + "." + fields[i].name());
      }
    } else {
      children = new ValueEncoder[0];
    }
  }

  void put(Object value) {
    if (value == null) {
      column.putNull();
    } else if (!putValue(value)) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT,
          "column \"" + place + "\": a " + value.getClass().getName() + " where the type is "
              + type.simpleString());
    }
  }

  private boolean putValue(Object value) {
    switch (column.type().id()) {
      case BOOL:
        if (value instanceof Boolean) {
          column.putBoolean((Boolean) value);
          return true;
        }
        return false;
      case INT8:
        if (value instanceof Byte) {
          column.putByte((Byte) value);
          return true;
        }
        return false;
      case INT16:
        if (value instanceof Short || value instanceof Byte) {
          column.putShort(((Number) value).shortValue());
          return true;
        }
        return false;
      case INT32:
        if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
          column.putInt(((Number) value).intValue());
          return true;
        }
        return false;
      case INT64:
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
          column.putLong(((Number) value).longValue());
          return true;
        }
        return false;
      case FLOAT32:
        if (value instanceof Float) {
          column.putFloat((Float) value);
          return true;
        }
        return false;
      case FLOAT64:
        if (value instanceof Double || value instanceof Float) {
          column.putDouble(((Number) value).doubleValue());
          return true;
        }
        return false;
      case UTF8:
        if (value instanceof CharSequence) {
          column.putBytes(value.toString().getBytes(StandardCharsets.UTF_8));
          return true;
        }
        return false;
      case BINARY:
        if (value instanceof byte[]) {
          column.putBytes((byte[]) value);
          return true;
        }
        return false;
      case DATE32:
        return putDate(value);
      case TIMESTAMP:
        return putTimestamp(value);
      case LIST:
        return putArray(value) || putElements(ObjectTypes.elementsOf(value));
      default:
        return putStruct(value);
    }
  }

  private boolean putDate(Object value) {
    if (value instanceof LocalDate) {
      column.putInt(Math.toIntExact(((LocalDate) value).toEpochDay()));
    } else if (value instanceof java.sql.Date) {
      column.putInt(DateTimeUtils.fromJavaDate((java.sql.Date) value));
    } else {
      return false;
    }
    return true;
  }

  private boolean putTimestamp(Object value) {
    boolean local = column.type().zone().isEmpty();
    if (!local && value instanceof java.sql.Timestamp) {
      column.putLong(DateTimeUtils.fromJavaTimestamp((java.sql.Timestamp) value));
    } else if (!local && value instanceof Instant) {
      column.putLong(micros((Instant) value));
    } else if (local && value instanceof LocalDateTime) {
      column.putLong(micros(((LocalDateTime) value).toInstant(ZoneOffset.UTC)));
    } else {
      return false;
    }
    return true;
  }

  private static long micros(Instant instant) {
    long micros = TimeUnit.NANOSECONDS.toMicros(instant.getNano());
    return Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), micros);
  }

  /** Arrays of the element's own primitive type. */
  private boolean putArray(Object value) {
    int offset;
    int count;
    int width;
    switch (column.child().type().id()) {
      case FLOAT32:
        if (!(value instanceof float[])) {
          return false;
        }
        offset = Platform.FLOAT_ARRAY_OFFSET;
        count = ((float[]) value).length;
        width = 4;
        break;
      case FLOAT64:
        if (!(value instanceof double[])) {
          return false;
        }
        offset = Platform.DOUBLE_ARRAY_OFFSET;
        count = ((double[]) value).length;
        width = 8;
        break;
      case INT32:
        if (!(value instanceof int[])) {
          return false;
        }
        offset = Platform.INT_ARRAY_OFFSET;
        count = ((int[]) value).length;
        width = 4;
        break;
      case INT64:
        if (!(value instanceof long[])) {
          return false;
        }
        offset = Platform.LONG_ARRAY_OFFSET;
        count = ((long[]) value).length;
        width = 8;
        break;
      case INT16:
        if (!(value instanceof short[])) {
          return false;
        }
        offset = Platform.SHORT_ARRAY_OFFSET;
        count = ((short[]) value).length;
        width = 2;
        break;
      case INT8:
        if (!(value instanceof byte[])) {
          return false;
        }
        offset = Platform.BYTE_ARRAY_OFFSET;
        count = ((byte[]) value).length;
        width = 1;
        break;
      case BOOL:
        return value instanceof boolean[] && putBooleans((boolean[]) value);
      default:
        return false;
    }
    Platform.copyMemory(value, offset, null, column.putListByAddress(count), (long) count * width);
    return true;
  }

  private boolean putBooleans(boolean[] values) {
    for (boolean value : values) {
      column.child().putBoolean(value);
    }
    column.endList();
    return true;
  }

  private boolean putElements(List<?> elements) {
    if (elements == null) {
      return false;
    }
    for (Object element : elements) {
      children[0].put(element);
    }
    column.endList();
    return true;
  }

  private boolean putStruct(Object value) {
    if (value instanceof Row && ((Row) value).length() == children.length) {
      for (int i = 0; i < children.length; i++) {
        children[i].put(((Row) value).get(i));
      }
    } else if (value instanceof Tuple2 && children.length == 2) {
      children[0].put(((Tuple2<?, ?>) value)._1());
      children[1].put(((Tuple2<?, ?>) value)._2());
    } else {
      return false;
    }
    column.endStruct();
    return true;
  }
}
