package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Metadata that is one or two numbers: END_PARTITION, BLOCKED, RESULT_CREDIT, REVOKE, RECEIVED, ACK and REVOKED;
 * CREDIT, DONE, WAIT and ROOM.
 */
final class Counts {
  final long first;
  final long second;

  private Counts(long first, long second) {
    this.first = first;
    this.second = second;
  }

  static byte[] encode(long only) {
    return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(only).array();
  }

  static byte[] encode(long first, long second) {
    return ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(first).putLong(second).array();
  }

  /** Reads as many numbers as there are bytes for; the header's check has seen to the size. */
  static Counts decode(ByteBuffer metadata) throws BadInputException {
    ByteBuffer in = metadata.slice().order(ByteOrder.LITTLE_ENDIAN);
    long first = in.getLong(0);
    long second = in.remaining() > 8 ? in.getLong(8) : 0;
    if (first < 0 || second < 0) {
      throw new BadInputException("a number above 2^63-1");
    }
    return new Counts(first, second);
  }

  /** @throws BadInputException that names both numbers, unless it {@code holds} */
  static void require(boolean holds, String what, long found, long other) throws BadInputException {
    if (!holds) {
      throw new BadInputException(what + " " + found + ", " + other);
    }
  }
}
