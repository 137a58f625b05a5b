package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;

/**
 * The hub's side of a session: what its node says, and what becomes of the connection. For the hub's thread, but for
 * {@link #onEnd}, which any thread may call.
 */
final class SessionReplies {
  private final SessionRecord session;

  SessionReplies(SessionRecord session) {
    this.session = session;
  }

  long id() {
    return session.id;
  }

  FeedTarget target() {
    return session.target;
  }

  SessionOptions options() {
    return session.options;
  }

  /** "worker:1, partition 3 (queue 'input')", the head of its error messages. */
  String place() {
    return session.place();
  }

  /** Ends it, unless it has ended. {@code message}: without the place. */
  void onEnd(SessionEnd how, StatusCode code, String message) {
    session.endNow(how, session.failure(code, message));
  }

  /** The hub has forgotten the session, which has ended: whoever waits for that is told. */
  void onClosed() {
    session.closed.complete(null);
  }

  /** Whether a row is being written into the node's memory. */
  boolean isWriting() {
    return session.shared.isWriting();
  }

  /** A frame of the session was handed to its socket, which took so long. */
  void countWire(long nanos) {
    session.lock.lock();
    try {
      session.wireNanos += nanos;
    } finally {
      session.lock.unlock();
    }
  }

  /** On a loaded host a new node answers late, but gets there step by step: each has its own time. */
  void onStage(OpenStage reached) {
    session.lock.lock();
    try {
      if (reached == OpenStage.CONNECTING || reached.compareTo(session.stage) > 0) {
        session.stage = reached;
        session.stageNanos = System.nanoTime();
      }
    } finally {
      session.lock.unlock();
    }
  }

  /** OPEN went out, which names this endpoint. */
  void onOpened(String replyEndpoint) {
    session.lock.lock();
    try {
      session.replyEndpoint = replyEndpoint;
      onStage(OpenStage.OPENED);
    } finally {
      session.lock.unlock();
    }
  }

  /** SEGMENT; {@code reason}: why what it names cannot be used, "" if it can. */
  void onSegment(String reason) {
    session.lock.lock();
    try {
      if (session.isOpen()) {
        byte[] mapped = Messages.encodeMapped(reason);
        session.hub.sendFrame(session.id, FrameType.MAPPED, mapped, Collections.<ByteBuffer>emptyList());
      }
    } finally {
      session.lock.unlock();
    }
  }

  /**
   * ROOM in the segment of the session's connection; null if that has none.
   *
   * @throws BadInputException as {@link #onFrame}
   */
  void onRoom(Room room, MappedSegment segment) throws BadInputException {
    session.lock.lock();
    try {
      if (session.isOpen()) {
        session.shared.onRoom(room, segment);
      }
    } finally {
      session.lock.unlock();
    }
  }

  /**
   * PLACED_RESULT in the segment of the session's connection; null if that has none.
   *
   * @throws BadInputException as {@link #onFrame}
   */
  void onPlacedResult(ByteBuffer metadata, MappedSegment segment) throws BadInputException {
    session.lock.lock();
    try {
      if (session.isOpen()) {
        takePlacedResult(metadata, segment);
      }
    } finally {
      session.lock.unlock();
    }
  }

  /**
   * The same after the connection was lost, and the node's memory with it, unless the session holds that.
   *
   * @throws BadInputException as {@link #onFrame}
   */
  void onPlacedResult(ByteBuffer metadata, String lostWhy) throws BadInputException {
    session.lock.lock();
    try {
      if (session.isOpen() && session.shared.hadRoom()) {
        takePlacedResult(metadata, null);
      } else {
        end(SessionEnd.BROKEN, StatusCode.UNAVAILABLE, lostWhy);
      }
    } finally {
      session.lock.unlock();
    }
  }

  /** @throws BadInputException if the node breaks the protocol; the hub poisons it */
  void onFrame(FrameHeader header, List<ByteBuffer> parts) throws BadInputException {
    ByteBuffer metadata = parts.size() > 1 ? parts.get(1) : null;
    session.lock.lock();
    try {
      if (!session.isOpen()) {
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
          onTerminated(Messages.decodeTerminated(metadata));
          break;
        case ERROR:
          Messages message = Messages.decodeError(metadata);
          // A node that has lost the connection, or its program, may come again.
          boolean lost = message.code == StatusCode.UNAVAILABLE || message.programEnded;
          end(lost ? SessionEnd.BROKEN : SessionEnd.ERROR, message.code, Text.escaped(message.message));
          break;
        default:
          throw new BadInputException("a node does not send " + header.typeName());
      }
      session.changed.signalAll();
    } finally {
      session.lock.unlock();
    }
  }

  // ------------------------------------------------------------------------------ all with the lock

  private void end(SessionEnd how, StatusCode code, String message) {
    session.end(how, session.failure(code, message));
  }

  private void takePlacedResult(ByteBuffer metadata, MappedSegment segment) throws BadInputException {
    Room placed = PlacedPrefix.decode(metadata);
    ByteBuffer rest = metadata.duplicate();
    rest.position(rest.position() + PlacedPrefix.BYTES);
    byte[] body = session.shared.copyResult(placed, segment);
    onResult(rest.slice(), Collections.singletonList(ByteBuffer.wrap(body)));
    session.changed.signalAll();
  }

