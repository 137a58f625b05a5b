package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Where a session stands. Both its sides use it: the task that feeds, through {@link FeedSession}, and the hub's
 * thread, through {@link SessionReplies}.
 *
 * <p>Whoever reads or changes what is not final holds {@link #lock}; methods that take it say so.
 */
final class SessionRecord {
  final FeedHub hub;
  final long id;
  final FeedTarget target;
  final SessionOptions options;
  /** Completed by the hub once it has forgotten the session, which has ended. */
  final CompletableFuture<Void> closed = new CompletableFuture<>();

  final ReentrantLock lock = new ReentrantLock();
  /** Signalled when the node has said something, and at the end. */
  final Condition changed = lock.newCondition();
  // All below are guarded by lock.
  OpenStage stage = OpenStage.CONNECTING;
  long stageNanos = System.nanoTime();
  String replyEndpoint = ""; // that OPEN named
  boolean accepted;
  boolean answered; // CREDIT or WAIT was seen
  long sentRows;
  long receivedRows;
  long ackedRows;
  long returnedRows;
  long endRow = -1; // once finish() was called
  boolean endReceived;
  long waitPosition;
  long waitProgress;
  ArrowSchema schema; // of what is sent, once SCHEMA went out
  final SendWindow window;
  final SharedRooms shared = new SharedRooms(this);
  final ResultQueue results = new ResultQueue();
  boolean revoking; // REVOKE went out
  long revokedRow = -1; // once the node has given back what follows it
  long sourceNanos;
  long encodeNanos;
  long creditNanos;
  long wireNanos;
  private SessionEnd end = SessionEnd.OPEN;
  private MillraceException error;
  /** Whether it is open and has not given rows back; changed with the lock, read without. */
  volatile boolean wantsRows = true;

  SessionRecord(FeedHub hub, long id, FeedTarget target, SessionOptions options) {
    this.hub = hub;
    this.id = id;
    this.target = target;
    this.options = options;
    sentRows = receivedRows = ackedRows = returnedRows = options.firstRow;
    window = new SendWindow(hub.budget().share(options.budgetBytes, () -> hub.later(this::signal)));
  }

  /** Whoever waits for something looks again. Takes the lock. */
  private void signal() {
    lock.lock();
    try {
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** "partition 3 (queue 'input')". */
  String partition() {
    return "partition " + options.partition + " (queue '" + options.queue + "')";
  }

  /** "worker:1, partition 3 (queue 'input')", the head of its error messages. */
  String place() {
    return target.node + ", " + partition();
  }

  /** An error that names the place. */
  MillraceException failure(StatusCode code, String message) {
    return failureSaying(code, place() + ": " + message);
  }

  MillraceException failureSaying(StatusCode code, String message) {
    return new MillraceException(code, message, target.node, "", Collections.<String>emptyList(), null);
  }

  boolean isOpen() {
    return end == SessionEnd.OPEN;
  }

  boolean isRevoked() {
    return revokedRow >= 0;
  }

  SessionEnd end() {
    return end;
  }

  /** Why it ended; null for OPEN and DONE. */
  MillraceException error() {
    return error;
  }

  SessionState state() {
    return new SessionState(
        accepted, sentRows, receivedRows, ackedRows, returnedRows, waitPosition, end, error, sourceNanos, encodeNanos,
        creditNanos, wireNanos);
  }

  /** Ends it, unless it has ended, and tells the node, unless it knows. */
  void end(SessionEnd how, MillraceException why) {
    if (end != SessionEnd.OPEN) {
      return;
    }
    end = how;
    error = why;
    wantsRows = false;
    if (how == SessionEnd.DONE) {
      window.releaseUpTo(Long.MAX_VALUE);
    } else {
      results.clear(); // those of an incomplete partition are worth nothing
      window.forget();
    }
    window.leave();
    boolean vacates = shared.hadRoom() && endRow < 0 || shared.hadResults();
    boolean tell =
        vacates || how == SessionEnd.ABORTED || how == SessionEnd.BAD_PEER || how == SessionEnd.UNANSWERED;
    byte[] abort = tell ? abort(why) : null;
    shared.end(() -> hub.closeSession(id, abort, how == SessionEnd.UNANSWERED));
    changed.signalAll();
  }

  private static byte[] abort(MillraceException why) {
    return why == null
        ? Messages.encodeError(StatusCode.CANCELLED, "every result is here")
        : Messages.encodeError(why.code(), why.getMessage());
  }

  /** As {@link #end(SessionEnd, MillraceException)}; takes the lock. */
  void endNow(SessionEnd how, MillraceException why) {
    lock.lock();
    try {
      end(how, why);
    } finally {
      lock.unlock();
    }
  }
}
