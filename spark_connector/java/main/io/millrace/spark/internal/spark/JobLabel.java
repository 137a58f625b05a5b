package io.millrace.spark.internal.spark;

import org.apache.spark.api.java.JavaSparkContext;

/** Group and description of the jobs that a thread submits, until it is closed; then those before. */
final class JobLabel implements AutoCloseable {
  // Spark has no getters for them.
  private static final String[] PROPERTIES = {
    "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"
  };

  private final JavaSparkContext spark;
  private final String[] before = new String[PROPERTIES.length];

  JobLabel(JavaSparkContext spark, String group, String description) {
    this.spark = spark;
    for (int i = 0; i < PROPERTIES.length; i++) {
      before[i] = spark.getLocalProperty(PROPERTIES[i]);
    }
    spark.setJobGroup(group, description, true);
  }

  @Override
  public void close() {
    for (int i = 0; i < PROPERTIES.length; i++) {
      spark.setLocalProperty(PROPERTIES[i], before[i]);
    }
  }
}
