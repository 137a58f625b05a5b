package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.base.ChangeSignal;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * Remembers which executors Spark has lost, and tells of those that come and go, and of the ends of tasks and of the
 * application. Thread-safe.
 */
public final class ExecutorWatch extends SparkListener {
  private final Runnable onApplicationEnd;
  private final Runnable onEnd;
  private final ChangeSignal changes = new ChangeSignal();
  // Guarded by this.
  private final Set<String> removed = new HashSet<>();

  /**
   * Both are called on a thread of Spark's and must not block.
   *
   * @param onApplicationEnd called once
   * @param onEnd called when a task has ended, and when an executor was lost
   */
  ExecutorWatch(Runnable onApplicationEnd, Runnable onEnd) {
    this.onApplicationEnd = onApplicationEnd;
    this.onEnd = onEnd;
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    onApplicationEnd.run();
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    onEnd.run();
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    changes.raise();
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    synchronized (this) {
      removed.add(event.executorId());
    }
    changes.raise();
    onEnd.run();
  }

  /** Raised when Spark has another executor, or one less. */
  ChangeSignal changes() {
    return changes;
  }

  synchronized boolean isRemoved(String executorId) {
    return removed.contains(executorId);
  }

  synchronized int removals() {
    return removed.size();
  }
}
