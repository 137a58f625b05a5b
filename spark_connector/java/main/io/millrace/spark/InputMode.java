package io.millrace.spark;

/** Where nodes get their rows from. */
public enum InputMode {
  /** Nodes read their own data; they hold their Spark slots while they run. */
  DIRECT,
  /** Spark feeds chief, master and workers; their slots are free for feeding once all nodes run. */
  FEED;

  /** TensorFlowOnSpark's name of {@link #DIRECT}. */
  @Deprecated public static final InputMode TENSORFLOW = DIRECT;

  /** TensorFlowOnSpark's name of {@link #FEED}. */
  @Deprecated public static final InputMode SPARK = FEED;
}
