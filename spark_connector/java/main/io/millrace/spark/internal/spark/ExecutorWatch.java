package io.millrace.spark.internal.spark;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/** Remembers which executors Spark has lost, and tells of the application's end. Thread-safe. */
public final class ExecutorWatch extends SparkListener {
  private final Runnable onApplicationEnd;
  private final Set<String> removed = new HashSet<>();

  /** {@code onApplicationEnd} is called once, on a thread of Spark's; it must not block. */
  ExecutorWatch(Runnable onApplicationEnd) {
    this.onApplicationEnd = onApplicationEnd;
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    onApplicationEnd.run();
  }

  @Override
  public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    removed.add(event.executorId());
  }

  synchronized boolean isRemoved(String executorId) {
    return removed.contains(executorId);
  }

  synchronized int removals() {
    return removed.size();
  }
}