  private void advance() {
    session.options.progress.advance();
  }

  private void onCredit(Counts credit) throws BadInputException {
    boolean freed = session.window.onCredit(credit);
    if (!session.accepted || freed) {
      advance(); // its turn has come
    }
    session.answered = true;
    session.accepted = true;
    session.waitPosition = 0;
  }

  private void onReceived(long row) throws BadInputException {
    Counts.require(row <= session.sentRows, "RECEIVED: more rows than were sent:", row, session.sentRows);
    if (row < session.receivedRows) {
      // RECEIVED may come late, after an ACK that said as much.
      Counts.require(row < session.ackedRows, "RECEIVED: fewer rows than before:", row, session.receivedRows);
      return;
    }
    if (row > session.receivedRows) {
      advance();
    }
    session.receivedRows = row;
    session.window.releaseUpTo(row);
    if (row == session.endRow) {
      session.endReceived = true;
    }
  }

  private void onAck(long row) throws BadInputException {
    Counts.require(row <= session.sentRows, "ACK: more rows than were sent:", row, session.sentRows);
    Counts.require(row >= session.ackedRows, "ACK: fewer rows than before:", row, session.ackedRows);
    if (row > session.ackedRows) {
      advance();
    }
    session.ackedRows = row;
    session.receivedRows = Math.max(session.receivedRows, row);
    session.window.releaseUpTo(row);
  }

  private void onRevoked(long row) throws BadInputException {
    if (!session.revoking || session.isRevoked()) {
      throw new BadInputException("REVOKED without REVOKE, or twice");
    }
    Counts.require(row <= session.sentRows, "REVOKED: more rows than were sent:", row, session.sentRows);
    Counts.require(row >= session.ackedRows, "REVOKED: fewer rows than acknowledged:", row, session.ackedRows);
    session.revokedRow = row;
    session.wantsRows = false;
    session.sentRows = session.receivedRows = row;
    session.window.forget();
    advance();
  }

  private void onTerminated(Messages terminated) throws BadInputException {
    long row = terminated.row;
    Counts.require(row <= session.sentRows, "TERMINATED: more rows than were sent:", row, session.sentRows);
    // What the program has not been given it does not use any more.
    session.sentRows = Math.max(session.ackedRows, row);
    end(
        SessionEnd.TERMINATED,
        StatusCode.FAILED_PRECONDITION,
        "the program reads this queue no more: " + Text.escaped(terminated.message));
  }

  private void onWait(Counts wait) {
    // One for a session that is served already says that it waits for credit; it may be late.
    if (session.accepted && !session.window.isBlocked()) {
      return;
    }
    if (!session.answered || wait.first < session.waitPosition || wait.second > session.waitProgress) {
      advance();
    }
    session.answered = true;
    session.waitPosition = wait.first;
    session.waitProgress = Math.max(session.waitProgress, wait.second);
  }

  private boolean isInference() {
    return session.options.mode == FeedMode.INFERENCE;
  }

  private void onSchema(ByteBuffer metadata) throws BadInputException {
    if (!isInference() || session.results.hasSchema()) {
      throw new BadInputException("SCHEMA for a training session, or a second one");
    }
    session.results.setSchema(metadata);
  }

  private void onResult(ByteBuffer metadata, List<ByteBuffer> body) throws BadInputException {
    if (!isInference() || !session.results.hasSchema()) {
      throw new BadInputException("RESULT for a training session, or before SCHEMA");
    }
    session.results.checkCredit();
    BatchPrefix prefix = BatchPrefix.decode(metadata);
    long next = session.returnedRows;
    long last = prefix.firstRow + prefix.rows;
    if (prefix.firstRow != next || last > session.sentRows) {
      String what = prefix.firstRow > next ? "a gap" : prefix.firstRow < next ? "an overlap" : "too many";
      end(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          "results for the rows " + prefix.firstRow + " to " + (last - 1) + " came where row " + next + " is next ("
              + session.sentRows + " rows were sent): " + what + "; run the partition again");
      return;
    }
    session.results.add(prefix, metadata, body);
    session.returnedRows = last;
    advance();
  }

  private void onDone(Counts done) {
    // rows_in counts the rows of this session: from where it resumed.
    long rowsIn = session.sentRows - session.options.firstRow;
    long rowsOut = isInference() ? rowsIn : 0;
    boolean complete = session.endRow >= 0 || session.isRevoked();
    boolean answered = !isInference() || session.returnedRows == session.sentRows;
    if (!complete || !answered || done.first != rowsIn || done.second != rowsOut) {
      end(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          "DONE with " + done.first + " rows in and " + done.second + " out after " + rowsIn + " rows were sent"
              + (complete ? "" : " and more are to come")
              + (isInference() ? " and results for " + session.returnedRows + " came" : "")
              + "; run the partition again");
      return;
    }
    session.receivedRows = session.ackedRows = session.sentRows;
    session.endReceived = true;
    advance();
    if (session.endRow == session.sentRows) { // what was taken back may have been nothing
      session.revokedRow = -1;
      session.end(SessionEnd.DONE, null);
    } else {
      end(SessionEnd.REVOKED, StatusCode.ABORTED, "taken back from row " + session.revokedRow + " on");
    }
  }
}
