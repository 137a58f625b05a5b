package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.cluster.CoordinatorAddress;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.NodeAgent;
import io.millrace.spark.internal.cluster.Params;
import io.millrace.spark.internal.cluster.PythonFunction;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.resource.ResourceInformation;

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
  private final PythonFunction function;

  /**
   * A plan.
   *
   * @param gpusPerNode of those that Spark gives its task, how many a node may have; 0: all
   * @param freesFedSlots whether the tasks of chief, master and workers end once their nodes run
   * @param workingDir null for the executor's own
   * @param portRange null for any
   * @param function of Python that nodes run; null if their program is enough
   */
  public NodePlan(
      String clusterId,
      CoordinatorAddress coordinator,
      int nodesPerExecutor,
      int gpusPerNode,
      boolean freesFedSlots,
      String workingDir,
      String portRange,
      PythonFunction function) {
    this.clusterId = clusterId;
    this.coordinator = coordinator;
    this.nodesPerExecutor = nodesPerExecutor;
    this.gpusPerNode = gpusPerNode;
    this.freesFedSlots = freesFedSlots;
    this.workingDir = workingDir;
    this.portRange = portRange;
    this.function = function;
  }

  /** The same plan for executors that may have so many nodes. */
  NodePlan withNodesPerExecutor(int nodes) {
    return new NodePlan(
        clusterId, coordinator, nodes, gpusPerNode, freesFedSlots, workingDir, portRange, function);
  }

  /**
   * Starts the agent of a node whose place was claimed.
   *
   * @param task which starts it: the GPUs that Spark gives it are the node's
   */
  NodeAgent startAgent(ExecutorSite site, NodeSlot slot, TaskContext task) {
    return site.places().startAgent(slot.executorId, agentParams(slot, task), function);
  }

  private Params agentParams(NodeSlot slot, TaskContext task) {
    Params params = Params.of("working_dir", workingDir).and("port_range", portRange);
    List<String> gpus = gpusOf(task);
    if (!gpus.isEmpty() && !slot.isPs()) {
      boolean fewer = gpusPerNode > 0 && gpusPerNode < gpus.size();
      params.and("gpus", fewer ? gpus.subList(0, gpusPerNode) : gpus);
    }
    return params;
  }

  /** The addresses that Spark gives the task, as they are: indices, UUIDs, MIG ids. */
  private static List<String> gpusOf(TaskContext task) {
    Map<String, ResourceInformation> resources =
        task == null ? Collections.<String, ResourceInformation>emptyMap() : task.resourcesJMap();
    ResourceInformation gpus = resources.get("gpu");
    return gpus == null ? Collections.<String>emptyList() : Arrays.asList(gpus.addresses());
  }
}
