package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import java.util.List;
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
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Compares what a node returns with what the caller of inference expects. */
final class ResultSchema {
  private ResultSchema() {}

  /**
   * Which column of {@code found} each of {@code wanted} is: columns are found by their names, whatever
   * their order, fields of structs by name and order.
   *
   * @throws MillraceException INVALID_ARGUMENT, naming the columns that differ
   */
  static int[] match(StructType wanted, ArrowSchema found) {
    StructField[] fields = wanted.fields();
    List<ArrowField> columns = found.fields();
    if (columns.size() != fields.length) {
      throw mismatch(wanted, found, columns.size() + " columns where " + fields.length + " are expected");
    }
    int[] places = new int[fields.length];
    for (int i = 0; i < places.length; i++) {
      places[i] = find(fields[i].name(), columns);
      if (places[i] < 0) {
        throw mismatch(wanted, found, "no column \"" + fields[i].name() + "\"");
      }
      ArrowType type = columns.get(places[i]).type();
      if (!agree(fields[i].dataType(), type)) {
        throw mismatch(
            wanted,
            found,
            "column \"" + fields[i].name() + "\" is " + type + " where " + fields[i].dataType().simpleString()
                + " is expected");
      }
    }
    return places;
  }

  private static int find(String name, List<ArrowField> columns) {
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).name().equals(name)) {
        return i;
      }
    }
    return -1;
  }

  private static MillraceException mismatch(StructType wanted, ArrowSchema found, String what) {
    return new MillraceException(
        StatusCode.INVALID_ARGUMENT,
        "the results have " + what + "; the node returns " + found + ", the result schema is "
            + wanted.simpleString());
  }

  /** Whether every value of the column has a place in the type. */
  private static boolean agree(DataType wanted, ArrowType found) {
    switch (found.id()) {
      case BOOL:
        return wanted instanceof BooleanType;
      case INT8:
        return wanted instanceof ByteType || wanted instanceof ShortType || isWideInteger(wanted);
      case UINT8:
      case INT16:
        return wanted instanceof ShortType || isWideInteger(wanted);
      case UINT16:
      case INT32:
        return isWideInteger(wanted);
      case UINT32:
      case INT64:
        return wanted instanceof LongType;
      case FLOAT16:
      case FLOAT32:
        return wanted instanceof FloatType || wanted instanceof DoubleType;
      case FLOAT64:
        return wanted instanceof DoubleType;
      case UTF8:
      case LARGE_UTF8:
        return wanted instanceof StringType;
      case BINARY:
      case LARGE_BINARY:
        return wanted instanceof BinaryType;
      case DATE32:
      case DATE64:
        return wanted instanceof DateType;
      case TIMESTAMP:
        return found.zone().isEmpty() ? wanted instanceof TimestampNTZType : wanted instanceof TimestampType;
      case LIST:
      case LARGE_LIST:
      case FIXED_SIZE_LIST:
        return wanted instanceof ArrayType && agree(((ArrayType) wanted).elementType(), found.element().type());
      case STRUCT:
        return wanted instanceof StructType && agreeInFields((StructType) wanted, found.children());
      default:
        return false;
    }
  }

  private static boolean isWideInteger(DataType type) {
    return type instanceof IntegerType || type instanceof LongType;
  }

  private static boolean agreeInFields(StructType wanted, List<ArrowField> found) {
    StructField[] fields = wanted.fields();
    if (fields.length != found.size()) {
      return false;
    }
    for (int i = 0; i < fields.length; i++) {
      if (!fields[i].name().equals(found.get(i).name()) || !agree(fields[i].dataType(), found.get(i).type())) {
        return false;
      }
    }
    return true;
  }
}
