package io.millrace.spark.internal.feed;

import java.util.ArrayDeque;

/**
 * The rooms that a session was granted and has not used, in the order in which they are used
 * (docs/feed_protocol.md, section 10). Not thread-safe.
 */
final class RoomQueue {
  private final ArrayDeque<Room> rooms = new ArrayDeque<>();

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
    long used = (bytes + Room.ALIGNMENT - 1) & -Room.ALIGNMENT;
    if (used < room.length) {
      rooms.addFirst(new Room(room.offset + used, room.length - used));
    }
    return new Room(room.offset, bytes);
  }
}
