package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.TrainResult;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashSet;
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
public final class ResumeChecks extends Checks {
  private static final int ROWS = 50; // of a partition
  private static final int TRIP_AT = 40;

  private ResumeChecks(String[] args) {
    super(args);
  }

  /** Runs the checks. */
  public static void main(String[] args) {
    ResumeChecks checks = new ResumeChecks(args);
    checks.check("determinate", checks::determinate);
    checks.check("shuffled", checks::shuffled);
    checks.check("lostExecutor", checks::lostExecutor);
    checks.end();
  }

  /** 1; the first attempt of each task does something at its row {@link #TRIP_AT}. */
  private abstract static class Source implements UDF1<Long, Long> {
    private static final long serialVersionUID = 1L;
    private int row;
    private long task = -1;

    @Override
    public final Long call(Long id) throws Exception {
      TaskContext context = TaskContext.get();
      if (context.taskAttemptId() != task) {
        task = context.taskAttemptId();
        row = 0;
      }
      if (context.attemptNumber() == 0) {
        Thread.sleep(pauseMillis());
        if (row++ == TRIP_AT) {
          trip();
        }
      }
      return 1L;
    }

    /** Before each row of a first attempt. */
    abstract long pauseMillis();

    abstract void trip() throws Exception;
  }

  /** Fails once what was sent is used. */
  private static final class Trip extends Source {
    private static final long serialVersionUID = 1L;

    @Override
    long pauseMillis() {
      return 0;
    }

    @Override
    void trip() throws Exception {
      Thread.sleep(5_000);
      throw new IllegalStateException("the source fails, as it was told");
    }
  }

  /** Slow; says which process it is, and waits for a file "go". */
  private static final class Wait extends Source {
    private static final long serialVersionUID = 1L;
    private final String folder;

    Wait(String folder) {
      this.folder = folder;
    }

    @Override
    long pauseMillis() {
      return 100;
    }

    @Override
    void trip() throws Exception {
      String pid = new String(Files.readAllBytes(Paths.get("/proc/self/stat")), StandardCharsets.UTF_8).split(" ")[0];
      Files.createFile(Paths.get(folder, "feeds-" + pid));
      for (int i = 0; i < 3000 && !Files.exists(Paths.get(folder, "go")); i++) {
        Thread.sleep(20);
      }
    }
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
    TrainResult result = cluster.train(rows(spark.range(0, 2 * ROWS, 1, 2).toDF(), new Trip()));
    requireEqual(2L * ROWS, result.rows());
    // Both partitions were fed again, after 35 of 40 rows.
    require(result.refedRows() > 0 && result.refedRows() <= 2 * 12, "fed again: " + result);
    require(!result.exactlyOnce(), result.toString());
    long used = used(cluster);
    System.out.println("INFO determinate: " + result + ", used " + used);
    require(used >= 2 * ROWS && used <= 2 * ROWS + result.refedRows(), "used " + used + ": " + result);
    cluster.shutdown();
  }

  /** After a shuffle that does not sort: what comes again may come in another order. */
  private void shuffled() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Dataset<Row> ids = spark.range(0, 2 * ROWS, 1, 3).toDF().repartition(2, functions.col("id"));
    TrainResult result = cluster.train(rows(ids, new Trip()));
    requireEqual(2L * ROWS, result.rows());
    require(result.refedRows() >= TRIP_AT, "fed again: " + result);
    require(!result.exactlyOnce(), result.toString());
    long used = used(cluster);
    System.out.println("INFO shuffled: " + result + ", used " + used);
    require(used > 2 * ROWS + 25 && used <= 2 * ROWS + result.refedRows(), "used " + used + ": " + result);
    cluster.shutdown();
  }

  /** The executor that has no node is killed while it feeds the node of another one. */
  private void lostExecutor() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Path files = Files.createTempDirectory(Paths.get(folder), "resume");
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Dataset<Row> data = rows(spark.range(0, 3 * ROWS, 1, 3).toDF(), new Wait(files.toString()));
    Thread training = new Thread(() -> result.set(cluster.train(data)));
    training.start();
    Set<Long> withNode = new HashSet<>();
    for (NodeInfo node : cluster.clusterInfo()) {
      withNode.add(executorOf(node));
    }
    Set<Long> without = new HashSet<>();
    await(
        "a feeder without a node",
        () -> {
          without.addAll(feeders(files));
          without.removeAll(withNode);
          return !without.isEmpty();
        });
    Thread.sleep(3_000); // its last rows are used
    kill("-9", without.iterator().next());
    Files.createFile(files.resolve("go"));
    training.join();
    require(result.get() != null, "train failed");
    requireEqual(3L * ROWS, result.get().rows());
    require(!result.get().exactlyOnce(), result.get().toString());
    long used = used(cluster);
    System.out.println("INFO lostExecutor: " + result.get() + ", used " + used);
    // 35 rows were used and each second the ledger was told: from row 0 all of them would be used twice.
    require(used >= 3 * ROWS && used < 3 * ROWS + 30, "used " + used);
    cluster.shutdown();
  }

  private static Set<Long> feeders(Path files) throws IOException {
    Set<Long> pids = new HashSet<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(files, "feeds-*")) {
      for (Path file : all) {
        pids.add(Long.parseLong(file.getFileName().toString().substring("feeds-".length())));
      }
    }
    return pids;
  }
}
