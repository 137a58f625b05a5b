package io.millrace.spark.internal.rows;

import java.lang.reflect.Method;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.collection.JavaConverters;

/** Rows of results as the objects that Spark's own rows have. */
final class RowConverter {
  // The same in all Scalas; not linked, since it returns a collection of Scala's (link_test).
  private static final Method AS_SCALA_BUFFER = asScalaBuffer();

  private final StructField[] fields;

  RowConverter(StructType schema) {
    fields = schema.fields();
  }

  Row convert(InternalRow row) {
    return convert(fields, row);
  }

  private static Row convert(StructField[] fields, InternalRow row) {
    Object[] values = new Object[fields.length];
    for (int i = 0; i < values.length; i++) {
      values[i] = value(fields[i].dataType(), row, i);
    }
    return RowFactory.create(values);
  }

  private static Object value(DataType type, SpecializedGetters row, int i) {
    if (row.isNullAt(i)) {
      return null;
    } else if (type instanceof BooleanType) {
      return row.getBoolean(i);
    } else if (type instanceof ByteType) {
      return row.getByte(i);
    } else if (type instanceof ShortType) {
      return row.getShort(i);
    } else if (type instanceof IntegerType) {
      return row.getInt(i);
    } else if (type instanceof LongType) {
      return row.getLong(i);
    } else if (type instanceof FloatType) {
      return row.getFloat(i);
    } else if (type instanceof DoubleType) {
      return row.getDouble(i);
    } else if (type instanceof DateType) {
      return DateTimeUtils.toJavaDate(row.getInt(i));
    } else if (type instanceof TimestampType) {
      return DateTimeUtils.toJavaTimestamp(row.getLong(i));
    } else if (type instanceof TimestampNTZType) {
      long micros = row.getLong(i);
      int nanos = (int) Math.floorMod(micros, 1_000_000L) * 1000;
      return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), nanos, ZoneOffset.UTC);
    } else if (type instanceof BinaryType) {
      return row.getBinary(i);
    } else if (type instanceof ArrayType) {
      return elements(((ArrayType) type).elementType(), row.getArray(i));
    } else if (type instanceof StructType) {
      StructField[] fields = ((StructType) type).fields();
      return convert(fields, row.getStruct(i, fields.length));
    }
    return row.getUTF8String(i).toString();
  }

  private static Method asScalaBuffer() {
    try {
      return JavaConverters.class.getMethod("asScalaBuffer", List.class);
    } catch (NoSuchMethodException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  // A Scala sequence, which Row.getList and getSeq ask for.
  private static Object elements(DataType type, ArrayData array) {
    Object[] elements = new Object[array.numElements()];
    for (int i = 0; i < elements.length; i++) {
      elements[i] = value(type, array, i);
    }
    try {
      return AS_SCALA_BUFFER.invoke(null, Arrays.asList(elements));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
