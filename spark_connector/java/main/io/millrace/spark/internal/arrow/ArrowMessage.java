package io.millrace.spark.internal.arrow;

import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The envelope of every Arrow IPC message: 0xFFFFFFFF, i32 length, a FlatBuffer with a Message. */
final class ArrowMessage {
  static final int PREFIX_BYTES = 8;
  static final int CONTINUATION = -1;
  static final int VERSION_4 = 3;
  static final int VERSION_5 = 4;
  static final int SCHEMA = 1;
  static final int RECORD_BATCH = 3;

  final FlatTable header;
  final long bodyLength;

  private ArrowMessage(FlatTable header, long bodyLength) {
    this.header = header;
    this.bodyLength = bodyLength;
  }

  static ArrowMessage read(ByteBuffer bytes, int wanted) throws BadInputException {
    ByteBuffer in = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
    if (in.limit() < PREFIX_BYTES || in.getInt(0) != CONTINUATION || in.getInt(4) != in.limit() - PREFIX_BYTES) {
      throw new BadInputException("not an encapsulated Arrow message of " + in.limit() + " bytes");
    }
    in.position(PREFIX_BYTES);
    FlatTable root = FlatTable.root(in.slice().order(ByteOrder.LITTLE_ENDIAN));
    int version = root.int16(0, 0);
    if (version != VERSION_4 && version != VERSION_5) {
      throw new BadInputException("Arrow metadata version V" + (version + 1) + ", wanted V4 or V5");
    }
    if (root.uint8(1, 0) != wanted) {
      throw new BadInputException("an Arrow message of type " + root.uint8(1, 0) + ", wanted " + wanted);
    }
    FlatTable header = root.table(2);
    if (header == null) {
      throw new BadInputException("an Arrow message without a header");
    }
    return new ArrowMessage(header, root.int64(3, 0));
  }

  /** The envelope around a FlatBuffer whose size is a multiple of 8. */
  static byte[] wrap(byte[] flatbuffer) {
    return ByteBuffer.allocate(PREFIX_BYTES + flatbuffer.length)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(CONTINUATION)
        .putInt(flatbuffer.length)
        .put(flatbuffer)
        .array();
  }
}
