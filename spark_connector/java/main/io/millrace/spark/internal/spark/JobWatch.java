package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.ChangeSignal;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * Ends a job that feeds when there has been no node to feed for the time of the feed. Its tasks end by themselves then,
 * but they may wait for a core as long as others have them, and so may the node that is to be started again. Has a
 * thread until it is closed.
 */
final class JobWatch implements AutoCloseable {
  private static final long MAX_WAIT_MILLIS = 500;

  private final JavaSparkContext spark;
  private final String tag;
  private final ChangeSignal changes;
  private final Supplier<String> absence;
  private final long timeoutMillis;
  private final Thread thread = new Thread(this::run, "millrace-job-watch");
  // Guarded by this.
  private boolean closed;
  private MillraceException error;

  /**
   * Begins to watch the jobs that have this tag.
   *
   * @param changes raised when nodes may have changed
   * @param absence says which nodes are yet to come, null if one can be fed or none will come; called on the thread
   */
  JobWatch(
      JavaSparkContext spark, String tag, ChangeSignal changes, Supplier<String> absence, long timeoutMillis) {
    this.spark = spark;
    this.tag = tag;
    this.changes = changes;
    this.absence = absence;
    this.timeoutMillis = timeoutMillis;
    thread.setDaemon(true);
    thread.start();
  }

  private void run() {
    long since = System.nanoTime();
    while (!isClosed()) {
      long seen = changes.count();
      try {
        String absent = absence.get();
        if (absent == null) {
          since = System.nanoTime();
        } else if (System.nanoTime() - since > TimeUnit.MILLISECONDS.toNanos(timeoutMillis)) {
          end(absent);
          return;
        }
        changes.await(seen, MAX_WAIT_MILLIS);
      } catch (InterruptedException e) {
        return; // closed
      } catch (MillraceException | IllegalStateException e) {
        return; // coordinator or Spark are gone, which the job's own thread is told
      }
    }
  }

  private synchronized boolean isClosed() {
    return closed;
  }

  private synchronized void end(String absent) {
    if (!closed) {
      error = new MillraceException(StatusCode.DEADLINE_EXCEEDED, absent);
      spark.sc().cancelJobsWithTag(tag);
    }
  }

  /** Throws why this has ended the job, if it has. */
  synchronized void failIfEnded() {
    if (error != null) {
      throw JobErrors.again(error);
    }
  }

  @Override
  public synchronized void close() {
    closed = true;
    thread.interrupt();
  }
}
