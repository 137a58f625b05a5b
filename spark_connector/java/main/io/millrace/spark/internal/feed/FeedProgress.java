package io.millrace.spark.internal.feed;

/**
 * When something last moved between this process and a node. Sessions of one call with one node share it,
 * since a queue that serves many sessions in turn acknowledges each of them rarely. Thread-safe.
 */
public final class FeedProgress {
  private volatile long lastNanos = System.nanoTime();

  void advance() {
    lastNanos = System.nanoTime();
  }

  long lastNanos() {
    return lastNanos;
  }
}
