package io.millrace.spark.cluster;

import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.TrainResult;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Executors and the driver are killed; two executors of one core each. */
public final class FaultChecks extends Checks {
  private FaultChecks(String[] args) {
    super(args);
  }

  /** Runs the checks; "driver", the last, does not return. */
  public static void main(String[] args) throws Exception {
    FaultChecks checks = new FaultChecks(args);
    checks.check("executor", checks::executor);
    checks.check("executorReplaced", checks::executorReplaced);
    checks.driver();
  }

  private static long parentOf(long pid) throws Exception {
    String stat = new String(Files.readAllBytes(Paths.get("/proc/" + pid + "/stat")), StandardCharsets.UTF_8);
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 4).split(" ")[0]);
  }

  /** A node's process is its agent's child, and that the executor's. */
  private static void killExecutorOf(NodeInfo node) throws Exception {
    long executor = parentOf(parentOf(node.pid()));
    new ProcessBuilder("/bin/kill", "-9", Long.toString(executor)).start().waitFor();
  }

  private void executor() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    long began = System.nanoTime();
    killExecutorOf(cluster.clusterInfo().get(1));
    while (cluster.failure() == null) {
      Thread.sleep(5);
    }
    System.out.println("INFO lost executor seen after " + (System.nanoTime() - began) / 1_000_000 + " ms");
    MillraceException e = requireError(cluster.failure().code(), () -> cluster.train(numbers(10, 2)));
    requireEqual("worker:1", e.node());
    requireError(e.code(), cluster::shutdown);
    // The application is as good as before, once Spark has another executor.
    MillraceCluster next = run(feed(2), "sum");
    requireEqual(10L, next.train(numbers(10, 2)).rows());
    next.shutdown();
  }

  /** With a restart left the node comes back on the executor that Spark starts in place of the lost one. */
  private void executorReplaced() throws Exception {
    MillraceCluster cluster = run(feed(2).maxRestarts(1), "sum");
    killExecutorOf(cluster.clusterInfo().get(0));
    TrainResult result = cluster.train(numbers(1000, 6));
    requireEqual(1000L, result.rows());
    cluster.shutdown();
  }

  /** The test kills this process and sees that nothing is left. */
  private void driver() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    require(cluster.failure() == null, "it failed");
    System.out.println("CHECKS 2 ran; kill me");
    Thread.sleep(600_000);
  }
}
