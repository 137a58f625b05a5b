package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
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
 * Thread-safe; send, finish and nextResult are for one thread at a time. No method touches a socket.
 *
 * <p>Every wait ends when the session does, when the thread is interrupted (its flag stays set) or the
 * options' {@code cancelled} says so, both of which abort the session with CANCELLED, and after the feed
 * timeout without progress with DEADLINE_EXCEEDED, which says what is missing and leaves the session to the
 * caller. A session that has ended throws {@link SessionState#error}, and FAILED_PRECONDITION if it was done
 * and something was yet to be sent.
 */
public final class FeedSession {
  private static final long CANCEL_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final FeedHub hub;
  private final long id;
  private final FeedTarget target;
  private final SessionOptions options;
  private final long openTimeoutNanos;

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  // All below are guarded by lock.
  private OpenStage stage = OpenStage.CONNECTING;
  private long stageNanos = System.nanoTime();
  private boolean accepted;
  private boolean answered; // CREDIT or WAIT was seen
  private long sentRows;
  private long receivedRows;
  private long ackedRows;
  private long returnedRows;
  private long endRow = -1; // once finish() was called
  private boolean endReceived;
  private long waitPosition;
  private long waitProgress;
  private SessionEnd end = SessionEnd.OPEN;
  private MillraceException error;
  private final SendWindow window = new SendWindow();
  private ArrowSchema schema; // of what is sent, once SCHEMA went out
  private final ResultQueue results = new ResultQueue();
  private boolean revoking; // REVOKE went out
  private long revokedRow = -1; // once the node has given back what follows it
  private long sourceNanos;
  private long encodeNanos;
  private long creditNanos;
  private long wireNanos;

  FeedSession(FeedHub hub, long id, FeedTarget target, SessionOptions options, long openTimeoutNanos) {
    this.hub = hub;
    this.id = id;
    this.target = target;
    this.options = options;
    this.openTimeoutNanos = openTimeoutNanos;
    sentRows = receivedRows = ackedRows = returnedRows = options.firstRow;
  }

  long id() {
    return id;
  }

  public FeedTarget target() {
    return target;
  }

  SessionOptions options() {
    return options;
  }

  /** "worker:1, partition 3 (queue 'input')", the head of its error messages. */
  public String place() {
    return target.node + ", partition " + options.partition + " (queue '" + options.queue + "')";
  }

  public SessionState state() {
    lock.lock();
    try {
      return new SessionState(
          accepted, sentRows, receivedRows, ackedRows, returnedRows, waitPosition, end, error, sourceNanos,
          encodeNanos, creditNanos, wireNanos);
    } finally {
      lock.unlock();
    }
  }

  /** Adds to the state's times what was spent on reading rows and on making a batch of them. */
  public void countTimes(long readNanos, long encodedNanos) {
    lock.lock();
    try {
      sourceNanos += readNanos;
      encodeNanos += encodedNanos;
    } finally {
      lock.unlock();
    }
  }

  void countWire(long nanos) {
    lock.lock();
    try {
      wireNanos += nanos;
    } finally {
      lock.unlock();
    }
  }

  private MillraceException failure(StatusCode code, String message) {
    return new MillraceException(code, message, target.node, "", Collections.<String>emptyList(), null);
  }

  // ---------------------------------------------------------------------------------------- waiting

  /** Throws if the session has ended; {@code doneIsEnd}: DONE is an error too. */
  private void checkOpen(boolean doneIsEnd) {
    boolean well = end == SessionEnd.REVOKED || end == SessionEnd.DONE && !doneIsEnd;
    if (end == SessionEnd.OPEN || well) {
      return;
    }
    if (end == SessionEnd.DONE) {
      throw failure(StatusCode.FAILED_PRECONDITION, place() + ": the session is done");
    }
    // Thrown by several threads, maybe: each gets its own trace.
    throw new MillraceException(
        error.code(), error.getMessage(), error.node(), error.exitStatus(), error.stderrLines(), error);
  }

  /** Waits, with the lock, until {@code ready} or the end of the session. */
  private void await(BooleanSupplier ready, boolean doneIsEnd) {
    long began = System.nanoTime();
    while (true) {
      checkOpen(doneIsEnd);
      if (end != SessionEnd.OPEN || ready.getAsBoolean()) {
        return;
      }
      if (options.cancelled.getAsBoolean()) {
        throw cancelled("the task was cancelled");
      }
      long now = System.nanoTime();
      long left = stageNanos + openTimeoutNanos - now;
      if (answered) {
        long last = options.progress.lastNanos();
        long since = last - began > 0 ? last : began;
        left = since + TimeUnit.MILLISECONDS.toNanos(options.feedTimeoutMillis) - now;
      }
      if (left > 0) {
        try {
          changed.awaitNanos(Math.min(left, CANCEL_POLL_NANOS));
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw cancelled("the thread that feeds was interrupted");
        }
      } else if (answered) {
        throw timeout();
      } else {
        // The servers of CURVE have proven who they are.
        boolean unproven = stage == OpenStage.OPENED && !target.isCurve();
        if (unproven) {
          hub.noteUnproven(target.nonce);
        }
        endLocked(
            SessionEnd.UNANSWERED,
            failure(
                unproven ? StatusCode.UNAUTHENTICATED : StatusCode.UNAVAILABLE,
                place() + ": no answer of the node at " + target.endpoint + ": after "
                    + TimeUnit.NANOSECONDS.toMillis(openTimeoutNanos) + " ms " + stage.seen));
      }
    }
  }

  private MillraceException cancelled(String why) {
    endLocked(SessionEnd.ABORTED, failure(StatusCode.CANCELLED, place() + ": " + why));
    return error;
  }

  private MillraceException timeout() {
    String lapse = options.feedTimeoutMillis / 1000.0 + " s (feed_timeout)";
    String partition = "partition " + options.partition + " (queue '" + options.queue + "')";
    String what;
    if (!accepted) {
      what =
          target.node + " did not begin to read " + partition + " for " + lapse + ": " + waitPosition
              + " session(s) before it did not advance; the program is not reading this queue in "
              + options.mode.wireName + " mode"
              + (options.mode == FeedMode.INFERENCE ? "; one that trains on it does so until endFeed" : "");
    } else if (options.mode == FeedMode.INFERENCE) {
      what =
          target.node + " received " + receivedRows + " rows of " + partition + " and returned " + returnedRows
              + ", then nothing for " + lapse + "; the program must call BatchResults for every batch";
    } else if (receivedRows < sentRows || endRow >= 0 && !endReceived) {
      what =
          target.node + " received no row of " + partition + " for " + lapse + ": " + sentRows + " rows sent, "
              + receivedRows + " received; the node's process hangs or is starved";
    } else {
      what =
          target.node + " acknowledged no row of " + partition + " for " + lapse + ": " + receivedRows
              + " rows received, " + ackedRows + " acknowledged; the program is not calling NextBatch";
    }
    return failure(StatusCode.DEADLINE_EXCEEDED, what);
  }

  /**
   * Blocks until the node has said that it knows the session, whether its turn has come or not. Nothing of the
   * partition is lost before: one that ends as UNANSWERED may be opened again.
   */
  public void awaitAnswered() {
    lock.lock();
    try {
      await(() -> answered, false);
    } finally {
      lock.unlock();
    }
  }

  // ---------------------------------------------------------------------------------------- sending

  /** True if a batch of that size may go; otherwise the node is told what is needed. */
  private boolean hasCredit(long bytes) {
    if (!accepted || isRevokedLocked()) {
      return false;
    }
    if (window.fits(bytes)) {
      return true;
    }
    long needed = window.need(bytes);
    if (needed > 0) {
      sendCount(FrameType.BLOCKED, needed);
    }
    return false;
  }

  private void sendCount(FrameType type, long count) {
    hub.sendFrame(this, type, Counts.encode(count), Collections.<ByteBuffer>emptyList());
  }

  /**
   * Sends a batch as the rows after those sent before; blocks until the node has accepted the session and has
   * credit for it. The batch is the session's from here on: its memory is reused once the node has it. Once the rest
   * was taken back ({@link #isRevoked}) it goes nowhere.
   *
   * @throws MillraceException INVALID_ARGUMENT if the schema is not that of the batches before
   */
  public void send(ArrowSchema batchSchema, EncodedBatch batch) {
    lock.lock();
    try {
      if (end != SessionEnd.OPEN || !hasCredit(SendWindow.bytesOf(batch))) {
        long began = System.nanoTime();
        try {
          await(() -> isRevokedLocked() || hasCredit(SendWindow.bytesOf(batch)), true);
        } finally {
          creditNanos += System.nanoTime() - began;
        }
      }
      if (isRevokedLocked()) {
        batch.release();
      } else {
        push(batchSchema, batch);
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * As {@link #send}, for a thread that must not block: false without credit now. The node is told what the batch
   * needs, so it is then the next one to be sent.
   */
  public boolean trySend(ArrowSchema batchSchema, EncodedBatch batch) {
    lock.lock();
    try {
      checkOpen(true);
      if (!hasCredit(SendWindow.bytesOf(batch))) {
        return false;
      }
      push(batchSchema, batch);
      return true;
    } finally {
      lock.unlock();
    }
  }

  private void push(ArrowSchema batchSchema, EncodedBatch batch) {
    if (schema == null) {
      byte[] message = SchemaMessage.encode(batchSchema);
      if (message.length > FrameHeader.MAX_SCHEMA_BYTES) {
        throw new MillraceException(
            StatusCode.RESOURCE_EXHAUSTED,
            place() + ": the schema takes " + message.length + " bytes, at most " + FrameHeader.MAX_SCHEMA_BYTES
                + " are allowed");
      }
      schema = batchSchema;
      hub.sendFrame(this, FrameType.SCHEMA, message, Collections.<ByteBuffer>emptyList());
    } else if (schema != batchSchema && !schema.equals(batchSchema)) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT,
          place() + ": the schema changed at row " + sentRows + " from " + schema + " to " + batchSchema);
    }
    byte[] metadata = new BatchPrefix(sentRows, batch.rows()).encode(batch.message());
    sentRows += batch.rows();
    window.sent(sentRows, batch);
    hub.sendFrame(this, FrameType.BATCH, metadata, batch.parts());
  }

  /**
   * Says that the partition has {@code rows} rows, all sent; blocks until the node has accepted it. Nothing is to be
   * said once the rest was taken back.
   */
  public void finish(long rows) {
    lock.lock();
    try {
      if (isRevokedLocked()) {
        return;
      }
      if (endRow >= 0 || rows != sentRows) {
        throw new IllegalStateException("finish(" + rows + ") after " + sentRows + " rows");
      }
      await(() -> accepted, true);
      if (isRevokedLocked()) {
        return;
      }
      endRow = rows;
      sendCount(FrameType.END_PARTITION, rows);
    } finally {
      lock.unlock();
    }
  }

  /**
   * After {@link #finish}: blocks until the node holds every row and knows that these are all, or has given back those
   * that it is not to have.
   */
  public void awaitReceived() {
    lock.lock();
    try {
      await(() -> endReceived || isRevokedLocked(), false);
    } finally {
      lock.unlock();
    }
  }

  /** After {@link #finish}: blocks until every row is acknowledged or every result here. */
  public void awaitDone() {
    lock.lock();
    try {
      await(() -> false, false);
    } finally {
      lock.unlock();
    }
  }

  // ------------------------------------------------------------------------------------ taking back

  /**
   * Training: asks the node to give back what its program was not given, if that were no more than the rows before
   * {@code maxRow}. It need not answer. Nothing happens before the session is accepted, once it has ended, and the
   * second time.
   */
  public void revoke(long maxRow) {
    lock.lock();
    try {
      if (end == SessionEnd.OPEN && accepted && !revoking && revokedRow < 0) {
        revoking = true;
        sendCount(FrameType.REVOKE, maxRow);
      }
    } finally {
      lock.unlock();
    }
  }

  /** Whether the node has given rows back: nothing more is to be sent. The session ends as REVOKED, or is lost. */
  public boolean isRevoked() {
    lock.lock();
    try {
      return isRevokedLocked();
    } finally {
      lock.unlock();
    }
  }

  private boolean isRevokedLocked() {
    return revokedRow >= 0;
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
    lock.lock();
    try {
      await(() -> !results.isEmpty() || next != null && hasCredit(SendWindow.bytesOf(next)), false);
      if (!results.isEmpty()) {
        return Ready.RESULT;
      }
      return end == SessionEnd.DONE ? Ready.DONE : Ready.SEND;
    } finally {
      lock.unlock();
    }
  }

  /** A result that is here already, null if there is none. Decodes in the calling thread. */
  public FeedResult pollResult() {
    lock.lock();
    try {
      checkOpen(false);
    } finally {
      lock.unlock();
    }
    return decodeNext();
  }

  /** The next results in row order, null after the last. Blocks; decodes in the calling thread. */
  public FeedResult nextResult() {
    lock.lock();
    try {
      await(() -> !results.isEmpty(), false);
    } finally {
      lock.unlock();
    }
    return decodeNext();
  }

  private FeedResult decodeNext() {
    ResultQueue.Pending result;
    lock.lock();
    try {
      result = results.poll();
      if (result == null) {
        return null;
      }
      long resultLimit = end == SessionEnd.OPEN ? results.raiseLimit() : 0;
      if (resultLimit > 0) {
        sendCount(FrameType.RESULT_CREDIT, resultLimit);
      }
    } finally {
      lock.unlock();
    }
    try {
      return result.decode();
    } catch (BadInputException e) {
      hub.poison(this, "RESULT: " + e.getMessage());
      MillraceException failure =
          failure(
              StatusCode.DATA_LOSS,
              place() + ": the result for row " + result.prefix.firstRow + " does not decode: " + e.getMessage());
      onEnd(SessionEnd.BAD_PEER, failure);
      throw failure;
    }
  }

  /** Bytes of results that have arrived and were not taken. */
  public long unreadBytes() {
    lock.lock();
    try {
      return results.unreadBytes();
    } finally {
      lock.unlock();
    }
  }

  // ----------------------------------------------------------------------------------------- ending

  /** Ends the session and tells the node, if it can be told. Nothing happens if it has ended already. */
  public void abort(StatusCode code, String message) {
    onEnd(SessionEnd.ABORTED, failure(code, place() + ": " + message));
  }

  private boolean endLocked(SessionEnd how, MillraceException why) {
    if (end != SessionEnd.OPEN) {
      return false;
    }
    end = how;
    error = why;
    if (how == SessionEnd.DONE) {
      window.releaseUpTo(Long.MAX_VALUE);
    } else {
      results.clear(); // those of an incomplete partition are worth nothing
      window.forget();
    }
    boolean tell = how == SessionEnd.ABORTED || how == SessionEnd.BAD_PEER || how == SessionEnd.UNANSWERED;
    byte[] abort = tell ? Messages.encodeError(why.code(), why.getMessage()) : null;
    hub.closeSession(this, abort, how == SessionEnd.UNANSWERED);
    changed.signalAll();
    return true;
  }

  /** Ends it, unless it has ended. For the hub. */
  boolean onEnd(SessionEnd how, MillraceException why) {
    lock.lock();
    try {
      return endLocked(how, why);
    } finally {
      lock.unlock();
    }
  }

  boolean onEnd(SessionEnd how, StatusCode code, String message) {
    return onEnd(how, failure(code, message));
  }

  // ----------------------------------------------- what the node says; for the hub, on its thread

  /** On a loaded host a new node answers late, but gets there step by step: each has its own time. */
  void onStage(OpenStage reached) {
    lock.lock();
    try {
      if (reached == OpenStage.CONNECTING || reached.compareTo(stage) > 0) {
        stage = reached;
        stageNanos = System.nanoTime();
      }
    } finally {
      lock.unlock();
    }
  }

  void onFrame(FrameHeader header, List<ByteBuffer> parts) throws BadInputException {
    ByteBuffer metadata = parts.size() > 1 ? parts.get(1) : null;
    lock.lock();
    try {
      if (end != SessionEnd.OPEN) {
        return;
      }
      switch (header.type) {
        case CREDIT:
          onCredit(Counts.decode(metadata));
          break;
        case RECEIVED:
          onReceived(Counts.decode(metadata).first);
          break;
        case ACK:
          onAck(Counts.decode(metadata).first);
          break;
        case WAIT:
          onWait(Counts.decode(metadata));
          break;
        case SCHEMA:
          onSchema(metadata);
          break;
        case RESULT:
          onResult(metadata, parts.subList(2, parts.size()));
          break;
        case DONE:
          onDone(Counts.decode(metadata));
          break;
        case REVOKED:
          onRevoked(Counts.decode(metadata).first);
          break;
        case TERMINATED:
          endLocked(
              SessionEnd.TERMINATED,
              failure(
                  StatusCode.FAILED_PRECONDITION,
                  place() + ": the program reads this queue no more: "
                      + Text.escaped(Messages.decodeTerminated(metadata).message)));
          break;
        case ERROR:
          Messages message = Messages.decodeError(metadata);
          // UNAVAILABLE: the node has seen the connection break before this side did.
          SessionEnd how = message.code == StatusCode.UNAVAILABLE ? SessionEnd.BROKEN : SessionEnd.ERROR;
          endLocked(how, failure(message.code, place() + ": " + Text.escaped(message.message)));
          break;
        default:
          throw new BadInputException("a node does not send " + header.typeName());
      }
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  static void require(boolean holds, String what, long found, long other) throws BadInputException {
    if (!holds) {
      throw new BadInputException(what + " " + found + ", " + other);
    }
  }

  private void onCredit(Counts credit) throws BadInputException {
    boolean freed = window.onCredit(credit);
    if (!accepted || freed) {
      options.progress.advance(); // its turn has come
    }
    answered = true;
    accepted = true;
    waitPosition = 0;
  }

  private void onReceived(long row) throws BadInputException {
    require(row <= sentRows, "RECEIVED: more rows than were sent:", row, sentRows);
    if (row < receivedRows) {
      // RECEIVED may come late, after an ACK that said as much.
      require(row < ackedRows, "RECEIVED: fewer rows than before:", row, receivedRows);
      return;
    }
    if (row > receivedRows) {
      options.progress.advance();
    }
    receivedRows = row;
    window.releaseUpTo(row);
    if (row == endRow) {
      endReceived = true;
    }
  }

  private void onAck(long row) throws BadInputException {
    require(row <= sentRows, "ACK: more rows than were sent:", row, sentRows);
    require(row >= ackedRows, "ACK: fewer rows than before:", row, ackedRows);
    if (row > ackedRows) {
      options.progress.advance();
    }
    ackedRows = row;
    receivedRows = Math.max(receivedRows, row);
    window.releaseUpTo(row);
  }

  private void onRevoked(long row) throws BadInputException {
    if (!revoking || isRevokedLocked()) {
      throw new BadInputException("REVOKED without REVOKE, or twice");
    }
    require(row <= sentRows, "REVOKED: more rows than were sent:", row, sentRows);
    require(row >= ackedRows, "REVOKED: fewer rows than acknowledged:", row, ackedRows);
    revokedRow = row;
    sentRows = receivedRows = row;
    window.forget();
    options.progress.advance();
  }

  private void onWait(Counts wait) {
    // One for a session that is served already says that it waits for credit; it may be late.
    if (accepted && !window.isBlocked()) {
      return;
    }
    if (!answered || wait.first < waitPosition || wait.second > waitProgress) {
      options.progress.advance();
    }
    answered = true;
    waitPosition = wait.first;
    waitProgress = Math.max(waitProgress, wait.second);
  }

  private void onSchema(ByteBuffer metadata) throws BadInputException {
    if (options.mode != FeedMode.INFERENCE || results.hasSchema()) {
      throw new BadInputException("SCHEMA for a training session, or a second one");
    }
    results.setSchema(metadata);
  }

  private void onResult(ByteBuffer metadata, List<ByteBuffer> body) throws BadInputException {
    if (options.mode != FeedMode.INFERENCE || !results.hasSchema()) {
      throw new BadInputException("RESULT for a training session, or before SCHEMA");
    }
    results.checkCredit();
    BatchPrefix prefix = BatchPrefix.decode(metadata);
    long last = prefix.firstRow + prefix.rows;
    if (prefix.firstRow != returnedRows || last > sentRows) {
      boolean gap = prefix.firstRow > returnedRows;
      String what = gap ? "a gap" : prefix.firstRow < returnedRows ? "an overlap" : "too many";
      endLocked(
          SessionEnd.BAD_PEER,
          failure(
              StatusCode.DATA_LOSS,
              place() + ": results for the rows " + prefix.firstRow + " to " + (last - 1) + " came where row "
                  + returnedRows + " is next (" + sentRows + " rows were sent): " + what
                  + "; run the partition again"));
      return;
    }
    results.add(prefix, metadata, body);
    returnedRows = last;
    options.progress.advance();
  }

  private void onDone(Counts done) {
    boolean inference = options.mode == FeedMode.INFERENCE;
    // rows_in counts the rows of this session: from where it resumed.
    long rowsIn = sentRows - options.firstRow;
    long rowsOut = inference ? rowsIn : 0;
    boolean complete = endRow >= 0 || isRevokedLocked();
    if (!complete || done.first != rowsIn || done.second != rowsOut || inference && returnedRows != sentRows) {
      endLocked(
          SessionEnd.BAD_PEER,
          failure(
              StatusCode.DATA_LOSS,
              place() + ": DONE with " + done.first + " rows in and " + done.second + " out after " + rowsIn
                  + " rows were sent" + (complete ? "" : " and more are to come")
                  + (inference ? " and results for " + returnedRows + " came" : "")
                  + "; run the partition again"));
      return;
    }
    receivedRows = ackedRows = sentRows;
    endReceived = true;
    options.progress.advance();
    if (endRow == sentRows) { // what was taken back may have been nothing
      revokedRow = -1;
      endLocked(SessionEnd.DONE, null);
    } else {
      endLocked(
          SessionEnd.REVOKED, failure(StatusCode.ABORTED, place() + ": taken back from row " + revokedRow + " on"));
    }
  }
}
