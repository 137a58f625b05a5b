package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;

/** Spark SQL's types as those of a feed. */
public final class SparkTypes {
  private SparkTypes() {}

  /**
   * The columns of a DataFrame as they are fed.
   *
   * @throws MillraceException INVALID_ARGUMENT, naming the column, if a feed cannot carry it
   */
  public static ArrowSchema schema(StructType schema) {
    if (schema.fields().length == 0) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT, "the data has no columns; a feed needs at least one");
    }
    return new ArrowSchema(fields(schema, "", "columns"));
  }

  private static List<ArrowField> fields(StructType schema, String prefix, String what) {
    List<ArrowField> fields = new ArrayList<>();
    Set<String> names = new HashSet<>();
    for (StructField field : schema.fields()) {
      String place = prefix + field.name();
      if (!names.add(field.name())) {
        throw new MillraceException(
            StatusCode.INVALID_ARGUMENT, "two " + what + " have the name \"" + place + "\"; rename one of them");
      }
      fields.add(new ArrowField(field.name(), type(field.dataType(), place), field.nullable()));
    }
    return fields;
  }

  private static ArrowType type(DataType type, String place) {
    DataType stored = stored(type);
    ArrowType.Id id = primitive(stored);
    if (id != null) {
      return ArrowType.of(id);
    }
    if (stored instanceof TimestampType) {
      return ArrowType.timestamp(ArrowType.Unit.MICROSECOND, "UTC");
    }
    if (stored instanceof TimestampNTZType) {
      return ArrowType.timestamp(ArrowType.Unit.MICROSECOND, "");
    }
    try {
      if (stored instanceof ArrayType) {
        ArrayType array = (ArrayType) stored;
        return ArrowType.list(
            new ArrowField("element", type(array.elementType(), place + "[]"), array.containsNull()));
      }
      if (stored instanceof StructType && ((StructType) stored).fields().length > 0) {
        return ArrowType.struct(fields((StructType) stored, place + ".", "fields"));
      }
    } catch (IllegalArgumentException e) {
      throw new MillraceException(StatusCode.INVALID_ARGUMENT, "column \"" + place + "\": " + e.getMessage());
    }
    throw new MillraceException(
        StatusCode.INVALID_ARGUMENT,
        "column \"" + place + "\": type " + type.simpleString() + " is not supported by feeds" + advice(stored));
  }

  /** What rows hold in place of a user-defined type (MLlib's vectors are structs). */
  static DataType stored(DataType type) {
    return type instanceof UserDefinedType ? stored(((UserDefinedType<?>) type).sqlType()) : type;
  }

  private static ArrowType.Id primitive(DataType type) {
    if (type instanceof BooleanType) {
      return ArrowType.Id.BOOL;
    } else if (type instanceof ByteType) {
      return ArrowType.Id.INT8;
    } else if (type instanceof ShortType) {
      return ArrowType.Id.INT16;
    } else if (type instanceof IntegerType) {
      return ArrowType.Id.INT32;
    } else if (type instanceof LongType) {
      return ArrowType.Id.INT64;
    } else if (type instanceof FloatType) {
      return ArrowType.Id.FLOAT32;
    } else if (type instanceof DoubleType) {
      return ArrowType.Id.FLOAT64;
    } else if (type instanceof DateType) {
      return ArrowType.Id.DATE32;
    } else if (type instanceof StringType) {
      return ArrowType.Id.UTF8;
    } else if (type instanceof BinaryType) {
      return ArrowType.Id.BINARY;
    }
    return null;
  }

  private static String advice(DataType type) {
    if (type instanceof DecimalType) {
      return "; cast it to double, or to string";
    }
    return type instanceof MapType ? "; use map_entries(), which makes an array of structs" : "; cast it, or drop it";
  }
}
