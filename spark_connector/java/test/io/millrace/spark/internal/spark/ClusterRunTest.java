package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.ClusterOptions;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.QuarantinePolicy;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.Sidecar;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.cluster.CoordinatorAddress;
import io.millrace.spark.internal.cluster.FakeAgent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** Clusters that end before they have begun; run by spark-submit, in this JVM alone. */
public final class ClusterRunTest {
  private static final CountDownLatch RELEASED = new CountDownLatch(1);

  @Rule public final Timeout timeout = Timeout.seconds(120);
  @Rule public final TemporaryFolder folder = new TemporaryFolder();

  private static JavaSparkContext spark() {
    return JavaSparkContext.fromSparkContext(SparkSession.builder().getOrCreate().sparkContext());
  }

  @Test
  public void aStageThatIsStoppedAtOnceLeavesNoJobThatWaitsForASlot() throws Exception {
    JavaSparkContext spark = spark();
    Thread others =
        new Thread(() -> spark.parallelize(Arrays.asList(1, 2), 2).foreach(i -> RELEASED.await()));
    others.start();
    try {
      stopAStageAtOnce(spark);
    } finally {
      RELEASED.countDown();
      others.join();
    }
  }

  private static void stopAStageAtOnce(JavaSparkContext spark) throws Exception {
    FakeAgent.await(
        "tasks in both slots", () -> spark.sc().statusTracker().getExecutorInfos()[0].numRunningTasks() == 2);
    NodePlan plan = new NodePlan("busy", new CoordinatorAddress("127.0.0.1:1", "", "", ""), 1, 0, true, "", "");
    NodeStage stage =
        new NodeStage(
            spark, plan, Collections.singletonList(new NodeSlot(0, "worker:0")), id -> false, id -> true, e -> {});
    stage.start();
    Thread.currentThread().interrupt();
    stage.stop();
    assertTrue("the interrupt is kept", Thread.interrupted());
    assertEquals("its threads have ended", 0, FakeAgent.threads("millrace-nodes"));
    // Spark's tracker hears of the end of a job some time after the job's thread.
    FakeAgent.await("its job has ended", () -> spark.statusTracker().getActiveJobIds().length == 1);
  }

  @Test
  public void theCoordinatorIsToldOfEveryOption() throws Exception {
    FakeAgent fake =
        new FakeAgent(
            folder.getRoot().toPath(),
            "'coordinator start') echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"INVALID_ARGUMENT\\\","
                + "\\\"message\\\":\\\"as the test says\\\"}}\";;",
            "");
    ClusterOptions options =
        ClusterOptions.builder()
            .numExecutors(1)
            .gpusByJob(Collections.singletonMap("evaluator", 3))
            .restart(
                RestartPolicy.builder()
                    .maxRestarts(4)
                    .window(Duration.ofHours(1))
                    .initialBackoff(Duration.ofMillis(50))
                    .maxBackoff(Duration.ofSeconds(2))
                    .build())
            .restartByJob(Collections.singletonMap("ps", RestartPolicy.never()))
            .quarantine(QuarantinePolicy.of(7, Duration.ofSeconds(8), Duration.ofSeconds(9)))
            .sidecars(Sidecar.of("exporter", "serve", "--port={port}").beside("worker:0").env("A", "b"))
            .observer(new ClusterObserver() {})
            .reservationTimeout(Duration.ofSeconds(60))
            .stopGrace(Duration.ofSeconds(3))
            .stopTimeout(Duration.ofMillis(1500))
            .build();
    MillraceException e =
        assertThrows(
            MillraceException.class, () -> ClusterRun.start(spark(), NodeProgram.path("/bin/true"), options));
    assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
    String log = fake.log();
    for (String member :
        new String[] {
          "\"gpus_by_job\":{\"evaluator\":3}",
          "\"max_restarts\":4,\"restart_window_ms\":3600000,\"restart_backoff_ms\":50,\"max_restart_backoff_ms\":2000",
          "\"restarts\":{\"ps\":{\"max_restarts\":0,\"restart_window_ms\":-1,",
          "\"quarantine\":{\"failures\":7,\"window_ms\":8000,\"duration_ms\":9000}",
          "\"sidecars\":[{\"name\":\"exporter\",\"node\":\"worker:0\",\"program\":\"serve\","
              + "\"args\":[\"--port={port}\"],\"env\":{\"A\":\"b\"}}]",
          "\"log_events\":true",
          "\"metric_events\":true",
          "\"reservation_timeout_ms\":60000",
          "\"stop_grace_ms\":3000",
          "\"stop_timeout_ms\":1500"
        }) {
      assertTrue(member + " is not in " + log, log.contains(member));
    }
  }

  @Test
  public void aSparkContextThatIsStoppedMeanwhileTakesTheCoordinatorWithIt() throws Exception {
    JavaSparkContext spark = spark();
    Path go = folder.getRoot().toPath().resolve("go");
    FakeAgent fake =
        new FakeAgent(
            folder.getRoot().toPath(),
            "'coordinator start') while [ ! -e '" + go + "' ]; do sleep 0.05; done; "
                + "echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"cluster_id\\\":\\\"c\\\",\\\"address\\\":\\\"a\\\","
                + "\\\"ca_pem\\\":\\\"\\\",\\\"identity_pem\\\":\\\"\\\","
                + "\\\"tokens\\\":{\\\"agent\\\":\\\"\\\"},\\\"roles\\\":[\\\"worker:0\\\"]}}\";;",
            "");
    AtomicReference<Exception> error = new AtomicReference<>();
    Thread starting =
        new Thread(
            () -> {
              try {
                ClusterRun.start(
                    spark, NodeProgram.path("/bin/true"), ClusterOptions.builder().numExecutors(1).build());
              } catch (RuntimeException e) {
                error.set(e);
              }
            });
    starting.start();
    FakeAgent.await("the coordinator's start", () -> fake.log().contains("\"method\":\"start\""));
    spark.stop();
    Files.createFile(go);
    starting.join();
    assertTrue(String.valueOf(error.get()), error.get() instanceof IllegalStateException);
    FakeAgent.await("the coordinator's end", () -> fake.log().contains("coordinator ended"));
  }
}
