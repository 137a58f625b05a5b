package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** What stands before the Arrow message in the metadata of BATCH and RESULT. Immutable. */
final class BatchPrefix {
  static final int BYTES = 16;

  final long firstRow;
  final int rows;

  BatchPrefix(long firstRow, int rows) {
    this.firstRow = firstRow;
    this.rows = rows;
  }

  /** The whole metadata: the prefix, then {@code message}. */
  byte[] encode(byte[] message) {
    return ByteBuffer.allocate(BYTES + message.length)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(firstRow)
        .putInt(rows)
        .putInt(0)
        .put(message)
        .array();
  }

  static BatchPrefix decode(ByteBuffer metadata) throws BadInputException {
    if (metadata.remaining() < BYTES) {
      throw new BadInputException("a batch with " + metadata.remaining() + " bytes of metadata");
    }
    ByteBuffer in = metadata.slice().order(ByteOrder.LITTLE_ENDIAN);
    long firstRow = in.getLong(0);
    int rows = in.getInt(8);
    if (firstRow < 0 || rows < 1 || firstRow + rows < 0) {
      throw new BadInputException("a batch of " + (rows & 0xffffffffL) + " rows from row " + firstRow + " on");
    }
    if (in.getInt(12) != 0) {
      throw new BadInputException("a batch whose prefix does not end with zero");
    }
    return new BatchPrefix(firstRow, rows);
  }
}
