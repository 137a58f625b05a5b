package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** PLACED and PLACED_RESULT: where the body lies, which stands before what BATCH and RESULT have. */
final class PlacedPrefix {
  static final int BYTES = 16;

  private PlacedPrefix() {}

  /** The whole metadata: the prefix, then {@code batch}, the metadata of a BATCH. */
  static byte[] encode(Room body, byte[] batch) {
    return ByteBuffer.allocate(BYTES + batch.length)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(body.offset)
        .putLong(body.length)
        .put(batch)
        .array();
  }

  /** The credit that a batch costs whose metadata {@link #encode} has made. */
  static long batchBytes(byte[] metadata) {
    return metadata.length - BYTES + ByteBuffer.wrap(metadata).order(ByteOrder.LITTLE_ENDIAN).getLong(8);
  }

  static Room decode(ByteBuffer metadata) throws BadInputException {
    if (metadata.remaining() < BYTES) {
      throw new BadInputException("PLACED with " + metadata.remaining() + " bytes of metadata");
    }
    ByteBuffer in = metadata.slice().order(ByteOrder.LITTLE_ENDIAN);
    return new Room(in.getLong(0), in.getLong(8));
  }
}
