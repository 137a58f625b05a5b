package io.millrace.spark.internal.base;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.util.Collections;

/** What the interrupt of a thread that waits becomes. */
public final class Interrupts {
  private Interrupts() {}

  /**
   * CANCELLED, whose cause is the interrupt; the flag of this thread is set again. Ask {@link #isCauseOf} and not
   * the flag: a thread of Spark's streams (UninterruptibleThread, seen in 3.5.9) ignores what it does to itself
   * until the interrupt() of the other thread has returned.
   */
  public static MillraceException cancelled(String message, InterruptedException interrupt) {
    Thread.currentThread().interrupt();
    return new MillraceException(
        StatusCode.CANCELLED, message, "", "", Collections.<String>emptyList(), interrupt);
  }

  /** Whether this is an error since the thread that waited was interrupted. */
  public static boolean isCauseOf(MillraceException error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof InterruptedException) {
        return true;
      }
    }
    return false;
  }
}
