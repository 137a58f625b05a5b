package io.millrace.spark.ml;

import static org.apache.spark.sql.functions.array;
import static org.apache.spark.sql.functions.concat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.functions;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;

/** Columns of tables as programs are fed them. */
final class Inputs {
  private Inputs() {}

  /** A column by its name, whatever is in that. */
  static Column column(Dataset<Row> table, String name) {
    return table.col("`" + name.replace("`", "``") + "`");
  }

  /** The columns of these names, with arrays instead of Spark ML's vectors. */
  static List<Column> of(Dataset<Row> table, Collection<String> names) {
    List<Column> columns = new ArrayList<>();
    for (String name : names) {
      columns.add(fed(table, name).as(name));
    }
    return columns;
  }

  /** The columns of a mapping {column: input}, or all: arrays of doubles where several are one input. */
  static List<Column> of(Dataset<Row> table, Map<String, String> mapping) {
    if (mapping.isEmpty()) {
      List<String> all = new ArrayList<>();
      Collections.addAll(all, table.columns());
      return of(table, all);
    }
    Map<String, List<String>> inputs = new LinkedHashMap<>();
    mapping.forEach((column, input) -> inputs.computeIfAbsent(input, none -> new ArrayList<>()).add(column));
    List<Column> columns = new ArrayList<>();
    inputs.forEach(
        (input, names) -> {
          if (names.size() == 1) {
            columns.add(fed(table, names.get(0)).as(input));
            return;
          }
          List<Column> parts = new ArrayList<>();
          for (String name : names) {
            Column part = fed(table, name);
            boolean many = isVector(table, name) || type(table, name) instanceof ArrayType;
            parts.add((many ? part : array(part)).cast("array<double>"));
          }
          columns.add(concat(parts.toArray(new Column[0])).as(input));
        });
    return columns;
  }

  private static Column fed(Dataset<Row> table, String name) {
    Column column = column(table, name);
    return isVector(table, name) ? functions.vector_to_array(column, "float64") : column;
  }

  private static boolean isVector(Dataset<Row> table, String name) {
    return type(table, name).equals(SQLDataTypes.VectorType());
  }

  private static DataType type(Dataset<Row> table, String name) {
    return table.schema().apply(name).dataType();
  }
}
