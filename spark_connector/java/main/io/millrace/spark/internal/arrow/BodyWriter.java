package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Collects the nodes and buffers of one batch in the order of the schema. In memory that was lent, a buffer stays where
 * it lies. Otherwise small ones are to be gathered into the first part of the body, and each large one is a part of its
 * own, as it lies.
 */
final class BodyWriter {
  // A part costs a ZeroMQ frame and system calls at both ends; copying less than this is cheaper. Measured with 64
  // columns of 16 KiB.
  private static final int OWN_PART_BYTES = 64 << 10;
  // A body in lent memory may have a quarter more bytes than its buffers, and so many: a batch with far fewer rows than
  // the one before is copied instead.
  private static final int HOLES_BYTES = 16 << 10;

  private final BufferPool pool;
  private final List<long[]> nodes = new ArrayList<>();
  private final List<DirectBuffer> buffers = new ArrayList<>();
  private final List<Integer> sizes = new ArrayList<>();

  BodyWriter(BufferPool pool) {
    this.pool = pool;
  }

  void node(long length, long nulls) {
    nodes.add(new long[] {length, nulls});
  }

  /** Adds a buffer, which {@link #finish} empties; if not {@code present}, one without bytes in its place. */
  void buffer(DirectBuffer buffer, boolean present) {
    buffers.add(buffer);
    sizes.add(present ? buffer.size() : 0);
  }

  private static long roundUp8(long size) {
    return (size + 7) & ~7L;
  }

  /** Makes the batch. {@code lent}: memory that buffers may lie in; null if there is none. */
  EncodedBatch finish(int rows, BodyMemory lent) {
    if (lent != null) {
      long[] offsets = new long[buffers.size()];
      long bodyBytes = placeIn(lent.bytes(), offsets);
      if (bodyBytes >= 0) {
        return new EncodedBatch(rows, message(rows, offsets, bodyBytes), bodyBytes, lent);
      }
      buffers.forEach(DirectBuffer::leaveLent);
      lent.release();
    }
    return finishInPool(rows);
  }

  /**
   * Completes a body in lent memory, in which buffers that lie elsewhere are put behind the others. Returns its bytes;
   * -1, and nothing has changed, if they do not fit, or there are large holes.
   */
  private long placeIn(ByteBuffer lent, long[] offsets) {
    long bytes = 0;
    long end = 0;
    for (int i = 0; i < offsets.length; i++) {
      bytes += roundUp8(sizes.get(i));
      if (buffers.get(i).lentAt() >= 0 && sizes.get(i) > 0) {
        offsets[i] = buffers.get(i).lentAt();
        end = Math.max(end, roundUp8(offsets[i] + sizes.get(i)));
      }
    }
    for (int i = 0; i < offsets.length; i++) {
      if (buffers.get(i).lentAt() < 0 && sizes.get(i) > 0) {
        offsets[i] = end;
        end += roundUp8(sizes.get(i));
      }
    }
    if (end > lent.capacity() || end > bytes + bytes / 4 + HOLES_BYTES) {
      return -1;
    }
    for (int i = 0; i < offsets.length; i++) {
      DirectBuffer buffer = buffers.get(i);
      if (buffer.lentAt() < 0 && sizes.get(i) > 0) {
        ByteBuffer place = DirectBuffer.view(lent, (int) offsets[i], lent.capacity());
        place.put(DirectBuffer.view(buffer.bytes(), 0, sizes.get(i)));
      }
      ByteBuffer elsewhere = buffer.detach();
      if (elsewhere != null) {
        pool.give(elsewhere);
      }
    }
    return end;
  }

  private EncodedBatch finishInPool(int rows) {
    long[] offsets = new long[buffers.size()];
    List<ByteBuffer> small = new ArrayList<>();
    List<ByteBuffer> large = new ArrayList<>();
    List<ByteBuffer> memory = new ArrayList<>();
    long end = 0;
    for (int i = 0; i < offsets.length; i++) {
      if (sizes.get(i) < OWN_PART_BYTES) {
        offsets[i] = end;
        end += roundUp8(sizes.get(i));
      }
    }
    for (int i = 0; i < offsets.length; i++) {
      int size = sizes.get(i);
      ByteBuffer bytes = buffers.get(i).detach();
      if (bytes != null) {
        memory.add(bytes);
      }
      if (size >= OWN_PART_BYTES) {
        int padded = (int) roundUp8(size); // the memory of a pool has a multiple of 8 bytes too
        for (int k = size; k < padded; k++) {
          bytes.put(k, (byte) 0);
        }
        offsets[i] = end;
        end += padded;
        large.add(DirectBuffer.view(bytes, 0, padded));
      } else if (size > 0) {
        small.add(DirectBuffer.view(bytes, 0, size));
      }
    }
    return new EncodedBatch(rows, message(rows, offsets, end), end, small, large, pool, memory);
  }

  // The tables of a RecordBatch message have a fixed shape, so their places are constants (bytes from the
  // beginning of the flatbuffer):
  //
  //    0 root          4 vtable of Message       16 Message         36 vtable of RecordBatch
  //   48 RecordBatch  68 count of nodes, then nodes from 72, count of buffers, then buffers
  private byte[] message(long rows, long[] offsets, long bodyBytes) {
    int nodesBytes = 16 * nodes.size();
    int size = 80 + nodesBytes + 16 * buffers.size();
    ByteBuffer out = ByteBuffer.allocate(ArrowMessage.PREFIX_BYTES + size).order(ByteOrder.LITTLE_ENDIAN);
    out.putInt(ArrowMessage.CONTINUATION).putInt(size);
    out.putInt(16); // 0: root
    shorts(out, 12, 20, 16, 18, 4, 8); // 4: vtable
    out.putInt(16 - 4); // 16: Message
    out.putInt(48 - 20); // 20: header
    out.putLong(bodyBytes); // 24: body length
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
    for (int i = 0; i < offsets.length; i++) {
      out.putLong(offsets[i]).putLong(sizes.get(i));
    }
    return out.array();
  }

  private static void shorts(ByteBuffer out, int... values) {
    for (int value : values) {
      out.putShort((short) value);
    }
  }
}
