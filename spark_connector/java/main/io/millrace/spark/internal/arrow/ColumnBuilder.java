package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * One column of a batch under way: a put method adds the next row. Which of them fit the column's type is
 * the caller's to know: it chooses once for a column, not once for a row. Not thread-safe.
 */
public final class ColumnBuilder {
  private final ArrowType type;
  private final DirectBuffer validity;
  private final DirectBuffer data;
  private final DirectBuffer offsets; // of utf8, binary and their large forms
  private final ColumnBuilder child; // of lists
  private int rows;
  private int nulls;

  ColumnBuilder(ArrowType type, BufferPool pool) {
    this.type = type;
    validity = new DirectBuffer(pool);
    data = new DirectBuffer(pool);
    offsets = type.id().isVariable() ? new DirectBuffer(pool) : null;
    child = type.isList() ? new ColumnBuilder(type.element().type(), pool) : null;
  }

  public ArrowType type() {
    return type;
  }

  /** Rows so far; of a list's child, elements. */
  public int rows() {
    return rows;
  }

  /** A list's elements; null for other types. */
  public ColumnBuilder child() {
    return child;
  }

  /** Bytes so far, validity left out. */
  long bytes() {
    return data.size() + (offsets == null ? 0 : offsets.size()) + (child == null ? 0 : child.bytes());
  }

  // ------------------------------------------------------------------------------------------- nulls

  /** Adds a null. */
  public void putNull() {
    switch (type.id()) {
      case BOOL:
        extendBits(data, rows);
        break;
      case FIXED_SIZE_LIST:
        child.putZeros(type.listSize());
        break;
      case UTF8:
      case BINARY:
      case LARGE_UTF8:
      case LARGE_BINARY:
        endVariable();
        break;
      default:
        data.extendZeroed(type.id().width);
    }
    markNull(rows);
    rows++;
  }

  /** Makes row {@code row}, which was added, null; of a list's child, an element. */
  public void markNull(int row) {
    int wanted = (row >> 3) + 1;
    if (validity.size() < wanted) {
      int at = validity.extend(wanted - validity.size());
      for (int i = at; i < wanted; i++) {
        validity.bytes().put(i, (byte) 0xff);
      }
    }
    int at = row >> 3;
    byte before = validity.bytes().get(at);
    byte after = (byte) (before & ~(1 << (row & 7)));
    validity.bytes().put(at, after);
    if (before != after) {
      nulls++;
    }
  }

  private void putZeros(int count) {
    if (type.id() == ArrowType.Id.BOOL) {
      for (int i = 0; i < count; i++) {
        extendBits(data, rows + i);
      }
    } else {
      data.extendZeroed(Math.multiplyExact(count, type.id().width));
    }
    rows += count;
  }

  private static void extendBits(DirectBuffer bits, int row) {
    if ((row & 7) == 0) {
      bits.extendZeroed(1);
    }
  }

  // ------------------------------------------------------------------------------------------ values

  public void putBoolean(boolean value) {
    extendBits(data, rows);
    if (value) {
      int at = rows >> 3;
      data.bytes().put(at, (byte) (data.bytes().get(at) | 1 << (rows & 7)));
    }
    rows++;
  }

  public void putByte(byte value) {
    int at = data.extend(1);
    data.bytes().put(at, value);
    rows++;
  }

  public void putShort(short value) {
    int at = data.extend(2);
    data.bytes().putShort(at, value);
    rows++;
  }

  public void putInt(int value) {
    int at = data.extend(4);
    data.bytes().putInt(at, value);
    rows++;
  }

  public void putLong(long value) {
    int at = data.extend(8);
    data.bytes().putLong(at, value);
    rows++;
  }

  public void putFloat(float value) {
    int at = data.extend(4);
    data.bytes().putFloat(at, value);
    rows++;
  }

  public void putDouble(double value) {
    int at = data.extend(8);
    data.bytes().putDouble(at, value);
    rows++;
  }

