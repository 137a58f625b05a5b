package io.millrace.spark.internal.spark;

import org.apache.spark.api.java.JavaSparkContext;

/**
 * Tags and a description of the jobs that a thread submits, until it is closed. The caller's group, tags and
 * description stay, so that whoever cancels by these reaches our jobs too.
 */
final class JobLabel implements AutoCloseable {
  private static final String DESCRIPTION = "spark.job.description";
  private static final String INTERRUPT = "spark.job.interruptOnCancel";
  private static final String TAGS = "spark.job.tags";
  // Spark has no getters for most of them.
  private static final String[] PROPERTIES = {DESCRIPTION, INTERRUPT, TAGS};

  private final JavaSparkContext spark;
  private final String[] before = new String[PROPERTIES.length];

  /** {@code description} is for people, where the caller has given none. */
  JobLabel(JavaSparkContext spark, String description, String... tags) {
    this.spark = spark;
    for (int i = 0; i < PROPERTIES.length; i++) {
      before[i] = spark.getLocalProperty(PROPERTIES[i]);
    }
    if (spark.getLocalProperty(DESCRIPTION) == null) {
      spark.setLocalProperty(DESCRIPTION, description);
    }
    spark.setLocalProperty(INTERRUPT, "true");
    for (String tag : tags) {
      spark.sc().addJobTag(tag);
    }
  }

  @Override
  public void close() {
    for (int i = 0; i < PROPERTIES.length; i++) {
      spark.setLocalProperty(PROPERTIES[i], before[i]);
    }
  }
}
