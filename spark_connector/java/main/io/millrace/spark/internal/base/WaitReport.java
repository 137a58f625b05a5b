package io.millrace.spark.internal.base;

import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * What a log is to say while a thread waits: one line after five seconds, and others after pauses of 10 s, 20 s and so
 * on. For one thread.
 *
 * <pre>{@code
 * WaitReport report = new WaitReport(timeoutMillis, LOG::warn);
 * while (!isOver()) {
 *   report.tell(began, () -> "worker:0 has not come");
 *   pause();
 * }
 * }</pre>
 */
public final class WaitReport {
  private static final long FIRST_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final long timeoutMillis;
  private final Consumer<String> log;
  private final LongSupplier nanoTime;
  private long since;
  private long pause = FIRST_NANOS;
  private long due = FIRST_NANOS;

  /**
   * A report of one wait.
   *
   * @param timeoutMillis the feed_timeout after which the thread gives up; -1: it does not
   * @param log takes the lines
   */
  public WaitReport(long timeoutMillis, Consumer<String> log) {
    this(timeoutMillis, log, System::nanoTime);
  }

  WaitReport(long timeoutMillis, Consumer<String> log, LongSupplier nanoTime) {
    this.timeoutMillis = timeoutMillis;
    this.log = log;
    this.nanoTime = nanoTime;
  }

  /**
   * Tells the line that is due now; returns false if none is.
   *
   * @param sinceNanos when the wait began, or when something last moved, as System.nanoTime() had it; another one than
   *     that of the call before begins anew
   * @param missing what is waited for; asked only if a line is due
   */
  public boolean tell(long sinceNanos, Supplier<String> missing) {
    if (sinceNanos != since) {
      since = sinceNanos;
      pause = FIRST_NANOS;
      due = FIRST_NANOS;
    }
    long waited = nanoTime.getAsLong() - since;
    if (waited < due) {
      return false;
    }
    pause *= 2;
    due = waited + pause;
    String line = missing.get() + "; waited " + TimeUnit.NANOSECONDS.toSeconds(waited) + " s so far";
    log.accept(timeoutMillis < 0 ? line : line + ", at most " + timeoutMillis / 1000.0 + " s (feed_timeout)");
    return true;
  }
}
