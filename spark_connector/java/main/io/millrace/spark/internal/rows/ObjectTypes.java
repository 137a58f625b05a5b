package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** Types of rows that come without a schema, read from their values. */
final class ObjectTypes {
  private ObjectTypes() {}

  /** The schema of a row as {@link ObjectRowEncoder} reads it; every column is nullable. */
  static StructType schemaOf(Object row) {
    if (row instanceof Row) {
      StructType own = ((Row) row).schema();
      return own != null ? own : structOf(row);
    }
    return row instanceof Tuple2
        ? structOf(row)
        : DataTypes.createStructType(new StructField[] {field("value", row)});
  }

  private static StructType structOf(Object value) {
    List<StructField> fields = new ArrayList<>();
    if (value instanceof Tuple2) {
      fields.add(field("_1", ((Tuple2<?, ?>) value)._1()));
      fields.add(field("_2", ((Tuple2<?, ?>) value)._2()));
    } else {
      Row row = (Row) value;
      for (int i = 0; i < row.length(); i++) {
        fields.add(field("_" + (i + 1), row.get(i)));
      }
    }
    return DataTypes.createStructType(fields);
  }

  private static StructField field(String name, Object value) {
    return DataTypes.createStructField(name, typeOf(value, name), true);
  }

  private static DataType typeOf(Object value, String place) {
    if (value instanceof Boolean) {
      return DataTypes.BooleanType;
    } else if (value instanceof Byte) {
      return DataTypes.ByteType;
    } else if (value instanceof Short) {
      return DataTypes.ShortType;
    } else if (value instanceof Integer) {
      return DataTypes.IntegerType;
    } else if (value instanceof Long) {
      return DataTypes.LongType;
    } else if (value instanceof Float) {
      return DataTypes.FloatType;
    } else if (value instanceof Double) {
      return DataTypes.DoubleType;
    } else if (value instanceof CharSequence) {
      return DataTypes.StringType;
    } else if (value instanceof byte[]) {
      return DataTypes.BinaryType;
    } else if (value instanceof java.sql.Date || value instanceof java.time.LocalDate) {
      return DataTypes.DateType;
    } else if (value instanceof java.sql.Timestamp || value instanceof java.time.Instant) {
      return DataTypes.TimestampType;
    } else if (value instanceof java.time.LocalDateTime) {
      return DataTypes.TimestampNTZType;
    }
    return nestedType(value, place);
  }

  private static DataType nestedType(Object value, String place) {
    if (value instanceof float[]) {
      return DataTypes.createArrayType(DataTypes.FloatType, false);
    } else if (value instanceof double[]) {
      return DataTypes.createArrayType(DataTypes.DoubleType, false);
    } else if (value instanceof int[]) {
      return DataTypes.createArrayType(DataTypes.IntegerType, false);
    } else if (value instanceof long[]) {
      return DataTypes.createArrayType(DataTypes.LongType, false);
    } else if (value instanceof short[]) {
      return DataTypes.createArrayType(DataTypes.ShortType, false);
    } else if (value instanceof boolean[]) {
      return DataTypes.createArrayType(DataTypes.BooleanType, false);
    } else if (value instanceof Row && ((Row) value).schema() != null) {
      return ((Row) value).schema();
    } else if (value instanceof Row || value instanceof Tuple2) {
      return structOf(value);
    }
    List<?> elements = elementsOf(value);
    if (elements != null) {
      for (Object element : elements) {
        if (element != null) {
          return DataTypes.createArrayType(typeOf(element, place + "[]"), true);
        }
      }
    }
    throw new MillraceException(
        StatusCode.INVALID_ARGUMENT,
        "column \"" + place + "\": no type can be read from "
            + (value == null ? "a null" : elements != null ? "an empty list" : "a " + value.getClass().getName())
            + " in the first row; feed a DataFrame, which has a schema");
  }

  /** The elements of a Java or Scala sequence or an array of objects; null for anything else. */
  static List<?> elementsOf(Object value) {
    if (value instanceof List) {
      return (List<?>) value;
    }
    if (value instanceof Object[]) {
      return java.util.Arrays.asList((Object[]) value);
    }
    if (value == null || !isScalaSequence(value)) {
      return null;
    }
    // Row turns Scala's sequences into Java's, and this links against every Scala.
    return RowFactory.create(value).getList(0);
  }

  private static boolean isScalaSequence(Object value) {
    return value instanceof scala.collection.Seq;
  }
}
