package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Interrupts;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long one request to the coordinator is made again that brought no answer. It may be made twice: the coordinator
 * takes each as if it came once. For one thread.
 */
final class Retries {
  private static final Logger LOG = LoggerFactory.getLogger(Retries.class);
  /** Agents, and then gateways, that may end one after the other while one request is under way. */
  private static final int MAX_WAYS = 5;
  /** A coordinator may be stopped for so long, or out of reach. */
  private static final long PATIENCE_NANOS = TimeUnit.MINUTES.toNanos(2);
  private static final long PAUSE_MILLIS = 100;

  private final String what;
  private final long patienceNanos;
  private int ways = 1;
  private long began; // of failures; 0: none so far

  private Retries(String what, long patienceNanos) {
    this.what = what;
    this.patienceNanos = patienceNanos;
  }

  /** {@code what}: for the log, such as "report". */
  static Retries patient(String what) {
    return new Retries(what, PATIENCE_NANOS);
  }

  /** Of a request that may be left out: only another way is tried. */
  static Retries impatient(String what) {
    return new Retries(what, 0);
  }

  /** Whether there was no connection, in gRPC's words. */
  static boolean isUnreachable(MillraceException e) {
    return e.code() == StatusCode.UNAVAILABLE && e.getMessage().startsWith("failed to connect");
  }

  /** Whether nobody listens there: one that is stopped, or cut off, does not refuse. */
  private static boolean isRefused(MillraceException e) {
    return isUnreachable(e) && e.getMessage().contains("Connection refused");
  }

  /** Whether the request is to be made again after it has failed so: at once, or after {@link #pause}. */
  boolean mayGoOn(MillraceException e) {
    if (e.code() != StatusCode.UNAVAILABLE || isRefused(e)) {
      return false;
    }
    if (ControlChild.hasEnded(e)) {
      // A node has finished, and its agent with it, or an agent was killed: there is another way.
      return ++ways <= MAX_WAYS;
    }
    if (patienceNanos == 0) {
      return false;
    }
    long now = System.nanoTime();
    if (began == 0) {
      LOG.warn("{}: the coordinator does not answer, and is asked again: {}", what, e.getMessage());
      began = now;
    }
    return now - began < patienceNanos;
  }

  /** Waits for a moment, unless only the way there had ended. Interruptible: CANCELLED, the flag stays set. */
  void pause(MillraceException e) {
    if (ControlChild.hasEnded(e)) {
      return;
    }
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException interrupt) {
      throw Interrupts.cancelled(what + ": interrupted", interrupt);
    }
  }

  /** As {@link #pause}, for those who do something else meanwhile. */
  static long pauseNanos() {
    return TimeUnit.MILLISECONDS.toNanos(PAUSE_MILLIS);
  }
}
