package io.millrace.spark.internal.arrow;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Bytes outside of the Java heap that grow at their end, little-endian.
 *
 * <p>Outside of the heap because a socket would copy an array once for each piece that it takes. Who writes
 * by {@link #address} (Spark's Platform.copyMemory) first calls {@link #extend}. Not thread-safe.
 */
public final class DirectBuffer {
  // A buffer is sent as it is, and a part of a message has at most so much (docs/feed_protocol.md, section 1).
  private static final long MAX_BYTES = 1L << 30;
  // Of java.nio.Buffer; sun.misc.Unsafe is the one way to it that Java 8 to 24 have in common, and it is
  // read by reflection since `javac --release 8` does not show it.
  private static final Object UNSAFE;
  private static final Method GET_LONG;
  private static final long ADDRESS_OFFSET;

  static {
    try {
      Class<?> unsafe = Class.forName("sun.misc.Unsafe");
      Field instance = unsafe.getDeclaredField("theUnsafe");
      instance.setAccessible(true);
      UNSAFE = instance.get(null);
      GET_LONG = unsafe.getMethod("getLong", Object.class, long.class);
      Method offset = unsafe.getMethod("objectFieldOffset", Field.class);
      ADDRESS_OFFSET = (Long) offset.invoke(UNSAFE, Buffer.class.getDeclaredField("address"));
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  // Memory that is taken at once where the batch before has needed it, so that little is copied.
  private static final int MAX_AHEAD_BYTES = 4 << 20;

  /** Counts how often the buffers of a batch took more memory: between two of these they hold no surprise. */
  static final class Growth {
    int count;
  }

  private final BufferPool pool;
  private final Growth growth;
  private ByteBuffer bytes;
  private long address;
  private int size;
  private int sizeBefore;
  private int lentAt = -1; // where bytes begin in memory that was lent; -1: they are the pool's

  DirectBuffer(BufferPool pool, Growth growth) {
    this.pool = pool;
    this.growth = growth;
  }

  public int size() {
    return size;
  }

  /** The bytes as they lie; valid until the next {@link #extend}. */
  public ByteBuffer bytes() {
    return bytes;
  }

  /** Of the first byte in memory; valid until the next {@link #extend}. */
  public long address() {
    return address;
  }

  /** How much the batch before had here. */
  int sizeBefore() {
    return sizeBefore;
  }

  /** Takes the bytes from {@code from} to {@code to} of lent memory, until more are needed. For one that is empty. */
  void useLent(ByteBuffer memory, int from, int to) {
    setBytes(view(memory, from, to));
    lentAt = from;
  }

  /** Where its bytes begin in the memory that was lent; -1 if they lie elsewhere. */
  int lentAt() {
    return lentAt;
  }

  /** Leaves memory that was lent, with what is there. */
  void leaveLent() {
    if (lentAt >= 0 && size > 0) {
      moveTo(pool.take(size));
    } else if (lentAt >= 0) {
      detach();
    }
  }

  /** Adds {@code count} bytes of any content at the end; returns where they begin. */
  public int extend(long count) {
    int at = size;
    long end = at + count;
    if (bytes == null || end > bytes.capacity()) {
      growTo(end);
    }
    size = (int) end;
    return at;
  }

  /** The same, zeroed. */
  int extendZeroed(long count) {
    int at = extend(count);
    for (int i = at; i < size; i++) {
      bytes.put(i, (byte) 0);
    }
    return at;
  }

  private void growTo(long end) {
    if (end > MAX_BYTES) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT,
          "more than " + MAX_BYTES + " bytes in one column, and a batch has at most so many: cut the row's values into "
              + "several rows");
    }
    growth.count++;
    long wanted = bytes == null ? sizeBefore : Math.min(2L * bytes.capacity(), MAX_BYTES);
    wanted = Math.max(end, wanted);
    moveTo(pool.take((int) wanted));
  }

  private void moveTo(ByteBuffer wider) {
    if (bytes != null) {
      wider.duplicate().put(view(bytes, 0, size));
    }
    if (bytes != null && lentAt < 0) {
      pool.give(bytes);
    }
    lentAt = -1;
    setBytes(wider);
  }

  private void setBytes(ByteBuffer value) {
    bytes = value;
    try {
      address = (Long) GET_LONG.invoke(UNSAFE, bytes, ADDRESS_OFFSET);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Hands over the memory, null if there is none of the pool's; this begins anew, empty. */
  ByteBuffer detach() {
    ByteBuffer detached = lentAt >= 0 ? null : bytes;
    lentAt = -1;
    sizeBefore = Math.min(size, MAX_AHEAD_BYTES);
    bytes = null;
    address = 0;
    size = 0;
    return detached;
  }

  static ByteBuffer view(ByteBuffer bytes, int from, int to) {
    ByteBuffer view = bytes.duplicate();
    view.clear();
    view.limit(to);
    view.position(from);
    // A slice: what sends it looks at the capacity.
    return view.slice().order(ByteOrder.LITTLE_ENDIAN);
  }
}
