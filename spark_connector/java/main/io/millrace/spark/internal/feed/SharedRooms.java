package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;

/**
 * A session's part of a node's shared memory (docs/feed_protocol.md, section 10). Guarded by the session's lock, but
 * for {@link #isWriting}.
 *
 * <p>The thread that feeds writes there without the lock, between {@link #beginWriting} and {@link #endWriting}. The
 * node hears of the session's end, after which the room is somebody else's, only when nothing is being written.
 */
final class SharedRooms {
  // A smaller body costs no more in the message than its name does.
  private static final long MIN_BODY_BYTES = 32 << 10;

  private final SessionRecord session;
  private final RoomQueue rooms = new RoomQueue();
  private MappedSegment segment; // held, once there was room or a result in it
  private boolean hasResults; // there were: the node waits to hear of the end
  private LentRoom lent; // that a batch is encoded into; null: none
  // Whoever ends the session sets what is to be done then and looks whether something is being written; who has
  // written something says so and looks whether there is something to be done. So one of them does it.
  private volatile boolean writing;
  private volatile Runnable afterWriting;

  SharedRooms(SessionRecord session) {
    this.session = session;
  }

  /** ROOM in the segment of the session's connection; null if that has none. */
  void onRoom(Room room, MappedSegment mapped) throws BadInputException {
    if (mapped == null || !mapped.contains(room)) {
      throw new BadInputException("ROOM of " + room.length + " bytes at " + room.offset + ", which is in no segment");
    }
    if (segment == null) {
      mapped.hold();
      segment = mapped;
    }
    rooms.add(room);
  }

  /**
   * A copy of a result's body in {@code mapped}, so that nobody changes it once it is checked, and its room is the
   * node's again as soon as the session says so. {@code mapped}: null if the connection has no segment.
   */
  byte[] copyResult(Room body, MappedSegment mapped) throws BadInputException {
    if (segment == null && mapped != null) {
      mapped.hold();
      segment = mapped;
    }
    boolean fits = body.length <= MappedSegment.MAX_BODY_BYTES;
    if (segment == null || !fits || !segment.contains(new Room(body.offset, Room.roundUp(body.length)))) {
      throw new BadInputException(
          "a result of " + body.length + " bytes at " + body.offset + ", which is in no segment");
    }
    byte[] copy = new byte[(int) body.length];
    segment.bytes(body).get(copy);
    hasResults = true;
    return copy;
  }

  /** Room for a batch of so many bytes that is to be encoded there; null if there is none, or it is not worth it. */
  BodyMemory lend(long bytes) {
    if (lent != null) {
      throw new IllegalStateException("a batch under way has room already");
    }
    Room room = writing ? take(bytes) : null; // the segment may have come since writing began
    lent = room == null ? null : new LentRoom(session, room, segment.bytes(room));
    return lent;
  }

  /** Takes back what was lent, but for the first {@code used} bytes. Nothing happens the second time. */
  void takeBack(LentRoom given, long used) {
    if (lent == given) {
      rooms.giveBack(given.room, used);
      lent = null;
    }
  }

  private Room take(long bytes) {
    boolean fits = segment != null && bytes >= MIN_BODY_BYTES && bytes <= MappedSegment.MAX_BODY_BYTES;
    return fits ? rooms.place(bytes) : null;
  }

  /** Puts the batch's body into room, if it is not there yet; returns where it lies, null if it is to go as BATCH. */
  Room place(EncodedBatch batch) {
    long bytes = batch.bodyBytes();
    if (batch.lent() == null) {
      Room room = take(bytes);
      if (room != null) {
        batch.copyBody(segment.bytes(room));
      }
      return room;
    }
    if (batch.lent() != lent) {
      throw new IllegalStateException("the batch lies in memory of another session");
    }
    long offset = lent.room.offset;
    takeBack(lent, bytes);
    return new Room(offset, bytes);
  }

  /** The thread that feeds may write into what was lent. */
  void beginWriting() {
    writing = segment != null;
  }

  /** It has; does what waits for that. For this thread, without the lock. */
  void endWriting() {
    if (!writing) {
      return;
    }
    writing = false;
    if (afterWriting != null) {
      session.lock.lock();
      try {
        doAfterWriting();
      } finally {
        session.lock.unlock();
      }
    }
  }

  boolean isWriting() {
    return writing;
  }

  private void doAfterWriting() {
    Runnable then = afterWriting;
    afterWriting = null;
    if (then != null) {
      then.run();
    }
  }

  /** Whether the node waits to hear that nothing is written any more. */
  boolean hadRoom() {
    return segment != null;
  }

  /** Whether the node waits to hear that no result is read any more. */
  boolean hadResults() {
    return hasResults;
  }

  /** The session has ended: leaves the segment and calls {@code then}, now or once nothing is being written. */
  void end(Runnable then) {
    afterWriting =
        () -> {
          if (segment != null) {
            segment.release();
            segment = null;
          }
          lent = null;
          then.run();
        };
    if (!writing) {
      doAfterWriting();
    }
  }
}
