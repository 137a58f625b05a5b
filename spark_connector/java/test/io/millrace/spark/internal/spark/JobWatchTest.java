package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.ChangeSignal;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.cluster.FakeAgent;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** Jobs that wait for a core, which others have; run by spark-submit, in this JVM alone. */
@SuppressWarnings("try") // labels are there to be closed
public final class JobWatchTest {
  private static final String TAG = "watched";
  private static CountDownLatch released;

  @Rule public final Timeout timeout = Timeout.seconds(120);

  private final JavaSparkContext spark =
      JavaSparkContext.fromSparkContext(SparkSession.builder().getOrCreate().sparkContext());
  private final ChangeSignal changes = new ChangeSignal();
  private Thread others;

  @Before
  public void takeEveryCore() throws Exception {
    released = new CountDownLatch(1);
    others = new Thread(() -> spark.parallelize(Arrays.asList(1, 2), 2).foreach(i -> released.await()));
    others.start();
    Eventually.await(
        "tasks in both slots", () -> spark.sc().statusTracker().getExecutorInfos()[0].numRunningTasks() == 2);
  }

  @After
  public void giveThemBack() throws Exception {
    released.countDown();
    others.join();
  }

  private long count() {
    try (JobLabel label = new JobLabel(spark, "a job", TAG)) {
      return spark.parallelize(Arrays.asList(1, 2), 2).count();
    }
  }

  @Test
  public void aJobWithoutACoreEndsWhenThereIsNoNodeForItsTasks() throws Exception {
    JobWatch watch = new JobWatch(spark, TAG, changes, () -> "no node", 300);
    assertThrows(SparkException.class, this::count);
    MillraceException e = assertThrows(MillraceException.class, watch::failIfEnded);
    assertEquals(StatusCode.DEADLINE_EXCEEDED, e.code());
    assertEquals("no node", e.getMessage());
    watch.close();
    Eventually.await("the end of its thread", () -> FakeAgent.threads("millrace-job-watch") == 0);
  }

  @Test
  public void aJobWaitsForACoreWhileANodeReads() throws Exception {
    AtomicInteger looks = new AtomicInteger();
    try (JobWatch watch =
        new JobWatch(
            spark,
            TAG,
            changes,
            () -> {
              if (looks.incrementAndGet() == 10) {
                released.countDown();
              }
              return null;
            },
            300)) {
      assertEquals(2, count());
      watch.failIfEnded();
    }
  }
}
