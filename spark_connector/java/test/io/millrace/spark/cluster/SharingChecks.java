package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.NodeInfo;
import java.util.HashSet;
import java.util.Set;

/** Nodes that share the only executor, of four cores: local[4] too. */
final class SharingChecks extends Checks {
  SharingChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("fourNodesOnOneExecutor", this::fourNodesOnOneExecutor);
  }

  /** Without nodesPerExecutor, and without any other option that a user would have to know of. */
  private void fourNodesOnOneExecutor() throws Exception {
    MillraceCluster cluster = run(ClusterOptions.builder().numExecutors(4).inputMode(InputMode.FEED), "sum");
    Set<Long> executors = new HashSet<>();
    for (NodeInfo node : cluster.clusterInfo()) {
      executors.add(executorOf(node));
    }
    System.out.println("INFO " + sc.master() + ": nodes are children of " + executors);
    requireEqual(4, cluster.clusterInfo().size());
    requireEqual(1, executors.size());
    requireEqual(1000L, cluster.train(numbers(1000, 16)).rows());
    cluster.endFeed("input");
    requireEqual(1000L * 999 / 2, sumOfNodes(cluster, 4));
    cluster.shutdown();
  }
}
