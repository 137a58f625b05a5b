package io.millrace.spark.internal.base;

import java.util.concurrent.TimeUnit;

/**
 * Says that something has changed, to threads that look what it is.
 *
 * <pre>{@code
 * for (long seen = signal.count(); !isOver(); seen = signal.await(seen, 1000)) {}
 * }</pre>
 *
 * Thread-safe.
 */
public final class ChangeSignal {
  private long count;

  public synchronized void raise() {
    count++;
    notifyAll();
  }

  /** How often it was raised: to be asked before one looks. */
  public synchronized long count() {
    return count;
  }

  /** Waits until it is raised, without end, if it was not since it said {@code seen}; returns how often it was. */
  public synchronized long await(long seen) throws InterruptedException {
    while (count == seen) {
      wait();
    }
    return count;
  }

  /** Waits until it is raised, if it was not since it said {@code seen}; returns how often it was. */
  public synchronized long await(long seen, long millis) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    for (long left = millis; count == seen && left > 0; ) {
      wait(left);
      left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
    }
    return count;
  }
}
