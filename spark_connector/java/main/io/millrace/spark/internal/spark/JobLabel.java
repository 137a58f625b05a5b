package io.millrace.spark.internal.spark;

import org.apache.spark.api.java.JavaSparkContext;

/** Group, description and tag of the jobs that a thread submits, until it is closed; then those before. */
final class JobLabel implements AutoCloseable {
  // Spark has no getters for most of them.
  private static final String[] PROPERTIES = {
    "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.job.tags"
  };

  private final JavaSparkContext spark;
  private final String[] before = new String[PROPERTIES.length];

  /** {@code tag} is that of these jobs alone, by which they are cancelled. */
  JobLabel(JavaSparkContext spark, String group, String description, String tag) {
    this.spark = spark;
    for (int i = 0; i < PROPERTIES.length; i++) {
      before[i] = spark.getLocalProperty(PROPERTIES[i]);
    }
    spark.setJobGroup(group, description, true);
    spark.sc().addJobTag(tag);
  }

  @Override
  public void close() {
    for (int i = 0; i < PROPERTIES.length; i++) {
      spark.setLocalProperty(PROPERTIES[i], before[i]);
    }
  }
}
