package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.BodyMemory;
import java.nio.ByteBuffer;

/** A session's room that a batch is encoded into. Once the session has ended nobody may look at its bytes. */
final class LentRoom implements BodyMemory {
  final Room room;
  private final SessionRecord session;
  private final ByteBuffer bytes;

  LentRoom(SessionRecord session, Room room, ByteBuffer bytes) {
    this.session = session;
    this.room = room;
    this.bytes = bytes;
  }

  @Override
  public ByteBuffer bytes() {
    return bytes;
  }

  @Override
  public void release() {
    session.lock.lock();
    try {
      session.shared.takeBack(this, 0);
    } finally {
      session.lock.unlock();
    }
  }
}
