package io.millrace.spark.internal.spark;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/** Remembers which executors Spark has lost. Thread-safe. */
public final class ExecutorWatch extends SparkListener {
  private final Set<String> removed = new HashSet<>();

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
