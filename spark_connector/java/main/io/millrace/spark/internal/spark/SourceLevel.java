package io.millrace.spark.internal.spark;

import org.apache.spark.api.java.JavaRDD;

/** What Spark knows of the rows that a partition has when it is computed again. */
public final class SourceLevel {
  private SourceLevel() {}

  /**
   * Whether they are the same, in the same order. Not so after a shuffle that does not sort, whose blocks come in
   * any order; what functions of the user's do is believed to be as Spark believes it.
   */
  public static boolean isDeterminate(JavaRDD<?> data) {
    // private[spark], and so public to the JVM, from 3.5 to 4.3; the others are UNORDERED and INDETERMINATE.
    return data.rdd().outputDeterministicLevel().toString().equals("DETERMINATE");
  }
}
