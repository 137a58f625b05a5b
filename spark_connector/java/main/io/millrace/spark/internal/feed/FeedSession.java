package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.WaitReport;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * The feeder's end of one session (docs/feed_protocol.md, section 4): one partition on its way to one node
 * and, in inference mode, its results on their way back. Made by {@link FeedHub#open}.
 *
 * <pre>{@code
 * FeedSession session = hub.open(target, options);
 * session.send(schema, batch);      // blocks for credit
 * session.finish(rows);
 * session.awaitReceived();          // training: on to the next partition
 * }</pre>
 *
 * Thread-safe; send, finish and nextResult are for one thread at a time. No method touches a socket: what the node
 * says comes in through {@link SessionReplies}.
 *
 * <p>Every wait ends when the session does, when the thread is interrupted (its flag stays set) or the
 * options' {@code cancelled} says so, both of which abort the session with CANCELLED, and after the feed
 * timeout without progress with DEADLINE_EXCEEDED, which says what is missing and leaves the session to the
 * caller. After five seconds without progress, and then ever less often, the hub's log says what is missing. A session
 * that has ended throws {@link SessionState#error}, and FAILED_PRECONDITION if it was done and something was yet to be
 * sent.
 */
public final class FeedSession {
  /** Spark kills a task by a flag alone, unless it is told to interrupt: the flag is looked at so often. */
  private static final long CANCEL_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  /** A wait that has not looked at the time for longer could not have heard the node: its process was stopped. */
  private static final long LONGEST_GAP_NANOS = TimeUnit.SECONDS.toNanos(2);

  private final SessionRecord session;
  private final long openTimeoutNanos;

  /** {@code openTimeoutNanos}: how long each step to the node's first answer may take. */
  FeedSession(SessionRecord session, long openTimeoutNanos) {
    this.session = session;
    this.openTimeoutNanos = openTimeoutNanos;
  }

  long id() {
    return session.id;
  }

  public FeedTarget target() {
    return session.target;
  }

  /** "worker:1, partition 3 (queue 'input')", the head of its error messages. */
  public String place() {
    return session.place();
  }

  public SessionState state() {
    session.lock.lock();
    try {
      return session.state();
    } finally {
      session.lock.unlock();
    }
  }

  boolean isWaitingForRoom() {
    session.lock.lock();
    try {
      return session.window.isWaitingForRoom();
    } finally {
      session.lock.unlock();
    }
  }

  /** Adds to the state's times what was spent on reading rows and on making a batch of them. */
  public void countTimes(long readNanos, long encodedNanos) {
    session.lock.lock();
    try {
      session.sourceNanos += readNanos;
      session.encodeNanos += encodedNanos;
    } finally {
      session.lock.unlock();
    }
  }

  /** {@code listener} is called once the session has ended, on the hub's thread or at once; it must not block. */
  public void whenEnded(Runnable listener) {
    session.closed.thenRun(listener);
  }

  // ---------------------------------------------------------------------------------------- waiting

  /** Throws if the session has ended; {@code doneIsEnd}: DONE is an error too. */
  private void checkOpen(boolean doneIsEnd) {
    boolean well = session.end() == SessionEnd.REVOKED || session.end() == SessionEnd.DONE && !doneIsEnd;
    if (session.isOpen() || well) {
      return;
    }
    if (session.end() == SessionEnd.DONE) {
      throw session.failure(StatusCode.FAILED_PRECONDITION, "the session is done");
    }
    // Thrown by several threads, maybe: each gets its own trace.
    MillraceException error = session.error();
    throw new MillraceException(
        error.code(), error.getMessage(), error.node(), error.exitStatus(), error.stderrLines(), error);
  }

  /** Waits, with the lock, until {@code ready} or the end of the session. */
  private void await(BooleanSupplier ready, boolean doneIsEnd) {
    long began = System.nanoTime();
    long looked = began;
    long missed = 0; // time in which this process was stopped, which is no silence of the node
    WaitReport report = new WaitReport(session.options.feedTimeoutMillis, this::warn);
    while (true) {
      checkOpen(doneIsEnd);
      if (!session.isOpen() || ready.getAsBoolean()) {
        return;
      }
      if (session.options.cancelled.getAsBoolean()) {
        throw cancelled("the task was cancelled");
      }
      long now = System.nanoTime();
      missed += now - looked > LONGEST_GAP_NANOS ? now - looked : 0;
      looked = now;
      long left = session.stageNanos + session.stage.nanos(openTimeoutNanos) + missed - now;
      if (session.answered) {
        long last = session.options.progress.lastNanos();
        long released = session.hub.budget().releasedNanos();
        if (session.window.isWaitingForRoom() && released - last > 0) {
          last = released; // it is not this node that is waited for
        }
        long since = last - began > 0 ? last : began;
        left = since + TimeUnit.MILLISECONDS.toNanos(session.options.feedTimeoutMillis) + missed - now;
        if (left > 0 && report.tell(since, this::missing)) {
          continue;
        }
      }
      if (left > 0) {
        session.hub.flush();
        try {
          session.changed.awaitNanos(Math.min(left, CANCEL_POLL_NANOS));
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw cancelled("the thread that feeds was interrupted");
        }
      } else if (session.answered) {
        throw timeout();
      } else {
        // The servers of CURVE have proven who they are.
        boolean unproven = session.stage.isUnproven() && !session.target.isCurve();
        if (unproven) {
          session.hub.noteUnproven(session.target.nonce);
        }
        session.end(
            SessionEnd.UNANSWERED,
            session.failure(
                unproven ? StatusCode.UNAUTHENTICATED : StatusCode.UNAVAILABLE,
                "no answer of the node at " + session.target.endpoint + ": after "
                    + TimeUnit.NANOSECONDS.toMillis(session.stage.nanos(openTimeoutNanos)) + " ms "
                    + session.stage.seen(session.replyEndpoint, session.target.principal())));
      }
    }
  }

  private MillraceException cancelled(String why) {
    session.end(SessionEnd.ABORTED, session.failure(StatusCode.CANCELLED, why));
    return session.error();
  }

  /** Without the lock meanwhile: the hub's thread needs it, and must not wait for a log. */
  private void warn(String line) {
    session.lock.unlock();
    try {
      session.hub.warn(line);
    } finally {
      session.lock.lock();
    }
  }

  /** What a wait is for, while there is time. */
  private String missing() {
    String node = session.target.node;
    String partition = session.partition();
    boolean inference = session.options.mode == FeedMode.INFERENCE;
    if (!session.accepted) {
      return node + " has not begun to read " + partition + ": " + session.waitPosition + " session(s) before it"
          + (inference
              ? "; inference begins when training on the queue has ended: endFeed, or train with endOfFeed"
              : "");
    }
    if (session.window.isWaitingForRoom()) {
      return "there is no room to send more rows of " + partition + " to " + node + ": " + held();
    }
    return node + " has received " + session.receivedRows + " of " + session.sentRows + " rows sent of " + partition
        + (inference ? " and returned " + session.returnedRows : " and acknowledged " + session.ackedRows);
  }

  private String held() {
    return session.hub.budget().bytes() + " bytes of this process are on their way to nodes that have not received"
        + " them";
  }

  private MillraceException timeout() {
    String lapse = session.options.feedTimeoutMillis / 1000.0 + " s (feed_timeout)";
    String node = session.target.node;
    String partition = session.partition();
    FeedMode mode = session.options.mode;
    String what;
    if (!session.accepted) {
      what =
          node + " did not begin to read " + partition + " for " + lapse + ": " + session.waitPosition
              + " session(s) before it did not advance; the program is not reading this queue in "
              + mode.wireName + " mode"
              + (mode == FeedMode.INFERENCE ? "; one that trains on it does so until endFeed" : "");
    } else if (session.window.isWaitingForRoom()) {
      what = "no room to send more rows of " + partition + " to " + node + " for " + lapse + ": " + held();
    } else if (mode == FeedMode.INFERENCE) {
      what =
          node + " received " + session.receivedRows + " rows of " + partition + " and returned "
              + session.returnedRows + ", then nothing for " + lapse
              + "; the program must call BatchResults for every batch";
    } else if (session.receivedRows < session.sentRows || session.endRow >= 0 && !session.endReceived) {
      what =
          node + " received no row of " + partition + " for " + lapse + ": " + session.sentRows + " rows sent, "
              + session.receivedRows + " received; the node's process hangs or is starved";
    } else {
      what =
          node + " acknowledged no row of " + partition + " for " + lapse + ": " + session.receivedRows
              + " rows received, " + session.ackedRows + " acknowledged; the program is not calling NextBatch";
    }
    return session.failureSaying(StatusCode.DEADLINE_EXCEEDED, what);
  }

  /**
   * Blocks until the node has said that it knows the session, whether its turn has come or not. Nothing of the
   * partition is lost before: one that ends as UNANSWERED may be opened again.
   */
  public void awaitAnswered() {
    session.lock.lock();
    try {
      await(() -> session.answered, false);
    } finally {
      session.lock.unlock();
    }
  }

  // ---------------------------------------------------------------------------------------- sending

  /**
   * Room in the node's memory for a batch of about {@code bytes} bytes; null if there is none now. A batch that is
   * encoded there is sent before another one gets room. Its bytes may be looked at and written to only between
   * {@link #beginWriting} and {@link #endWriting}, by the thread that calls these.
   */
  public BodyMemory lend(long bytes) {
    session.lock.lock();
    try {
      return session.isOpen() ? session.shared.lend(bytes) : null;
    } finally {
      session.lock.unlock();
    }
  }

  /** False once {@link #beginWriting} is false or throws; looked at without a lock. */
  public boolean wantsRows() {
    return session.wantsRows;
  }

  /**
   * Whether more rows are to be encoded: not if the rest was taken back ({@link #isRevoked}). If so,
   * {@link #endWriting} is to be called soon: the node is not told of the session's end until then.
   */
  public boolean beginWriting() {
    session.lock.lock();
    try {
      if (session.isRevoked()) {
        return false;
      }
      checkOpen(true);
      session.shared.beginWriting();
      return true;
    } finally {
      session.lock.unlock();
    }
  }

  public void endWriting() {
    session.shared.endWriting();
  }

  /** True if the batch may go; otherwise the node is told what is needed, if it is the node's room. */
  private boolean maySend(EncodedBatch batch) {
    long bytes = SendWindow.bytesOf(batch);
    checkSize(batch.rows(), bytes);
    if (!session.accepted || session.isRevoked()) {
      return false;
    }
    if (session.window.fits(bytes)) {
      return session.window.reserve();
    }
    long needed = session.window.need(bytes);
    if (needed > 0) {
      sendCount(FrameType.BLOCKED, needed);
    }
    return false;
  }

  /** A node takes a larger one, or BLOCKED for it, for damage: then it bars every session of this process. */
  private void checkSize(int rows, long bytes) {
    if (bytes > session.options.maxBatchBytes) {
      // A batch is full once it has a megabyte, so it is the last row that is so large.
      long last = session.sentRows + rows - 1;
      throw session.failure(
          StatusCode.INVALID_ARGUMENT,
          (rows == 1 ? "row " + last + " takes " : "rows " + session.sentRows + " to " + last + " take ") + bytes
              + " bytes, and a batch has at most " + session.options.maxBatchBytes + ": cut the values of row " + last
              + " into several rows");
    }
  }

  private void sendCount(FrameType type, long count) {
    session.hub.sendFrame(session.id, type, Counts.encode(count), Collections.<ByteBuffer>emptyList());
  }

  /**
   * Sends a batch as the rows after those sent before; blocks until the node has accepted the session and has
   * credit for it, and until the process has room for it in its budget. The batch is the session's from here on: its
   * memory is reused once the node has it. Once the rest was taken back ({@link #isRevoked}) it goes nowhere.
   *
   * @throws MillraceException INVALID_ARGUMENT if the schema is not that of the batches before, or the batch is larger
   *     than any may be: nothing was sent of it then, and the message names the row
   */
  public void send(ArrowSchema batchSchema, EncodedBatch batch) {
    boolean taken = false;
    session.lock.lock();
    try {
      if (!session.isOpen() || !maySend(batch)) {
        long began = System.nanoTime();
        try {
          await(() -> session.isRevoked() || maySend(batch), true);
        } catch (MillraceException e) {
          session.window.leave();
          throw e;
        } finally {
          session.creditNanos += System.nanoTime() - began;
        }
      }
      if (session.isRevoked()) {
        session.window.leave();
      } else {
        push(batchSchema, batch);
        taken = true;
      }
    } finally {
      session.lock.unlock();
      if (!taken) {
        batch.release();
      }
    }
  }

  /**
   * As {@link #send}, for a thread that must not block: false without credit or room now. The node is told what the
   * batch needs, so it is then the next one to be sent.
   */
  public boolean trySend(ArrowSchema batchSchema, EncodedBatch batch) {
    session.lock.lock();
    try {
      checkOpen(true);
      if (!maySend(batch)) {
        session.window.leave();
        return false;
      }
      push(batchSchema, batch);
      return true;
    } finally {
      session.lock.unlock();
    }
  }

  private void push(ArrowSchema batchSchema, EncodedBatch batch) {
    if (session.schema == null) {
      byte[] message = SchemaMessage.encode(batchSchema);
      if (message.length > FrameHeader.MAX_SCHEMA_BYTES) {
        throw new MillraceException(
            StatusCode.RESOURCE_EXHAUSTED,
            place() + ": the schema takes " + message.length + " bytes, at most " + FrameHeader.MAX_SCHEMA_BYTES
                + " are allowed");
      }
      session.schema = batchSchema;
      session.hub.sendFrame(session.id, FrameType.SCHEMA, message, Collections.<ByteBuffer>emptyList());
    } else if (session.schema != batchSchema && !session.schema.equals(batchSchema)) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT,
          place() + ": the schema changed at row " + session.sentRows + " from " + session.schema + " to "
              + batchSchema);
    }
    byte[] metadata = new BatchPrefix(session.sentRows, batch.rows()).encode(batch.message());
    session.sentRows += batch.rows();
    Room room = session.shared.place(batch);
    if (room == null) {
      session.window.sent(session.sentRows, batch);
      session.hub.sendFrame(session.id, FrameType.BATCH, metadata, batch.parts());
    } else {
      session.window.sentCopy(batch);
      session.hub.sendFrameSoon(session.id, FrameType.PLACED, PlacedPrefix.encode(room, metadata));
    }
  }

  /**
   * Says that the partition has {@code rows} rows, all sent; blocks until the node has accepted it. Nothing is to be
   * said once the rest was taken back.
   */
  public void finish(long rows) {
    session.lock.lock();
    try {
      if (session.isRevoked()) {
        return;
      }
      checkOpen(true); // what was sent counts no more where the node has ended it
      if (session.endRow >= 0 || rows != session.sentRows) {
        throw new IllegalStateException("finish(" + rows + ") after " + session.sentRows + " rows");
      }
      await(() -> session.accepted, true);
      if (session.isRevoked()) {
        return;
      }
      session.endRow = rows;
      session.window.sentEnd();
      sendCount(FrameType.END_PARTITION, rows);
    } finally {
      session.lock.unlock();
    }
  }

  /**
   * After {@link #finish}: blocks until the node holds every row and knows that these are all, or has given back those
   * that it is not to have.
   */
  public void awaitReceived() {
    session.lock.lock();
    try {
      await(() -> session.endReceived || session.isRevoked(), false);
    } finally {
      session.lock.unlock();
    }
  }

  /** After {@link #finish}: blocks until every row is acknowledged or every result here. */
  public void awaitDone() {
    session.lock.lock();
    try {
      await(() -> false, false);
    } finally {
      session.lock.unlock();
    }
  }

  // ------------------------------------------------------------------------------------ taking back

  /**
   * Training: asks the node to give back what its program was not given, if that were no more than the rows before
   * {@code maxRow}. It need not answer. Nothing happens before the session is accepted, once it has ended, and the
   * second time.
   */
  public void revoke(long maxRow) {
    session.lock.lock();
    try {
      if (session.isOpen() && session.accepted && !session.revoking && !session.isRevoked()) {
        session.revoking = true;
        sendCount(FrameType.REVOKE, maxRow);
      }
    } finally {
      session.lock.unlock();
    }
  }

  /** Whether the node has given rows back: nothing more is to be sent. The session ends as REVOKED, or is lost. */
  public boolean isRevoked() {
    session.lock.lock();
    try {
      return session.isRevoked();
    } finally {
      session.lock.unlock();
    }
  }

  // ---------------------------------------------------------------------------------------- results

  /** What a thread that feeds and reads results at once can do next. */
  public enum Ready {
    /** {@link #nextResult} would not block. */
    RESULT,
    /** {@link #trySend} would succeed. */
    SEND,
    /** Every result was taken. */
    DONE
  }

  /**
   * Blocks until something can be done; results come first, so that they do not pile up.
   *
   * @param next the batch to be sent next; null if there is none
   */
  public Ready awaitReady(EncodedBatch next) {
    session.lock.lock();
    try {
      try {
        await(() -> !session.results.isEmpty() || next != null && maySend(next), false);
      } catch (MillraceException e) {
        session.window.leave();
        throw e;
      }
      if (!session.results.isEmpty()) {
        session.window.leave(); // whoever takes them may take their time
        return Ready.RESULT;
      }
      return session.end() == SessionEnd.DONE ? Ready.DONE : Ready.SEND;
    } finally {
      session.lock.unlock();
    }
  }

  /** The next results in row order, null after the last. Blocks; decodes in the calling thread. */
  public FeedResult nextResult() {
    ResultQueue.Pending result;
    session.lock.lock();
    try {
      await(() -> !session.results.isEmpty(), false);
      result = session.results.poll(); // under the same lock: an end of the session takes them away
      if (result == null) {
        return null;
      }
      long resultLimit = session.isOpen() ? session.results.raiseLimit() : 0;
      if (resultLimit > 0) {
        sendCount(FrameType.RESULT_CREDIT, resultLimit);
      }
    } finally {
      session.lock.unlock();
    }
    try {
      return result.decode();
    } catch (BadInputException e) {
      session.hub.poison(session.target.principal(), "RESULT: " + e.getMessage());
      MillraceException failure =
          session.failure(
              StatusCode.DATA_LOSS,
              "the result for row " + result.prefix.firstRow + " does not decode: " + e.getMessage());
      session.endNow(SessionEnd.BAD_PEER, failure);
      throw failure;
    }
  }

  /** Bytes of results that have arrived and were not taken. */
  public long unreadBytes() {
    session.lock.lock();
    try {
      return session.results.unreadBytes();
    } finally {
      session.lock.unlock();
    }
  }

  // ----------------------------------------------------------------------------------------- ending

  /** Ends the session and tells the node, if it can be told. Nothing happens if it has ended already. */
  public void abort(StatusCode code, String message) {
    session.endNow(SessionEnd.ABORTED, session.failure(code, message));
  }
}
