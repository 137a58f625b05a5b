package io.millrace.spark;

/**
 * Hears on the driver what nodes write and measure. Called from one thread of the cluster, in order; a method that
 * takes long delays the next, and lines and metrics are then left out and counted. Must not call the cluster.
 */
public interface ClusterObserver {
  default void onOutput(NodeOutput output) {}

  /** A node told a metric: NodeContext::ReportMetric. */
  default void onMetric(String node, String name, long step, double value) {}
}
