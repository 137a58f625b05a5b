package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.TrainResult;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Clusters that are fed, two executors of one core each. */
public final class FeedChecks extends Checks {
  private FeedChecks(String[] args) {
    super(args);
  }

  /** Runs the checks. */
  public static void main(String[] args) {
    FeedChecks checks = new FeedChecks(args);
    checks.check("squares", checks::squares);
    checks.check("trains", checks::trains);
    checks.check("killed", checks::killed);
    checks.end();
  }

  private void squares() {
    MillraceCluster cluster = run(feed(2), "square");
    Dataset<Row> out = cluster.inference(numbers(1000, 10), RESULT);
    for (int round = 0; round < 2; round++) { // lazy: each action feeds anew
      List<Row> rows = out.collectAsList();
      requireEqual(1000, rows.size());
      for (int i = 0; i < 1000; i++) {
        requireEqual((long) i * i, rows.get(i).getLong(0));
      }
    }
    cluster.shutdown();
  }

  private void trains() {
    MillraceCluster cluster = run(feed(2), "sum");
    for (NodeInfo info : cluster.clusterInfo()) {
      requireEqual("running", info.state());
    }
    TrainResult result = cluster.train(numbers(1000, 5), TrainOptions.builder().numEpochs(3).build());
    requireEqual(3000L, result.rows());
    require(result.exactlyOnce() && !result.terminated(), result.toString());
    cluster.endFeed("input");
    Map<Long, Long> sums = new HashMap<>();
    for (Row row : cluster.inference(numbers(40, 8), RESULT).collectAsList()) {
      sums.put(row.getLong(2), row.getLong(1));
    }
    long all = 0;
    for (long sum : sums.values()) {
      all += sum;
    }
    requireEqual(3L * 1000 * 999 / 2, all);
    cluster.shutdown();
  }

  private void killed() {
    MillraceCluster cluster = run(feed(2), "die_at", "700");
    long began = System.nanoTime();
    MillraceException e = requireError(StatusCode.ABORTED, () -> cluster.train(numbers(1000, 5)));
    System.out.println("INFO failure seen after " + (System.nanoTime() - began) / 1_000_000 + " ms: " + e);
    requireContains(e.node(), "worker:");
    requireContains(e.exitStatus(), "signal 9");
    requireContains(requireError(StatusCode.ABORTED, cluster::shutdown).getMessage(), "SIGKILL");
  }
}
