package io.millrace.spark.internal.spark;

import java.io.Serializable;

/** A node that a task is to start. Immutable. */
public final class NodeSlot implements Serializable {
  private static final long serialVersionUID = 1L;

  final int executorId;
  final String node;

  /**
   * A slot.
   *
   * @param executorId the node's number
   * @param node "worker:1"
   */
  public NodeSlot(int executorId, String node) {
    this.executorId = executorId;
    this.node = node;
  }

  boolean isFed() {
    return !node.startsWith("ps:") && !node.startsWith("evaluator:");
  }

  boolean isPs() {
    return node.startsWith("ps:");
  }
}
