package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Collects the nodes and buffers of one batch in the order of the schema. Small buffers are gathered into
 * the first body part, each large one is a part of its own, as it lies.
 */
final class BodyWriter {
  // A part costs a ZeroMQ frame and system calls at both ends; copying less than this is cheaper. Measured with 64
  // columns of 16 KiB.
  private static final int OWN_PART_BYTES = 64 << 10;

  private static final class Entry {
    final long length;
    final long offset; // in the gathered part, or among the large ones
    final boolean large;

    Entry(long length, long offset, boolean large) {
      this.length = length;
      this.offset = offset;
      this.large = large;
    }
  }

  private final BufferPool pool;
  private final List<ByteBuffer> smallParts = new ArrayList<>();
  private final List<long[]> nodes = new ArrayList<>();
  private final List<Entry> buffers = new ArrayList<>();
  private final List<ByteBuffer> largeParts = new ArrayList<>();
  private final List<ByteBuffer> memory = new ArrayList<>();
  private long largeBytes;
  private int gatheredBytes;

  BodyWriter(BufferPool pool) {
    this.pool = pool;
  }

  void node(long length, long nulls) {
    nodes.add(new long[] {length, nulls});
  }

  /** Takes the content of {@code buffer}; if not {@code present}, its memory only. */
  void buffer(DirectBuffer buffer, boolean present) {
    int size = present ? buffer.size() : 0;
    ByteBuffer bytes = buffer.detach();
    if (bytes != null) {
      memory.add(bytes);
    }
    if (size >= OWN_PART_BYTES) {
      int padded = (int) roundUp8(size); // the memory of a pool has a multiple of 8 bytes too
      for (int i = size; i < padded; i++) {
        bytes.put(i, (byte) 0);
      }
      buffers.add(new Entry(size, largeBytes, true));
      largeParts.add(DirectBuffer.view(bytes, 0, padded));
      largeBytes += padded;
      return;
    }
    buffers.add(new Entry(size, gatheredBytes, false));
    if (size > 0) {
      smallParts.add(DirectBuffer.view(bytes, 0, size));
      gatheredBytes = (int) roundUp8(gatheredBytes + size);
    }
  }

  private static long roundUp8(long size) {
    return (size + 7) & ~7L;
  }

  /** All small buffers, each from a multiple of 8 bytes on. */
  private ByteBuffer gather() {
    ByteBuffer gathered = pool.take(gatheredBytes);
    memory.add(gathered);
    ByteBuffer target = DirectBuffer.view(gathered, 0, gatheredBytes);
    for (ByteBuffer part : smallParts) {
      target.put(part);
      while ((target.position() & 7) != 0) {
        target.put((byte) 0);
      }
    }
    return DirectBuffer.view(gathered, 0, gatheredBytes);
  }

  EncodedBatch finish(int rows) {
    byte[] message = message(rows);
    List<ByteBuffer> parts = new ArrayList<>();
    if (gatheredBytes > 0) {
      parts.add(gather());
    }
    parts.addAll(largeParts);
    return new EncodedBatch(rows, message, parts, pool, memory);
  }

  // The tables of a RecordBatch message have a fixed shape, so their places are constants (bytes from the
  // beginning of the flatbuffer):
  //
  //    0 root          4 vtable of Message       16 Message         36 vtable of RecordBatch
  //   48 RecordBatch  68 count of nodes, then nodes from 72, count of buffers, then buffers
  private byte[] message(long rows) {
    int nodesBytes = 16 * nodes.size();
    int size = 80 + nodesBytes + 16 * buffers.size();
    ByteBuffer out = ByteBuffer.allocate(ArrowMessage.PREFIX_BYTES + size).order(ByteOrder.LITTLE_ENDIAN);
    out.putInt(ArrowMessage.CONTINUATION).putInt(size);
    out.putInt(16); // 0: root
    shorts(out, 12, 20, 16, 18, 4, 8); // 4: vtable
    out.putInt(16 - 4); // 16: Message
    out.putInt(48 - 20); // 20: header
    out.putLong(gatheredBytes + largeBytes); // 24: body length
    out.putShort((short) ArrowMessage.VERSION_5); // 32
    out.put((byte) ArrowMessage.RECORD_BATCH).put((byte) 0); // 34
    shorts(out, 10, 20, 8, 4, 16, 0); // 36: vtable, and padding
    out.putInt(48 - 36); // 48: RecordBatch
    out.putInt(68 - 52); // 52: nodes
    out.putLong(rows); // 56: length
    out.putInt(76 + nodesBytes - 64); // 64: buffers
    out.putInt(nodes.size()); // 68
    for (long[] node : nodes) {
      out.putLong(node[0]).putLong(node[1]);
    }
    out.putInt(0).putInt(buffers.size());
    for (Entry buffer : buffers) {
      out.putLong(buffer.offset + (buffer.large ? gatheredBytes : 0)).putLong(buffer.length);
    }
    return out.array();
  }

  private static void shorts(ByteBuffer out, int... values) {
    for (int value : values) {
      out.putShort((short) value);
    }
  }
}
