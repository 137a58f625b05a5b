package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.util.Collections;

/** What a Spark job's error means. */
public final class JobErrors {
  private JobErrors() {}

  /** The error of this connector's that is in a job's, null if there is none. */
  public static MillraceException find(Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof MillraceException) {
        return (MillraceException) at;
      }
    }
    return null;
  }

  static boolean isCancelled(Throwable error) {
    String text = String.valueOf(error.getMessage());
    return text.contains("cancelled");
  }

  /**
   * The error of a job of ours.
   *
   * @param firstCause of the cluster; null if it has not failed
   */
  static MillraceException typed(Throwable error, MillraceException firstCause) {
    if (firstCause != null) {
      return again(firstCause);
    }
    MillraceException inside = find(error);
    if (inside != null) {
      return again(inside);
    }
    StatusCode code = isCancelled(error) ? StatusCode.CANCELLED : StatusCode.ABORTED;
    return new MillraceException(
        code, "Spark's job failed: " + error.getMessage(), "", "", Collections.<String>emptyList(), error);
  }

  /** The same error, with a trace of the calling thread. */
  public static MillraceException again(MillraceException error) {
    return new MillraceException(
        error.code(), error.getMessage(), error.node(), error.exitStatus(), error.stderrLines(), error);
  }
}
