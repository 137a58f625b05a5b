package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;

/**
 * Keeps direct memory that is not in use: the JVM takes milliseconds to zero and to free megabytes of it.
 * Sizes are powers of two, from 4 KiB. Thread-safe.
 */
public final class BufferPool {
  private static final int SMALLEST = 12;

  private final long maxKeptBytes;
  private final ArrayDeque<ByteBuffer>[] kept;
  private long keptBytes;

  /** A pool that keeps at most {@code maxKeptBytes} for later. */
  @SuppressWarnings({"unchecked", "rawtypes"})
  public BufferPool(long maxKeptBytes) {
    this.maxKeptBytes = maxKeptBytes;
    kept = new ArrayDeque[32];
    for (int i = 0; i < kept.length; i++) {
      kept[i] = new ArrayDeque<>();
    }
  }

  private static int classOf(int bytes) {
    return Math.max(SMALLEST, 32 - Integer.numberOfLeadingZeros(bytes - 1));
  }

  /** A buffer of at least that capacity, which is a multiple of 8, and any content. */
  ByteBuffer take(int bytes) {
    int sizeClass = classOf(Math.max(1, bytes));
    synchronized (this) {
      ByteBuffer buffer = kept[sizeClass].pollLast();
      if (buffer != null) {
        keptBytes -= buffer.capacity();
        return buffer;
      }
    }
    // The largest class is beyond what a buffer can be.
    int capacity = sizeClass >= 31 ? (int) Math.min((bytes + 7L) & ~7L, Integer.MAX_VALUE) : 1 << sizeClass;
    return ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Takes back a buffer that {@link #take} gave and that nobody reads any more. */
  void give(ByteBuffer buffer) {
    synchronized (this) {
      int capacity = buffer.capacity();
      if (Integer.bitCount(capacity) == 1 && keptBytes + capacity <= maxKeptBytes) {
        keptBytes += capacity;
        kept[classOf(capacity)].addLast(buffer);
      }
    }
  }

  /** Bytes kept for later. */
  public synchronized long keptBytes() {
    return keptBytes;
  }
}
