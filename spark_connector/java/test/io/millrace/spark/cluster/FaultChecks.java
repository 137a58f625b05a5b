package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeState;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.util.List;

/** Executors and the driver are killed; two executors of one core each. */
final class FaultChecks extends Checks {
  FaultChecks(String[] args) {
    super(args);
  }

  /** "driver", the last, does not return. */
  @Override
  void runAll() throws Exception {
    check("executor", this::executor);
    check("executorReplaced", this::executorReplaced);
    check("displaced", this::displaced);
    check("decommissioned", this::decommissioned);
    driver();
  }

  private void executor() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    long began = System.nanoTime();
    kill("-9", executorOf(cluster.clusterInfo().get(1)));
    Eventually.await("the cluster's failure", () -> cluster.failure() != null);
    System.out.println("INFO lost executor seen after " + (System.nanoTime() - began) / 1_000_000 + " ms");
    MillraceException e = requireError(StatusCode.UNAVAILABLE, () -> cluster.train(numbers(10, 2)));
    requireEqual("worker:1", e.node());
    requireError(e.code(), cluster::shutdown);
    // The application is as good as before, once Spark has another executor.
    MillraceCluster next = run(feed(2), "sum");
    requireEqual(10L, next.train(numbers(10, 2)).rows());
    next.shutdown();
  }

  /** With a restart left the node comes back on the executor that Spark starts in place of the lost one. */
  private void executorReplaced() throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(1)), "sum");
    kill("-9", executorOf(cluster.clusterInfo().get(0)));
    TrainResult result = cluster.train(numbers(1000, 6));
    requireEqual(1000L, result.rows());
    cluster.shutdown();
  }

  /**
   * As before, while nobody feeds: the first slot that Spark has for the node is that of the other node's
   * executor, where it has no place.
   */
  private void displaced() throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(1)), "sum");
    kill("-9", executorOf(cluster.clusterInfo().get(1)));
    awaitNextAttempt(cluster, 1);
    List<NodeInfo> nodes = cluster.clusterInfo();
    require(executorOf(nodes.get(0)) != executorOf(nodes.get(1)), "two nodes on one executor");
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    // Also if Spark did the lost task again by itself: then it, or the job for the node, had nothing to do.
    Eventually.await("the end of all jobs for nodes", () -> sc.statusTracker().getActiveJobIds().length == 0);
    cluster.shutdown();
  }

  private static void awaitNextAttempt(MillraceCluster cluster, int executorId) throws Exception {
    Eventually.await(
        "the node's next attempt",
        () -> {
          NodeInfo node = cluster.clusterInfo().get(executorId);
          return node.attempt() == 1 && node.state() == NodeState.RUNNING;
        });
  }

  /** Spark is asked to let an executor go, which it does at once, as no task runs there. */
  private void decommissioned() throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(1)), "sum");
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    kill("-PWR", executorOf(cluster.clusterInfo().get(0)));
    awaitNextAttempt(cluster, 0);
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    cluster.shutdown();
    // Without a restart it is the cluster's failure, which says what has happened.
    MillraceCluster other = run(feed(2), "sum");
    kill("-PWR", executorOf(other.clusterInfo().get(1)));
    Eventually.await("the cluster's failure", () -> other.failure() != null);
    System.out.println("INFO decommissioned executor: " + other.failure());
    requireEqual("worker:1", other.failure().node());
    requireError(other.failure().code(), other::shutdown);
  }

  /** The test kills this process and sees that nothing is left. */
  private void driver() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    require(cluster.failure() == null, "it failed");
    System.out.println("CHECKS all but the driver's end ran; kill me");
    Thread.sleep(600_000);
  }
}
