package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** What a caller has said of its jobs stays, and its cancel reaches ours. */
public final class JobLabelTest {
  @Rule public final Timeout timeout = Timeout.seconds(120);

  private static final CountDownLatch BEGUN = new CountDownLatch(1);

  private static JavaSparkContext spark() {
    return JavaSparkContext.fromSparkContext(SparkSession.builder().getOrCreate().sparkContext());
  }

  @Test
  public void theCallersGroupAndDescriptionStay() {
    JavaSparkContext spark = spark();
    spark.setJobGroup("the caller's", "as the caller calls it", false);
    spark.sc().addJobTag("the-callers");
    try (JobLabel label = new JobLabel(spark, "ours", "tag-a", "tag-b")) {
      assertEquals("the caller's", spark.getLocalProperty("spark.jobGroup.id"));
      assertEquals("as the caller calls it", spark.getLocalProperty("spark.job.description"));
      assertEquals("true", spark.getLocalProperty("spark.job.interruptOnCancel"));
      String[] tags = spark.getLocalProperty("spark.job.tags").split(",");
      Arrays.sort(tags);
      assertEquals(Arrays.asList("tag-a", "tag-b", "the-callers"), Arrays.asList(tags));
      assertTrue(label != null);
    }
    assertEquals("false", spark.getLocalProperty("spark.job.interruptOnCancel"));
    assertEquals("the-callers", spark.getLocalProperty("spark.job.tags"));
    spark.clearJobGroup();
    spark.sc().clearJobTags();
    try (JobLabel label = new JobLabel(spark, "ours", "tag")) {
      assertEquals("ours", spark.getLocalProperty("spark.job.description"));
      assertTrue(label != null);
    }
    assertEquals(null, spark.getLocalProperty("spark.job.description"));
  }

  @Test
  public void aCancelOfTheCallersGroupEndsOurJob() throws Exception {
    JavaSparkContext spark = spark();
    AtomicReference<Exception> error = new AtomicReference<>();
    Thread job =
        new Thread(
            () -> {
              spark.setJobGroup("cancelled by the caller", "", false);
              try (JobLabel label = new JobLabel(spark, "ours", "tag")) {
                spark.parallelize(Collections.singletonList(1), 1).foreach(i -> {
                  BEGUN.countDown();
                  Thread.sleep(600_000);
                });
                assertTrue(label != null);
              } catch (Exception e) { // Spark's are checked ones, undeclared
                error.set(e);
              }
            });
    job.start();
    BEGUN.await(); // local mode: the task is in this JVM
    spark.cancelJobGroup("cancelled by the caller");
    job.join();
    assertTrue(String.valueOf(error.get()), JobErrors.isCancelled(error.get()));
  }
}
