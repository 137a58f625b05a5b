package io.millrace.spark;

/**
 * Hears on the driver what nodes write and measure, and how they are. Called from one thread of the cluster, in order;
 * a method that takes long delays the next, and lines and metrics are then left out, the lines counted. Must not call
 * the cluster.
 */
public interface ClusterObserver {
  default void onOutput(NodeOutput output) {}

  /** A node told a metric: NodeContext::ReportMetric. */
  default void onMetric(String node, String name, long step, double value) {}

  /** Something of a node has changed: its state, address or process. None is left out. */
  default void onSlot(NodeInfo node) {}
}
