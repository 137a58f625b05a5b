package io.millrace.spark.internal.base;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * What a log is to say while a thread waits: one line after five seconds, and others after pauses of 10 s, 20 s and so
 * on. For one thread.
 *
 * <pre>{@code
 * WaitReport report = new WaitReport(timeoutMillis);
 * while (!isOver()) {
 *   String line = report.line(began, () -> "worker:0 has not come");
 *   if (line != null) {
 *     LOG.warn(line);
 *   }
 *   pause();
 * }
 * }</pre>
 */
public final class WaitReport {
  private static final long FIRST_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final long timeoutMillis;
  private final LongSupplier nanoTime;
  private long since;
  private long pause = FIRST_NANOS;
  private long due = FIRST_NANOS;

  /** {@code timeoutMillis}: the feed_timeout after which the thread gives up; -1: it does not. */
  public WaitReport(long timeoutMillis) {
    this(timeoutMillis, System::nanoTime);
  }

  WaitReport(long timeoutMillis, LongSupplier nanoTime) {
    this.timeoutMillis = timeoutMillis;
    this.nanoTime = nanoTime;
  }

  /**
   * The line that is due now; null if none is.
   *
   * @param sinceNanos when the wait began, or when something last moved, as System.nanoTime() had it; another one than
   *     that of the call before begins anew
   * @param missing what is waited for; asked only if a line is due
   */
  public String line(long sinceNanos, Supplier<String> missing) {
    if (sinceNanos != since) {
      since = sinceNanos;
      pause = FIRST_NANOS;
      due = FIRST_NANOS;
    }
    long waited = nanoTime.getAsLong() - since;
    if (waited < due) {
      return null;
    }
    pause *= 2;
    due = waited + pause;
    String line = missing.get() + "; waited " + TimeUnit.NANOSECONDS.toSeconds(waited) + " s so far";
    return timeoutMillis < 0 ? line : line + ", at most " + timeoutMillis / 1000.0 + " s (feed_timeout)";
  }
}
