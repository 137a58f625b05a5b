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
  private final DirectBuffer data; // of what is no list and no struct
  private final DirectBuffer offsets; // of utf8, binary, lists and their large forms
  private final ColumnBuilder[] children;
  private int rows;
  private int nulls;

  ColumnBuilder(ArrowType type, BufferPool pool, DirectBuffer.Growth growth) {
    this.type = type;
    validity = new DirectBuffer(pool, growth);
    data = new DirectBuffer(pool, growth);
    offsets = type.id().hasOffsets() ? new DirectBuffer(pool, growth) : null;
    children = new ColumnBuilder[type.children().size()];
    for (int i = 0; i < children.length; i++) {
      children[i] = new ColumnBuilder(type.children().get(i).type(), pool, growth);
    }
  }

  public ArrowType type() {
    return type;
  }

  /** Rows so far; of a list's child, elements. */
  public int rows() {
    return rows;
  }

  /** A list's elements. */
  public ColumnBuilder child() {
    return children[0];
  }

  /** A field of a struct. */
  public ColumnBuilder child(int i) {
    return children[i];
  }

  /** Bytes so far, validity left out. */
  long bytes() {
    long bytes = data.size() + (offsets == null ? 0 : offsets.size());
    for (ColumnBuilder child : children) {
      bytes += child.bytes();
    }
    return bytes;
  }

  /** Adds its buffers, and those of its children, to {@code buffers}. */
  void listBuffers(List<DirectBuffer> buffers) {
    buffers.add(validity);
    if (offsets != null) {
      buffers.add(offsets);
    }
    buffers.add(data);
    for (ColumnBuilder child : children) {
      child.listBuffers(buffers);
    }
  }

  // ------------------------------------------------------------------------------------------- nulls

  /** Adds a null. */
  public void putNull() {
    putZeros(1);
    markNull(rows - 1);
  }

  /** Makes row {@code row}, which was added, null; of a list's child, an element. */
  public void markNull(int row) {
    int at = row >> 3;
    extendValidity(at + 1);
    byte before = validity.bytes().get(at);
    byte after = (byte) (before & ~(1 << (row & 7)));
    validity.bytes().put(at, after);
    if (before != after) {
      nulls++;
    }
  }

  /** Makes those of the rows {@code first} to {@code first + 63} null that have a bit; none of them was. */
  public void markNulls(int first, long bits) {
    if (bits == 0) {
      return;
    }
    int end = ((first + 63 - Long.numberOfLeadingZeros(bits)) >> 3) + 1;
    extendValidity(end);
    ByteBuffer bytes = validity.bytes();
    for (int at = first >> 3; at < end; at++) {
      bytes.put(at, (byte) (bytes.get(at) & ~bitsOfByte(bits, first, at)));
    }
    nulls += Long.bitCount(bits);
  }

  /** To so many bytes; rows are valid there. */
  private void extendValidity(int end) {
    if (validity.size() < end) {
      for (int i = validity.extend(end - validity.size()); i < end; i++) {
        validity.bytes().put(i, (byte) 0xff);
      }
    }
  }

  /** What belongs into byte {@code at} of bits for the rows from {@code first} on. */
  private static int bitsOfByte(long bits, int first, int at) {
    int skipped = at * 8 - first;
    return (int) (skipped < 0 ? bits << -skipped : bits >>> skipped);
  }

  /** Adds rows of zeros, of no bytes, of no elements. */
  private void putZeros(int count) {
    ArrowType.Id id = type.id();
    if (id == ArrowType.Id.BOOL) {
      for (int i = 0; i < count; i++) {
        extendBits(data, rows + i);
      }
    } else if (id.hasOffsets()) {
      for (int i = 0; i < count; i++) {
        putOffset(id.isList() ? children[0].rows : data.size());
      }
    } else if (id.isPrimitive()) {
      data.extendZeroed((long) count * id.width);
    } else {
      for (ColumnBuilder child : children) {
        child.putZeros(id == ArrowType.Id.STRUCT ? count : Math.multiplyExact(count, type.listSize()));
      }
    }
    rows += count;
  }

  private static void extendBits(DirectBuffer bits, int row) {
    if ((row & 7) == 0) {
      bits.extendZeroed(1);
    }
  }

  private void putOffset(int value) {
    boolean large = type.id().isLarge();
    if (offsets.size() == 0) {
      offsets.extendZeroed(large ? 8 : 4);
    }
    if (large) {
      int at = offsets.extend(8);
      offsets.bytes().putLong(at, value);
    } else {
      int at = offsets.extend(4);
      offsets.bytes().putInt(at, value);
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

  /** {@code count} rows, 64 at most, the first one in the lowest bit. */
  public void putBooleans(long bits, int count) {
    int end = (rows + count + 7) >> 3;
    data.extendZeroed(end - data.size());
    ByteBuffer bytes = data.bytes();
    for (int at = rows >> 3; at < end; at++) {
      bytes.put(at, (byte) (bytes.get(at) | bitsOfByte(bits, rows, at)));
    }
    rows += count;
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
    putOffset(data.size());
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
    long address = beginBytes(count);
    endBytes();
    return address;
  }

  /**
   * The memory of a row of {@code count} bytes of utf8 or binary, to be filled by the caller, and ended by {@link
   * #endBytes} if it is to stay.
   *
   * @return its address
   */
  public long beginBytes(int count) {
    int at = data.extend(count);
    return data.address() + at;
  }

  /** See {@link #beginBytes}. */
  public void endBytes() {
    putOffset(data.size());
    rows++;
  }

  /**
   * The memory of {@code count} rows of utf8 or binary, not large, one behind the other, of so many bytes each; to be
   * filled by the caller before the next put.
   *
   * @return the first one's address
   */
  public long putBytesByAddress(int[] sizes, int count) {
    long end = data.size();
    for (int i = 0; i < count; i++) {
      end += sizes[i];
    }
    int at = data.extend(end - data.size());
    if (offsets.size() == 0) {
      offsets.extendZeroed(4);
    }
    int to = offsets.extend(4L * count);
    ByteBuffer ends = offsets.bytes();
    int next = at;
    for (int i = 0; i < count; i++) {
      next += sizes[i];
      ends.putInt(to + 4 * i, next);
    }
    rows += count;
    return data.address() + at;
  }

  /**
   * The memory of {@code count} rows of numbers in Arrow's form, to be filled by the caller before the next put;
   * not for bools.
   *
   * @return its address
   */
  public long putRowsByAddress(int count) {
    int at = data.extend((long) count * type.id().width);
    rows += count;
    return data.address() + at;
  }

  // --------------------------------------------------------------------------------- lists and structs

  /**
   * The memory of one row of a list of {@code count} numbers in Arrow's form, to be filled by the caller
   * before the next put; not for bools. In a fixed-size list {@code count} is its size.
   *
   * @return its address
   */
  public long putListByAddress(int count) {
    checkSize(count);
    ColumnBuilder child = children[0];
    int at = child.data.extend((long) count * child.type.id().width);
    child.rows += count;
    endRow();
    return child.data.address() + at;
  }

  /** A row of a list, whose elements were put into {@link #child()}: listSize of them where that is fixed. */
  public void endList() {
    if (type.id() == ArrowType.Id.FIXED_SIZE_LIST && children[0].rows != (rows + 1L) * type.listSize()) {
      throw new IllegalStateException(
          "a row of " + (children[0].rows - (long) rows * type.listSize()) + " elements in a " + type);
    }
    endRow();
  }

  /** A row of a struct, each of whose fields was put into its {@link #child(int)}. */
  public void endStruct() {
    rows++;
    for (int i = 0; i < children.length; i++) {
      if (children[i].rows != rows) {
        throw new IllegalStateException(
            "field " + type.children().get(i) + " has " + children[i].rows + " rows of " + rows);
      }
    }
  }

  public void putFloats(float[] values) {
    checkSize(values.length);
    ColumnBuilder child = children[0];
    int at = child.data.extend(4L * values.length);
    ByteBuffer target = child.data.bytes();
    for (int i = 0; i < values.length; i++) {
      target.putFloat(at + 4 * i, values[i]);
    }
    child.rows += values.length;
    endRow();
  }

  public void putDoubles(double[] values) {
    checkSize(values.length);
    ColumnBuilder child = children[0];
    int at = child.data.extend(8L * values.length);
    ByteBuffer target = child.data.bytes();
    for (int i = 0; i < values.length; i++) {
      target.putDouble(at + 8 * i, values[i]);
    }
    child.rows += values.length;
    endRow();
  }

  private void endRow() {
    if (offsets != null) {
      putOffset(children[0].rows);
    }
    rows++;
  }

  private void checkSize(int elements) {
    if (type.listSize() != 0 && elements != type.listSize()) {
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
    if (offsets != null) {
      if (offsets.size() == 0) {
        offsets.extendZeroed(type.id().isLarge() ? 8 : 4);
      }
      body.buffer(offsets, true);
    }
    if (children.length == 0) {
      body.buffer(data, true);
    }
    for (ColumnBuilder child : children) {
      child.finish(body);
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
    for (ColumnBuilder child : children) {
      child.clear(memory);
    }
    rows = 0;
    nulls = 0;
  }
}
