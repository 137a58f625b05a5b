package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.ClusterOptions;
import io.millrace.spark.FailureOptions;
import io.millrace.spark.FeedOptions;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.QuarantinePolicy;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.Sidecar;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.ChangeSignal;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.cluster.CoordinatorAddress;
import io.millrace.spark.internal.cluster.FakeAgent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.sql.SparkSession;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** Clusters that end before they have begun; run by spark-submit, in this JVM alone. */
public final class ClusterRunTest {
  private static final CountDownLatch RELEASED = new CountDownLatch(1);
  private static final String REFUSES =
      "'coordinator start') echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"INVALID_ARGUMENT\\\","
          + "\\\"message\\\":\\\"as the test says\\\"}}\";;";

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
    Eventually.await(
        "tasks in both slots", () -> spark.sc().statusTracker().getExecutorInfos()[0].numRunningTasks() == 2);
    NodeStage stage = stage(spark, plan("busy", 1), new ChangeSignal(), id -> true, id -> -1);
    stage.start();
    Thread.currentThread().interrupt();
    stage.stop();
    assertTrue("the interrupt is kept", Thread.interrupted());
    assertEquals("its threads have ended", 0, FakeAgent.threads("millrace-nodes"));
    // Spark's tracker hears of the end of a job some time after the job's thread.
    Eventually.await("its job has ended", () -> spark.statusTracker().getActiveJobIds().length == 1);
  }

  /** Each pause is longer than the one before: ten of them are half a minute. */
  @Test
  public void aNodeWithoutAPlaceIsTriedAgainAtOnceWhenExecutorsChange() throws Exception {
    JavaSparkContext spark = spark();
    ChangeSignal changes = new ChangeSignal();
    CountDownLatch tries = new CountDownLatch(10);
    SparkListener another =
        new SparkListener() {
          @Override
          public void onJobEnd(SparkListenerJobEnd event) {
            changes.raise();
          }
        };
    NodeStage stage =
        stage(
            spark,
            plan("full", 0),
            changes,
            id -> {
              tries.countDown();
              return true;
            },
            id -> -1);
    spark.sc().addSparkListener(another);
    try {
      stage.startAgain(0);
      boolean tried = tries.await(25, TimeUnit.SECONDS);
      assertTrue(tries.getCount() + " tries are left", tried);
    } finally {
      stage.stop();
      spark.sc().removeSparkListener(another);
    }
    assertEquals("its threads have ended", 0, FakeAgent.threads("millrace-nodes"));
  }

  /** Its loss is another search's: two would take the place from each other's tasks. */
  @Test
  public void aSearchEndsOnceItsNodeHasHadAPlaceAndLostIt() throws Exception {
    JavaSparkContext spark = spark();
    AtomicInteger attempt = new AtomicInteger(1);
    NodeStage stage = stage(spark, plan("lost", 0), new ChangeSignal(), id -> true, id -> attempt.getAndSet(2));
    try {
      stage.startAgain(0);
      Eventually.await("its end", () -> FakeAgent.threads("millrace-nodes") == 0);
      assertEquals(1, spark.statusTracker().getJobIdsForGroup("millrace-lost-nodes").length);
    } finally {
      stage.stop();
    }
  }

  private static NodePlan plan(String clusterId, int nodesPerExecutor) {
    return new NodePlan(
        clusterId, new CoordinatorAddress("127.0.0.1:1", "", "", ""), nodesPerExecutor, 0, true, null, null, null);
  }

  private static NodeStage stage(
      JavaSparkContext spark, NodePlan plan, ChangeSignal changes, IntPredicate needsAgent, IntUnaryOperator attempt) {
    return new NodeStage(
        spark, plan, Collections.singletonList(new NodeSlot(0, "worker:0")), changes, needsAgent, attempt, e -> {});
  }

  @Test
  public void theCoordinatorIsToldOfEveryOption() throws Exception {
    FakeAgent fake = new FakeAgent(folder.getRoot().toPath(), REFUSES, "");
    ClusterOptions options =
        ClusterOptions.builder()
            .numExecutors(1)
            .logDir("/logs")
            .tensorboard(true)
            .reservationTimeout(Duration.ofSeconds(60))
            .node(
                NodeOptions.builder()
                    .defaultFs("hdfs://n")
                    .releasePort(false)
                    .gpusPerNode(1)
                    .gpusByJob(Collections.singletonMap("evaluator", 3))
                    .logBytesPerSecond(1000)
                    .sidecars(Sidecar.of("exporter", "serve", "--port={port}").beside("worker:0").env("A", "b"))
                    .build())
            .feed(
                FeedOptions.builder()
                    .queues("a", "b")
                    .portRange("9000-9100")
                    .budgetBytes(5)
                    .sharedMemory(true)
                    .build())
            .failure(
                FailureOptions.builder()
                    .restart(
                        RestartPolicy.builder()
                            .maxRestarts(4)
                            .window(Duration.ofHours(1))
                            .initialBackoff(Duration.ofMillis(50))
                            .maxBackoff(Duration.ofSeconds(2))
                            .build())
                    .restartByJob(Collections.singletonMap("ps", RestartPolicy.never()))
                    .quarantine(
                        QuarantinePolicy.builder()
                            .failures(7)
                            .window(Duration.ofSeconds(8))
                            .duration(ChronoUnit.FOREVER.getDuration())
                            .build())
                    .stopGrace(Duration.ofSeconds(3))
                    .stopTimeout(Duration.ofMillis(1500))
                    .build())
            .observer(new ClusterObserver() {})
            .coordinatorPortRange("9200-9300")
            .build();
    MillraceException e =
        assertThrows(
            MillraceException.class, () -> ClusterRun.start(spark(), NodeProgram.path("/bin/true"), options));
    assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
    assertTold(
        fake,
        "'log_dir':'/logs','tensorboard':true,'reservation_timeout_ms':60000",
        "'node':{'default_fs':'hdfs://n','release_port':false,'gpus_per_node':1,'gpus_by_job':{'evaluator':3},"
            + "'log_bytes_per_second':1000,'sidecars':[{'name':'exporter','node':'worker:0','program':'serve',"
            + "'args':['--port={port}'],'env':{'A':'b'}}]}",
        "'feed':{'queues':['a','b'],'port_range':'9000-9100','budget_bytes':5,'shared_memory':true}",
        "'failure':{'restart':{'max_restarts':4,'window_ms':3600000,'initial_backoff_ms':50,'max_backoff_ms':2000},"
            + "'restart_by_job':{'ps':{'max_restarts':0}},"
            + "'quarantine':{'failures':7,'window_ms':8000,'duration_ms':-1},"
            + "'stop_grace_ms':3000,'stop_timeout_ms':1500}",
        "'output_events':true",
        "'metric_events':true",
        "'port_range':'9200-9300'");
  }

  @Test
  public void whatIsNotSetHasTheDefaultOfTheCoordinator() throws Exception {
    FakeAgent fake = new FakeAgent(folder.getRoot().toPath(), REFUSES, "");
    ClusterOptions options =
        ClusterOptions.builder().node(NodeOptions.builder().defaultFs("hdfs://n").build()).build();
    assertThrows(
        MillraceException.class, () -> ClusterRun.start(spark(), NodeProgram.path("/bin/true"), options));
    assertTold(
        fake,
        "{'num_executors':1,'num_ps':0,'master_node':'','eval_node':false,'program':'/bin/true','shipped':false,"
            + "'args':[],'env':{},'input_mode':'DIRECT','node':{'default_fs':'hdfs://n'},'feed':{},'failure':{},"
            + "'output_events':false,");
  }

  private static void assertTold(FakeAgent fake, String... members) throws Exception {
    String log = fake.log().replace('"', '\'');
    for (String member : members) {
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
    Eventually.await("the coordinator's start", () -> fake.log().contains("\"method\":\"start\""));
    spark.stop();
    Files.createFile(go);
    starting.join();
    assertTrue(String.valueOf(error.get()), error.get() instanceof IllegalStateException);
    Eventually.await("the coordinator's end", () -> fake.log().contains("coordinator ended"));
  }
}
