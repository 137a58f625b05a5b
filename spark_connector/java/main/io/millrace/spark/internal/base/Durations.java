package io.millrace.spark.internal.base;

import java.time.Duration;
import java.time.temporal.ChronoUnit;

/** Durations as the wire has them. */
public final class Durations {
  /** Without end. */
  public static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();

  // What the coordinator takes at most.
  private static final Duration CENTURY = Duration.ofDays(100 * 365);

  private Durations() {}

  /** Whole milliseconds, rounded up, so that what is above 0 stays so; -1, without end, for more than a century. */
  public static long millis(Duration duration) {
    if (duration.compareTo(CENTURY) > 0) {
      return -1;
    }
    return duration.plusNanos(999_999).toMillis();
  }
}
