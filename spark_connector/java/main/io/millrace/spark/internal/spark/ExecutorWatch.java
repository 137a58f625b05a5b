package io.millrace.spark.internal.spark;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** Remembers which executors Spark has lost, and tells of the ends of tasks and of the application. Thread-safe. */
public final class ExecutorWatch extends SparkListener {
  private final Runnable onApplicationEnd;
  private final Runnable onTaskEnd;
  private final Set<String> removed = new HashSet<>();

  /** Both are called on a thread of Spark's and must not block; {@code onApplicationEnd} once. */
  ExecutorWatch(Runnable onApplicationEnd, Runnable onTaskEnd) {
    this.onApplicationEnd = onApplicationEnd;
    this.onTaskEnd = onTaskEnd;
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    onApplicationEnd.run();
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    onTaskEnd.run();
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