  /** A row of utf8 (which must be UTF-8) or binary. */
  public void putBytes(byte[] source, int from, int count) {
    int at = data.extend(count);
    ByteBuffer target = data.bytes().duplicate();
    target.position(at);
    target.put(source, from, count);
    endVariable();
    rows++;
  }

  public void putBytes(byte[] source) {
    putBytes(source, 0, source.length);
  }

  /**
   * The memory of a row of {@code count} bytes of utf8 or binary, to be filled by the caller before the next
   * put.
   *
   * @return its address
   */
  public long putBytesByAddress(int count) {
    int at = data.extend(count);
    endVariable();
    rows++;
    return data.address() + at;
  }

  private void endVariable() {
    boolean large = type.id().isLarge();
    if (offsets.size() == 0) {
      offsets.extendZeroed(large ? 8 : 4);
    }
    if (large) {
      int at = offsets.extend(8);
      offsets.bytes().putLong(at, data.size());
    } else {
      int at = offsets.extend(4);
      offsets.bytes().putInt(at, data.size());
    }
  }

  // ------------------------------------------------------------------------------------------- lists

  /**
   * The memory of one row of a list of numbers, {@code listSize} values in Arrow's form, to be filled by the
   * caller before the next put.
   *
   * @return its address
   */
  public long putListByAddress() {
    int at = child.data.extend(Math.multiplyExact(type.listSize(), child.type.id().width));
    child.rows += type.listSize();
    rows++;
    return child.data.address() + at;
  }

  /** A row whose elements were put into {@link #child}: exactly listSize of them. */
  public void endList() {
    rows++;
    if (child.rows != (long) rows * type.listSize()) {
      throw new IllegalStateException(
          "a row of " + (child.rows - (long) (rows - 1) * type.listSize()) + " elements in a " + type);
    }
  }

  public void putFloats(float[] values) {
    checkSize(values.length);
    int at = child.data.extend(4 * values.length);
    ByteBuffer target = child.data.bytes();
    for (int i = 0; i < values.length; i++) {
      target.putFloat(at + 4 * i, values[i]);
    }
    child.rows += values.length;
    rows++;
  }

  public void putDoubles(double[] values) {
    checkSize(values.length);
    int at = child.data.extend(8 * values.length);
    ByteBuffer target = child.data.bytes();
    for (int i = 0; i < values.length; i++) {
      target.putDouble(at + 8 * i, values[i]);
    }
    child.rows += values.length;
    rows++;
  }

  private void checkSize(int elements) {
    if (elements != type.listSize()) {
      throw new IllegalArgumentException("a row of " + elements + " elements in a " + type);
    }
  }

  // ---------------------------------------------------------------------------------------- finishing

  /** Adds this column's nodes and buffers to a message; empty afterwards. */
  void finish(BodyWriter body) {
    body.node(rows, nulls);
    if (nulls > 0) {
      int missing = ((rows + 7) >> 3) - validity.size();
      if (missing > 0) {
        int at = validity.extend(missing);
        for (int i = at; i < validity.size(); i++) {
          validity.bytes().put(i, (byte) 0xff);
        }
      }
    }
    body.buffer(validity, nulls > 0);
    if (child != null) {
      child.finish(body);
    } else {
      if (offsets != null) {
        if (offsets.size() == 0) {
          offsets.extendZeroed(type.id().isLarge() ? 8 : 4);
        }
        body.buffer(offsets, true);
      }
      body.buffer(data, true);
    }
    rows = 0;
    nulls = 0;
  }

  /** Forgets all rows. */
  void clear(List<ByteBuffer> memory) {
    for (DirectBuffer buffer : new DirectBuffer[] {validity, data, offsets}) {
      ByteBuffer detached = buffer == null ? null : buffer.detach();
      if (detached != null) {
        memory.add(detached);
      }
    }
    if (child != null) {
      child.clear(memory);
    }
    rows = 0;
    nulls = 0;
  }
}
