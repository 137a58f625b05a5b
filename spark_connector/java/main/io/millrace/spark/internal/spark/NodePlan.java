package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.cluster.CoordinatorAddress;
import java.io.Serializable;

/** What an executor needs to know to start a node. Immutable; travels with the tasks. */
public final class NodePlan implements Serializable {
  private static final long serialVersionUID = 1L;

  final String clusterId;
  final CoordinatorAddress coordinator;
  final int nodesPerExecutor;
  final int gpusPerNode;
  final boolean freesFedSlots;
  final String workingDir;
  final String portRange;

  /**
   * A plan.
   *
   * @param gpusPerNode of those that Spark gives its task, how many a node may have; 0: all
   * @param freesFedSlots whether the tasks of chief, master and workers end once their nodes run
   * @param workingDir "" for the executor's own
   * @param portRange "" for any
   */
  public NodePlan(
      String clusterId,
      CoordinatorAddress coordinator,
      int nodesPerExecutor,
      int gpusPerNode,
      boolean freesFedSlots,
      String workingDir,
      String portRange) {
    this.clusterId = clusterId;
    this.coordinator = coordinator;
    this.nodesPerExecutor = nodesPerExecutor;
    this.gpusPerNode = gpusPerNode;
    this.freesFedSlots = freesFedSlots;
    this.workingDir = workingDir;
    this.portRange = portRange;
  }

  /** The same plan for executors that may have so many nodes. */
  NodePlan withNodesPerExecutor(int nodes) {
    return new NodePlan(clusterId, coordinator, nodes, gpusPerNode, freesFedSlots, workingDir, portRange);
  }
}
