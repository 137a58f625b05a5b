package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;

/**
 * A session's part of a node's shared memory (docs/feed_protocol.md, section 10). Guarded by the session's lock.
 */
final class SharedRooms {
  // A smaller body costs no more in the message than its name does.
  private static final long MIN_BODY_BYTES = 32 << 10;

  private final RoomQueue rooms = new RoomQueue();
  private MappedSegment segment; // held, once there was room in it

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

  /** Copies the batch's body into room; returns where it lies, null if it is to go as BATCH. */
  Room place(EncodedBatch batch) {
    long bytes = batch.bodyBytes();
    if (segment == null || bytes < MIN_BODY_BYTES || bytes > MappedSegment.MAX_BODY_BYTES) {
      return null;
    }
    Room room = rooms.place(bytes);
    if (room != null) {
      segment.put(room, batch.parts());
    }
    return room;
  }

  /** The session has ended. Returns whether the node waits to hear that nothing is written any more. */
  boolean end() {
    boolean hadRoom = segment != null;
    if (hadRoom) {
      segment.release();
      segment = null;
    }
    return hadRoom;
  }
}
