package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Checks that kill what a cluster needs, and time how long it does without. */
abstract class LossChecks extends Checks {
  // Of Spark's executors, by id, in nanoTime(): when they came, and when they had done their first task.
  private final Map<String, Long> added = new ConcurrentHashMap<>();
  private final Map<String, Long> warm = new ConcurrentHashMap<>();

  LossChecks(String[] args) {
    super(args);
    sc.sc()
        .addSparkListener(
            new SparkListener() {
              @Override
              public void onExecutorAdded(SparkListenerExecutorAdded event) {
                added.put(event.executorId(), System.nanoTime());
              }

              @Override
              public void onTaskEnd(SparkListenerTaskEnd event) {
                if (event.taskInfo().successful()) {
                  warm.putIfAbsent(event.taskInfo().executorId(), System.nanoTime());
                }
              }
            });
  }

  /** Kills some of a cluster's processes. */
  interface Killer {
    void kill(MillraceCluster cluster) throws Exception;
  }

  /** What came of it. */
  static final class Loss {
    final long killed; // nanoTime()
    final long flowsMillis; // from then until rows were used, or all results here, with the node back

    Loss(long killed, long flowsMillis) {
      this.killed = killed;
      this.flowsMillis = flowsMillis;
    }
  }

  static long millisSince(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
  }

  /** Where every executor was killed: how long Spark took to start another; 0 if none was started. */
  final long millisToNewExecutor(long killed) {
    return millisToFirst(added, killed);
  }

  /** That, and until it had done a task, for which it loads all classes: 20 s and more on a busy host. */
  final long millisToWarmExecutor(long killed) {
    return millisToFirst(warm, killed);
  }

  private static long millisToFirst(Map<String, Long> times, long killed) {
    long first = times.values().stream().filter(at -> at - killed > 0).min(Long::compare).orElse(killed);
    return TimeUnit.NANOSECONDS.toMillis(first - killed);
  }

  static void requireWithin(long mostMillis, String what, long millis) {
    require(millis < mostMillis, what + " after " + millis + " ms, at most " + mostMillis + " are allowed");
  }

  /** Training goes on, to its end, after something was killed in the middle that a node needs. */
  final Loss killed(String what, long count, Killer killer) throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(3)).feed(budget(1 << 20)), "slow", "5");
    Dataset<Row> data = numbers(count, (int) count / 250).selectExpr("x", "repeat('a', 20000) AS pad");
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Thread training = new Thread(() -> result.set(cluster.train(data)));
    requireEqual(100L, cluster.train(numbers(100, 8)).rows()); // each executor's first task takes its time
    training.start();
    Eventually.await("rows that are used", () -> acknowledged(cluster) > 100);
    killer.kill(cluster);
    long killed = System.nanoTime();
    Eventually.await(
        "a node's next attempt", () -> cluster.clusterInfo().stream().anyMatch(Checks::isBack) || !training.isAlive());
    long back = millisSince(killed);
    long before = acknowledged(cluster);
    Eventually.await("rows that are used again", () -> !training.isAlive() || acknowledged(cluster) > before);
    long flows = millisSince(killed);
    training.join();
    System.out.println(
        "INFO " + what + " killed: " + result.get() + ", a node was back after " + back + " ms, rows were used after "
            + flows + " ms, all after " + millisSince(killed) + " ms");
    require(result.get() != null, "train failed");
    requireEqual(count, result.get().rows());
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    cluster.shutdown();
    return new Loss(killed, flows);
  }
}
