package io.millrace.spark.internal.feed;

import java.util.ArrayDeque;

/**
 * The rooms that a session was granted and has not used, in the order in which they are used
 * (docs/feed_protocol.md, section 10). Not thread-safe.
 */
final class RoomQueue {
  private final ArrayDeque<Room> rooms = new ArrayDeque<>();
  private Room rest; // of the room in which a place was taken last; null: nothing was left of it

  void add(Room room) {
    rooms.addLast(room);
  }

  /**
   * Takes {@code bytes}, at least 1, from the first room that has as many left, and gives up those before it. null,
   * and nothing changes, if none has.
   */
  Room place(long bytes) {
    boolean fits = false;
    for (Room room : rooms) {
      fits |= room.length >= bytes;
    }
    if (!fits) {
      return null;
    }
    Room room = rooms.pollFirst();
    while (room.length < bytes) {
      room = rooms.pollFirst();
    }
    long used = Room.roundUp(bytes);
    rest = used < room.length ? new Room(room.offset + used, room.length - used) : null;
    if (rest != null) {
      rooms.addFirst(rest);
    }
    return new Room(room.offset, bytes);
  }

  /** Takes back what {@link #place} gave last, but for the first {@code used} bytes. */
  void giveBack(Room placed, long used) {
    long taken = Room.roundUp(used);
    long left = Room.roundUp(placed.length) - taken;
    if (left == 0) {
      return;
    }
    // The rest of the room that it was taken from, if there is one, follows it: what was granted as one stays one.
    if (rest != null && rooms.peekFirst() == rest) {
      left += rooms.pollFirst().length;
    }
    rest = null;
    rooms.addFirst(new Room(placed.offset + taken, left));
  }
}
