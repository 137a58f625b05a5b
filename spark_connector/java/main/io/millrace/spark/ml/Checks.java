package io.millrace.spark.ml;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.FailureOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.StatusCode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.Params;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What the parameters say, or what is wrong with them: INVALID_ARGUMENT, with the parameter's name. */
final class Checks {
  private static final int DEFAULT_BATCH_SIZE = 1024;
  private static final double DEFAULT_FEED_TIMEOUT_S = 600;

  private Checks() {}

  /** Sets it, and returns {@code of}, whose class {@code T} is. */
  @SuppressWarnings("unchecked")
  static <T extends Params, V> T set(Params of, Param<V> param, V value) {
    of.set(param, value);
    return (T) of;
  }

  static void setDefaults(MillraceParams<?> of) {
    of.setDefault(of.numExecutors(), 1);
    of.setDefault(of.gpusPerNode(), 0);
    of.setDefault(of.maxRestarts(), 0);
    of.setDefault(of.feedTimeout(), DEFAULT_FEED_TIMEOUT_S);
    of.setDefault(of.batchSize(), DEFAULT_BATCH_SIZE);
    of.setDefault(of.inputMapping(), Collections.<String, String>emptyMap());
    of.setDefault(of.keepCols(), new String[0]);
  }

  static int number(Params of, Param<Object> param, int least) {
    int value = (Integer) of.getOrDefault(param);
    if (value < least) {
      throw bad(param.name() + " is " + value + ": must be at least " + least);
    }
    return value;
  }

  static NodeProgram program(MillraceParams<?> of) {
    if (!of.isDefined(of.program())) {
      throw bad("program is not set: name the node program, setProgram(NodeProgram.file(\"my_node\"))");
    }
    return of.getOrDefault(of.program());
  }

  static Duration feedTimeout(MillraceParams<?> of) {
    double seconds = (Double) of.getOrDefault(of.feedTimeout());
    Duration timeout = Duration.ofMillis((long) (seconds * 1000));
    if (timeout.isNegative() || timeout.isZero()) {
      throw bad("feedTimeout is " + seconds + " s: must be at least 0.001");
    }
    return timeout;
  }

  /** Of a cluster that is fed; all its nodes are workers so far. */
  static ClusterOptions.Builder cluster(MillraceParams<?> of) {
    ClusterOptions.Builder options = ClusterOptions.builder().inputMode(InputMode.FEED);
    options.numExecutors(number(of, of.numExecutors(), 1));
    int gpus = number(of, of.gpusPerNode(), 0);
    if (gpus > 0) {
      options.node(NodeOptions.builder().gpusPerNode(gpus).build());
    }
    int restarts = number(of, of.maxRestarts(), 0);
    if (restarts > 0) {
      options.failure(FailureOptions.builder().restart(RestartPolicy.atMost(restarts)).build());
    }
    return options;
  }

  /** The columns that are added. */
  static StructType outputs(MillraceParams<?> of) {
    if (!of.isDefined(of.outputs())) {
      throw bad("outputs is not set: name the columns to add, setOutputs(\"scores array<float>\")");
    }
    String ddl = of.getOrDefault(of.outputs());
    try {
      return StructType.fromDDL(ddl);
    } catch (Exception e) { // Spark's ParseException is a checked one, undeclared
      throw bad("outputs is \"" + ddl + "\", which is no list of columns such as \"scores array<float>\": "
          + e.getMessage());
    }
  }

  /** Those that {@code param} names, in its order; all, if it names none. */
  static List<String> columns(Params of, Param<String[]> param, StructType schema) {
    String[] named = of.getOrDefault(param);
    if (named.length == 0) {
      return Arrays.asList(schema.fieldNames());
    }
    checkNames(param, Arrays.asList(named), schema);
    return Arrays.asList(named);
  }

  static void checkNames(Param<?> param, Collection<String> named, StructType schema) {
    List<String> known = Arrays.asList(schema.fieldNames());
    for (String name : named) {
      if (!known.contains(name)) {
        throw bad(param.name() + " names no column \"" + name + "\"; the table has " + String.join(", ", known));
      }
    }
  }

  /** The schema of what a model makes of a table; looks at keepCols, inputMapping and outputs. */
  static StructType transformed(MillraceParams<?> of, StructType schema) {
    checkNames(of.inputMapping(), of.getOrDefault(of.inputMapping()).keySet(), schema);
    StructType result = new StructType();
    List<String> kept = columns(of, of.keepCols(), schema);
    for (String name : kept) {
      result = result.add(schema.apply(name));
    }
    for (StructField field : outputs(of).fields()) {
      if (kept.contains(field.name())) {
        throw bad("outputs has the column \"" + field.name() + "\", which the table has already: see keepCols");
      }
      result = result.add(field);
    }
    return result;
  }

  static MillraceException bad(String message) {
    return new MillraceException(StatusCode.INVALID_ARGUMENT, message);
  }
}
