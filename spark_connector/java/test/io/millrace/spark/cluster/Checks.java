package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.FailureOptions;
import io.millrace.spark.FeedOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.NodeState;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.cluster.CoordinatorProcess;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.FeedLedger;
import io.millrace.spark.internal.cluster.FollowedSession;
import io.millrace.spark.internal.cluster.Params;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.spark.ClusterRun;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/** Checks inside a Spark application, run one after another. */
abstract class Checks {
  /** One check; throws if it fails. */
  interface Check {
    void run() throws Exception;
  }

  static final StructType RESULT =
      new StructType().add("y", "bigint", false).add("sum", "bigint", false).add("rank", "bigint", false);

  final SparkSession spark;
  final JavaSparkContext sc;
  final String node;
  final String folder;
  private final List<String> only = new ArrayList<>();
  private final List<MillraceCluster> clusters = new ArrayList<>();
  private int ran;
  private int failed;

  /**
   * The checks of one class.
   *
   * @param args the node program, a folder for its files, and names of checks (all, if there are none)
   */
  Checks(String[] args) {
    node = args[0];
    folder = args[1];
    for (int i = 2; i < args.length; i++) {
      only.add(args[i]);
    }
    spark = SparkSession.builder().appName(getClass().getSimpleName()).getOrCreate();
    sc = JavaSparkContext.fromSparkContext(spark.sparkContext());
  }

  final void check(String name, Check check) {
    if (!only.isEmpty() && !only.contains(name)) {
      return;
    }
    long began = System.nanoTime();
    String outcome = "ok";
    try {
      check.run();
    } catch (Exception | AssertionError e) {
      failed++;
      outcome = "FAILED";
      e.printStackTrace();
    }
    clusters.forEach(MillraceCluster::close); // those that a failed check has left
    clusters.clear();
    ran++;
    System.out.println("CHECK " + name + " " + outcome + " " + (System.nanoTime() - began) / 1_000_000 + " ms");
  }

  /** Runs each through {@link #check}. */
  abstract void runAll() throws Exception;

  final int ran() {
    return ran;
  }

  final int failed() {
    return failed;
  }

  // -------------------------------------------------------------------------------------------- helpers

  static ClusterOptions.Builder feed(int executors) {
    return ClusterOptions.builder()
        .numExecutors(executors)
        .inputMode(InputMode.FEED)
        .reservationTimeout(Duration.ofMillis(400_000))
        .failure(failure().build());
  }

  /** What feed() has, to be given back with more. */
  static FailureOptions.Builder failure() {
    return FailureOptions.builder().stopGrace(Duration.ofMillis(2_000));
  }

  /** That, and so many restarts of each node. */
  static FailureOptions restarts(int atMost) {
    return failure().restart(RestartPolicy.atMost(atMost)).build();
  }

  /** What one node may hold of the feed. */
  static FeedOptions budget(long bytes) {
    return FeedOptions.builder().budgetBytes(bytes).build();
  }

  static NodeOptions gpusPerNode(int gpus) {
    return NodeOptions.builder().gpusPerNode(gpus).build();
  }

  final MillraceCluster run(ClusterOptions.Builder options, String... args) {
    MillraceCluster cluster = MillraceCluster.run(sc, NodeProgram.file(node, args), options.build());
    clusters.add(cluster);
    return cluster;
  }

  /** What a file that a node writes has in it, once it is complete: ends with a newline. */
  static String awaitFile(Path file) throws Exception {
    AtomicReference<String> text = new AtomicReference<>("");
    Eventually.await(
        file + " is written",
        () -> {
          if (Files.exists(file)) {
            text.set(new String(Files.readAllBytes(file), StandardCharsets.UTF_8));
          }
          return text.get().endsWith("\n");
        });
    return text.get();
  }

  /** The numbers from 0 to count - 1 in a column x. */
  final Dataset<Row> numbers(long count, int partitions) {
    return spark.range(0, count, 1, partitions).toDF("x");
  }

  /** What {@code nodes} nodes that "sum" have been fed, added up; the training's feed must have ended. */
  final long sumOfNodes(MillraceCluster cluster, int nodes) throws Exception {
    Map<Long, Long> sums = new HashMap<>();
    Eventually.await(
        "an answer of each node",
        () -> { // which of them answers is Spark's choice of executors
          for (Row row : cluster.inference(numbers(80, 16), RESULT).collectAsList()) {
            sums.put(row.getLong(2), row.getLong(1));
          }
          return sums.size() == nodes;
        });
    long all = 0;
    for (long sum : sums.values()) {
      all += sum;
    }
    return all;
  }

  /** How many rows the ledger has as acknowledged, of all feeds of the cluster. */
  static long acknowledged(MillraceCluster cluster) throws Exception {
    return ledger(cluster, "rows_acked");
  }

