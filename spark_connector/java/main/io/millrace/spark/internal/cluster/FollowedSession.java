package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.PartitionState;
import io.millrace.spark.internal.feed.SessionEnd;
import io.millrace.spark.internal.feed.SessionState;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A session of which the ledger is told: that it begins, each second how far it came, and how it ended. The task that
 * feeds says what it knows; the thread of the {@link ExecutorSite} tells, one report after the other.
 *
 * <p>Thread-safe, except where said.
 */
public final class FollowedSession {
  private static final Logger LOG = LoggerFactory.getLogger(FollowedSession.class);
  private final Runnable wake;
  private final Function<Params, CompletableFuture<JsonObject>> sender;
  private final FeedSession session;
  private final PartitionReport report;
  private volatile CompletableFuture<JsonObject> begun;
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private volatile boolean beginning; // awaitBegun() is at it
  private volatile boolean known;
  private volatile boolean received;
  private volatile boolean takenOver;
  // The site's thread alone has these.
  private CompletableFuture<JsonObject> answer;
  private boolean isLast; // what is told now
  private boolean toldReceived;
  private long toldRows;
  private long toldAcked;
  private final Retries retries = Retries.patient("report"); // of the end
  private boolean untold; // the end could not be told
  private long untoldNanos;

  /** Tells the beginning. {@code wake} asks the thread that tells; {@code sender} sends a report. */
  FollowedSession(
      Runnable wake,
      Function<Params, CompletableFuture<JsonObject>> sender,
      FeedSession session,
      PartitionReport report) {
    this.wake = wake;
    this.sender = sender;
    this.session = session;
    this.report = report;
    begun = tellBeginning();
    session.whenEnded(wake);
  }

  private CompletableFuture<JsonObject> tellBeginning() {
    return sender.apply(report.params(PartitionState.FEEDING, session.state()));
  }

  /**
   * Waits until the ledger has the beginning: no row may go before.
   *
   * @return false if another attempt has taken the partition over
   * @throws MillraceException if the ledger cannot be told
   */
  public boolean awaitBegun() {
    beginning = true; // the end is told after it
    try {
      tellBegun();
    } catch (MillraceException e) {
      takenOver = e.code() == StatusCode.ABORTED;
      if (takenOver) {
        return false;
      }
      throw e;
    } finally {
      beginning = false;
    }
    return true;
  }

  private void tellBegun() {
    Retries retried = Retries.patient("report");
    while (true) {
      try {
        ControlChild.await(begun, "report");
        return;
      } catch (MillraceException e) {
        if (ended.isDone() || !retried.mayGoOn(e)) {
          throw e;
        }
        retried.pause(e);
        begun = tellBeginning();
      }
    }
  }

  /** Whether the ledger has said that it knows of the session. */
  public boolean isKnown() {
    return known || begun.isDone() && !begun.isCompletedExceptionally();
  }

  /** The node holds every row that it is to have: the task has ended well. */
  public void setReceived() {
    received = true;
  }

  boolean isReceived() {
    return received;
  }

  PartitionReport report() {
    return report;
  }

  public SessionState state() {
    return session.state();
  }

  /** Another node is to have what this one was not given. What comes of it is told as the session's end. */
  void takeBack() {
    if (report.isMovable()) {
      session.revoke(report.maxRow());
    }
  }

  /** Another attempt feeds the partition: this session was ended. */
  public boolean isTakenOver() {
    return takenOver;
  }

  /** After the end of the session: waits until the ledger knows, or an interrupt; it is told anyway. */
  public void awaitEndTold() {
    wake.run();
    try {
      ended.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException e) {
      throw new IllegalStateException(e); // nobody ends it so
    }
  }

  /**
   * Sends what there is to tell; returns whether it did. For the site's thread.
   *
   * @param progress whether rows are a reason, and not only the end
   */
  boolean tell(boolean progress) {
    if (!begun.isDone() || beginning || untold && System.nanoTime() - untoldNanos < Retries.pauseNanos()) {
      return false;
    }
    boolean all = received;
    SessionState state = session.state();
    isLast = state.end != SessionEnd.OPEN;
    boolean news = all != toldReceived || state.ackedRows > toldAcked || state.receivedRows > toldRows;
    if (!isLast && !(progress && news)) {
      return false;
    }
    toldReceived = all;
    toldAcked = state.ackedRows;
    toldRows = state.receivedRows;
    try {
      answer = sender.apply(report.params(stateOf(state.end, all), state));
    } catch (MillraceException e) {
      answer = new CompletableFuture<>();
      answer.completeExceptionally(e);
    }
    return true;
  }

  private static PartitionState stateOf(SessionEnd end, boolean received) {
    switch (end) {
      case OPEN:
        return received ? PartitionState.RECEIVED : PartitionState.FEEDING;
      case DONE:
        return PartitionState.DONE;
      default:
        return PartitionState.FAILED;
    }
  }

  /** Waits for the answer to what was told; returns whether all was told. For the site's thread. */
  boolean awaitAnswer() {
    MillraceException unknown = null;
    try {
      ControlChild.await(answer, "report");
      known = true;
    } catch (MillraceException e) {
      // No answer came: the agent of another node has ended, or has no connection just now, or all of the cluster has
      // ended.
      LOG.debug("the ledger did not take a partition: {}", e.getMessage());
      unknown = e;
      if (e.code() == StatusCode.ABORTED && !isLast) {
        takenOver = true;
        session.abort(StatusCode.ABORTED, "another attempt has taken the partition over");
      }
    }
    if (!isLast) {
      return false;
    }
    untold = unknown != null && retries.mayGoOn(unknown); // nobody else tells of its end
    if (untold) {
      untoldNanos = System.nanoTime();
      return false;
    }
    ended.complete(null);
    return true;
  }
}
