package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.feed.FeedSession;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;

/**
 * Two nodes, of which the first is many times slower than the second: it is to get little, and to give back what the
 * other one does sooner. Two executors of one core each.
 *
 * <p>Every row has x = 1, so that what a node adds up is how many rows it used.
 */
final class SkewChecks extends Checks {
  private static final long ROWS = 8_000;
  private static final long SLOW_RANK = 0;

  SkewChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("few", () -> skewed(100, 8, feed(2)));
    check("many", () -> skewed(100, 128, feed(2)));
    check("smallBudget", () -> skewed(100, 16, feed(2).feed(budget(1 << 20))));
    check("tenTimes", () -> skewed(10, 16, feed(2)));
    check("shuffled", this::shuffled);
    check("slowNodeKilled", this::slowNodeKilled);
  }

  private Dataset<Row> ones(Dataset<Row> ids) {
    return ids.select(functions.lit(1L).as("x"), functions.expr("repeat('a', 2000)").as("pad"));
  }

  /** How many rows each node has used, by rank. */
  private Map<Long, Long> used(MillraceCluster cluster, int nodes) throws Exception {
    Map<Long, Long> rows = new HashMap<>();
    Eventually.await(
        "an answer of each node",
        () -> {
          for (Row row : cluster.inference(numbers(80, 16), RESULT).collectAsList()) {
            rows.put(row.getLong(2), row.getLong(1));
          }
          return rows.size() == nodes;
        });
    return rows;
  }

  private void skewed(int ratio, int partitions, ClusterOptions.Builder options) throws Exception {
    train(ratio, ones(spark.range(0, ROWS, 1, partitions).toDF()), options);
  }

  /** What may come in another order moves as a whole, as long as nothing of it was used. */
  private void shuffled() throws Exception {
    train(100, ones(spark.range(0, ROWS, 1, 4).toDF().repartition(64)), feed(2));
  }

  private void train(int ratio, Dataset<Row> data, ClusterOptions.Builder options) throws Exception {
    MillraceCluster cluster = run(options, "skew", Integer.toString(ratio));
    long began = System.nanoTime();
    TrainResult result = cluster.train(data, TrainOptions.builder().endOfFeed(true).build());
    long millis = (System.nanoTime() - began) / 1_000_000;
    Map<Long, Long> used = used(cluster, 2);
    System.out.println("INFO " + result + " in " + millis + " ms, used " + used);
    requireEqual(ROWS, result.rows());
    require(result.exactlyOnce(), result.toString());
    requireEqual(ROWS, used.values().stream().mapToLong(Long::longValue).sum());
    // Of as many as the other would have been given it would be half.
    require(used.get(SLOW_RANK) < ROWS / 4, "used " + used);
    cluster.shutdown();
  }

  /** Killed with a batch in hand that takes ten minutes, after it has given back the rest for the other one. */
  private void slowNodeKilled() throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(3)), "skew", "300000");
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Thread training =
        new Thread(() -> result.set(cluster.train(ones(spark.range(0, ROWS, 1, 8).toDF()))));
    training.start();
    Eventually.await("the other one's part", () -> acknowledged(cluster) > ROWS / 2);
    Eventually.await(
        "a session that has given rows back, and is not at its end", () -> openSessions(FeedSession::isRevoked) > 0);
    kill("-9", cluster.clusterInfo().get(0).pid());
    training.join();
    require(result.get() != null, "train failed");
    System.out.println("INFO slow node killed: " + result.get());
    requireEqual(ROWS, result.get().rows());
    cluster.shutdown();
  }
}