  /** A number of the ledger's summaries, of all feeds of the cluster together. */
  static long ledger(MillraceCluster cluster, String member) throws Exception {
    CoordinatorProcess coordinator = ((ClusterRun) member(MillraceCluster.class, cluster, "run")).coordinator();
    long sum = 0;
    for (Object feed : coordinator.call("feed_summary", new Params()).list("feeds")) {
      sum += ((JsonObject) feed).integer(member);
    }
    return sum;
  }

  /** How many sessions with nodes are open, in all executors, of those that {@code which} takes. */
  final long openSessions(Function<FeedSession, Boolean> which) {
    List<Integer> tasks = Arrays.asList(0, 1, 2, 3);
    long open = 0;
    for (long ofOne : sc.parallelize(tasks, tasks.size()).map(task -> openSessionsHere(which)).collect()) {
      open += ofOne;
    }
    return open;
  }

  private static long openSessionsHere(Function<FeedSession, Boolean> which) throws Exception {
    Map<?, ?> sites = (Map<?, ?>) member(ExecutorSite.class, null, "SITES");
    List<?> ofClusters;
    synchronized (sites) {
      ofClusters = new ArrayList<>(sites.values());
    }
    long open = 0;
    for (Object site : ofClusters) {
      FeedLedger ledger = ((ExecutorSite) site).ledger();
      List<?> followed;
      synchronized (ledger) {
        followed = new ArrayList<>((List<?>) member(FeedLedger.class, ledger, "followed"));
      }
      for (Object one : followed) {
        FeedSession session = (FeedSession) member(FollowedSession.class, one, "session");
        open += session.state().isOpen() && which.call(session) ? 1 : 0;
      }
    }
    return open;
  }

  private static Object member(Class<?> type, Object of, String name) throws ReflectiveOperationException {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  /** Returns in each of so many tasks once all of them run: each has a slot of its own then. */
  static void meet(String folder, int tasks) throws Exception {
    Files.createFile(Paths.get(folder, Long.toString(TaskContext.get().taskAttemptId())));
    Eventually.await("the other tasks", () -> Paths.get(folder).toFile().list().length >= tasks);
  }

  /** How many tasks run, of all jobs. */
  final int runningTasks() {
    int tasks = 0;
    for (int stage : sc.statusTracker().getActiveStageIds()) {
      SparkStageInfo info = sc.statusTracker().getStageInfo(stage);
      tasks += info == null ? 0 : info.numActiveTasks();
    }
    return tasks;
  }

  /** A node that was lost runs again. */
  static boolean isBack(NodeInfo node) {
    return node.attempt() > 0 && node.state() == NodeState.RUNNING;
  }

  static long parentOf(long pid) throws IOException {
    String stat = new String(Files.readAllBytes(Paths.get("/proc/" + pid + "/stat")), StandardCharsets.UTF_8);
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 4).split(" ")[0]);
  }

  /** The process of a node's executor: a node's process is its agent's child, and that the executor's. */
  static long executorOf(NodeInfo node) throws IOException {
    return parentOf(parentOf(node.pid()));
  }

  /** {@code signal} as kill takes it: "-9". */
  static void kill(String signal, long pid) throws Exception {
    new ProcessBuilder("/bin/kill", signal, Long.toString(pid)).start().waitFor();
  }

  static void require(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static void requireEqual(Object wanted, Object found) {
    if (!wanted.equals(found)) {
      throw new AssertionError("wanted " + wanted + ", found " + found);
    }
  }

  static void requireContains(String text, String part) {
    require(text != null && text.contains(part), "\"" + part + "\" is not in: " + text);
  }

  /** The error of {@code check}, which must be of this kind. */
  static MillraceException requireError(StatusCode code, Check check) {
    try {
      check.run();
    } catch (MillraceException e) {
      require(e.code() == code, "wanted " + code + ", found " + e);
      return e;
    } catch (Exception e) {
      throw new AssertionError("wanted a MillraceException, found " + e, e);
    }
    throw new AssertionError("wanted " + code + ", and there was no error");
  }

  /** The MillraceException that a Spark action's error stands for. */
  static MillraceException requireActionError(StatusCode code, Check check) {
    try {
      check.run();
    } catch (Exception e) {
      for (Throwable at = e; at != null; at = at.getCause()) {
        if (at instanceof MillraceException) {
          require(((MillraceException) at).code() == code, "wanted " + code + ", found " + at);
          return (MillraceException) at;
        }
      }
      throw new AssertionError("no MillraceException in " + e, e);
    }
    throw new AssertionError("wanted " + code + ", and there was no error");
  }
}
