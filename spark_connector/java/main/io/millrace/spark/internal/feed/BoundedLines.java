package io.millrace.spark.internal.feed;

import java.util.concurrent.TimeUnit;

/** Lines about what strangers do, as often as they like: one in ten seconds, which counts the others. */
final class BoundedLines {
  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(10);

  private long next = System.nanoTime();
  private long left;

  /** The line to log, null if it is one too many. */
  String line(String what) {
    long now = System.nanoTime();
    if (now - next < 0) {
      left++;
      return null;
    }
    String line = left == 0 ? what : what + "; " + left + " more like it since the last such line";
    next = now + PAUSE_NANOS;
    left = 0;
    return line;
  }
}
