package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeState;
import io.millrace.spark.QuarantinePolicy;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Partitions whose task is lost in the middle: resumed after the acknowledged rows where Spark calls the source
 * determinate, otherwise fed from row 0. Three executors of one core each, two of them with a node.
 *
 * <p>Every row has x = 1, so that what the nodes add up is how many rows they used, and a pad that makes a batch
 * of four rows. Nodes read seven rows at a time.
 */
final class ResumeChecks extends LossChecks {
  private static final int ROWS = 50; // of a partition
  private static final int TRIP_AT = 40;
  private static final int SENT = 36; // by then: the batch before that row goes with it
  private static final int MAX_UNUSED = 12; // incomplete batches of two nodes

  ResumeChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("determinate", this::determinate);
    check("shuffled", this::shuffled);
    check("lostExecutor", this::lostExecutor);
    check("terminates", this::terminates);
    check("exits", this::exits);
    check("placeAmongMany", this::placeAmongMany);
    check("executorKilled", this::executorKilled);
  }

  /**
   * Its node goes to the executor that has none: to a task of train there, since the node's own job would have a core
   * only once all tasks of train have begun. The other node alone would take 11 s for the rows.
   */
  private void executorKilled() throws Exception {
    Loss loss = killed("executor", 16_000, cluster -> kill("-9", executorOf(cluster.clusterInfo().get(0))));
    requireWithin(8_000, "rows were used again", loss.flowsMillis);
  }

  /** The one executor that has a place for a node is found with the second job at the latest. */
  private void placeAmongMany() throws Exception {
    RestartPolicy restarts =
        RestartPolicy.builder().maxRestarts(10).initialBackoff(Duration.ofMillis(10)).build();
    QuarantinePolicy noQuarantine = QuarantinePolicy.builder().failures(1000).build();
    MillraceCluster cluster =
        run(feed(3).failure(failure().restart(restarts).quarantine(noQuarantine).build()), "sum");
    for (int attempt = 1; attempt <= 6; attempt++) {
      int restarted = attempt;
      int before = nodeJobs(cluster);
      kill("-9", parentOf(cluster.clusterInfo().get(0).pid()));
      Eventually.await(
          "the node's next attempt",
          () -> {
            NodeInfo node = cluster.clusterInfo().get(0);
            return node.attempt() == restarted && node.state() == NodeState.RUNNING;
          });
      int jobs = nodeJobs(cluster) - before;
      require(jobs <= 2, "attempt " + attempt + " took " + jobs + " jobs");
    }
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    cluster.shutdown();
  }

  private int nodeJobs(MillraceCluster cluster) {
    return sc.statusTracker().getJobIdsForGroup("millrace-" + cluster.clusterId() + "-nodes").length;
  }

  /**
   * 1; the first attempt of each task stands still at its row {@link #TRIP_AT}: says with a file which process it is,
   * and waits for a file "go". Then it fails, if it is to.
   */
  private static final class Source implements UDF1<Long, Long> {
    private static final long serialVersionUID = 1L;
    private final String files;
    private final boolean fails;
    private int row;
    private long task = -1;

    Source(Path files, boolean fails) {
      this.files = files.toString();
      this.fails = fails;
    }

    @Override
    public Long call(Long id) throws Exception {
      TaskContext context = TaskContext.get();
      if (context.taskAttemptId() != task) {
        task = context.taskAttemptId();
        row = 0;
      }
      if (context.attemptNumber() == 0 && row++ == TRIP_AT) {
        trip();
      }
      return 1L;
    }

    private void trip() throws Exception {
      String pid = new String(Files.readAllBytes(Paths.get("/proc/self/stat")), StandardCharsets.UTF_8).split(" ")[0];
      Files.createFile(Paths.get(files, "feeds-" + TaskContext.getPartitionId() + "-" + pid));
      Eventually.await("the word to go on", () -> Files.exists(Paths.get(files, "go")));
      if (fails) {
        throw new IllegalStateException("the source fails, as it was told");
      }
    }
  }

  private Path newFolder() throws IOException {
    return Files.createTempDirectory(Paths.get(folder), "resume");
  }

  /**
   * Trains. Every one of the partitions stands still at {@link #TRIP_AT}, until the ledger knows that the nodes have
   * used all rows that were sent but {@link #MAX_UNUSED}, and {@code atTrip} has run.
   */
  private TrainResult train(MillraceCluster cluster, Dataset<Row> data, int partitions, Path files, Check atTrip)
      throws Exception {
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Thread training = new Thread(() -> result.set(cluster.train(data)));
    training.start();
    Eventually.await("all feeders", () -> feeders(files).size() == partitions);
    Eventually.await("rows that are used", () -> acknowledged(cluster) >= partitions * SENT - MAX_UNUSED);
    atTrip.run();
    Files.createFile(files.resolve("go"));
    training.join();
    require(result.get() != null, "train failed");
    return result.get();
  }

  private Dataset<Row> rows(Dataset<Row> ids, UDF1<Long, Long> x) {
    return ids.select(
        functions.udf(x, DataTypes.LongType).apply(functions.col("id")).as("x"),
        functions.expr("repeat('a', 300000)").as("pad"));
  }

  /** How many rows the nodes have used: all, and some twice. */
  private long used(MillraceCluster cluster) throws Exception {
    cluster.endFeed("input");
    return sumOfNodes(cluster, 2);
  }

  private void determinate() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Path files = newFolder();
    Dataset<Row> data = rows(spark.range(0, 2 * ROWS, 1, 2).toDF(), new Source(files, true));
    TrainResult result = train(cluster, data, 2, files, () -> {});
    requireEqual(2L * ROWS, result.rows());
    require(result.rowsRefed() > 0 && result.rowsRefed() <= MAX_UNUSED, "fed again: " + result);
    require(!result.exactlyOnce(), result.toString());
    long used = used(cluster);
    System.out.println("INFO determinate: " + result + ", used " + used);
    require(used >= 2 * ROWS && used <= 2 * ROWS + result.rowsRefed(), "used " + used + ": " + result);
    cluster.shutdown();
  }

  /** After a shuffle that does not sort: what comes again may come in another order. */
  private void shuffled() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Path files = newFolder();
    Dataset<Row> ids = spark.range(0, 2 * ROWS, 1, 3).toDF().repartition(2, functions.col("id"));
    TrainResult result = train(cluster, rows(ids, new Source(files, true)), 2, files, () -> {});
    requireEqual(2L * ROWS, result.rows());
    require(result.rowsRefed() >= SENT, "fed again: " + result);
    require(!result.exactlyOnce(), result.toString());
    long used = used(cluster);
    System.out.println("INFO shuffled: " + result + ", used " + used);
    require(used > 2 * ROWS + 25 && used <= 2 * ROWS + result.rowsRefed(), "used " + used + ": " + result);
    cluster.shutdown();
  }

  /** The executor that has no node is killed while it feeds the node of another one. */
  private void lostExecutor() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Path files = newFolder();
    Set<Long> withNode = new HashSet<>();
    for (NodeInfo node : cluster.clusterInfo()) {
      withNode.add(executorOf(node));
    }
    Dataset<Row> data = rows(spark.range(0, 3 * ROWS, 1, 3).toDF(), new Source(files, false));
    TrainResult result =
        train(
            cluster,
            data,
            3,
            files,
            () -> {
              Set<Long> without = new HashSet<>(feeders(files));
              without.removeAll(withNode);
              requireEqual(1, without.size());
              kill("-9", without.iterator().next());
            });
    requireEqual(3L * ROWS, result.rows());
    long used = used(cluster);
    System.out.println("INFO lostExecutor: " + result + ", used " + used);
    // Two partitions share a node: whose rows are in its batch that is not full, and so in doubt, is chance.
    require(!result.exactlyOnce() || result.rowsRefed() == 0, result.toString());
    // From row 0 all that its partition has used would be used twice.
    require(used >= 3 * ROWS && used <= 3 * ROWS + MAX_UNUSED, "used " + used);
    cluster.shutdown();
  }

  /** One node has enough after 105 rows, 15 times seven: the other one goes on after them, and uses no row twice. */
  private void terminates() throws Exception {
    MillraceCluster cluster = run(feed(2).feed(budget(1 << 20)), "terminate_after", "100");
    for (Dataset<Row> data : both()) { // the second time only the other one reads
      TrainResult result = cluster.train(data);
      requireEqual(2000L, result.rows());
      requireEqual(0L, result.rowsRefed());
      require(result.exactlyOnce(), result.toString());
    }
    cluster.endFeed("input");
    requireEqual(4000L - 105, sumOfSecond(cluster));
    cluster.shutdown();
  }

  private void exits() throws Exception {
    for (Dataset<Row> data : both()) {
      MillraceCluster cluster = run(feed(2).feed(budget(1 << 20)), "exit_after", "100");
      TrainResult result = cluster.train(data);
      requireEqual(2000L, result.rows());
      requireEqual(0L, result.rowsRefed());
      require(result.exactlyOnce(), result.toString());
      cluster.endFeed("input");
      requireEqual(2000L - 105, sumOfSecond(cluster));
      cluster.shutdown();
    }
  }

  /** What the second node was fed, added up. */
  private long sumOfSecond(MillraceCluster cluster) throws Exception {
    Map<Long, Long> sums = new HashMap<>();
    Eventually.await(
        "its answer",
        () -> { // who answers is nobody's promise
          for (Row row : cluster.inference(numbers(80, 16), RESULT).collectAsList()) {
            sums.put(row.getLong(2), row.getLong(1));
          }
          return sums.containsKey(1L);
        });
    return sums.get(1L);
  }

  /** Two partitions: one batch each, which its task has sent long before; more than the node has room for. */
  private List<Dataset<Row>> both() {
    Dataset<Row> ones = spark.range(0, 2000, 1, 2).selectExpr("1L AS x");
    return Arrays.asList(ones, ones.selectExpr("x", "repeat('a', 20000) AS pad"));
  }

  /** The processes that stand still, one for each partition. */
  private static List<Long> feeders(Path files) throws IOException {
    List<Long> pids = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(files, "feeds-*")) {
      for (Path file : all) {
        pids.add(Long.parseLong(file.getFileName().toString().split("-")[2]));
      }
    }
    return pids;
  }
}
