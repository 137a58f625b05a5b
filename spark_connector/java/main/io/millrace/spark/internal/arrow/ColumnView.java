package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * One column of a batch that {@link BatchDecoder} has checked. Rows are from 0; which getters fit the type
 * is the caller's to know. Views into the bytes that arrived, valid as long as these. Not thread-safe.
 */
public final class ColumnView {
  private final ArrowType type;
  private final int rows;
  private final ByteBuffer validity; // null: no row is null
  private final ByteBuffer offsets;
  private final ByteBuffer data;
  private final ColumnView[] children;

  ColumnView(
      ArrowType type, int rows, ByteBuffer validity, ByteBuffer offsets, ByteBuffer data, ColumnView... children) {
    this.type = type;
    this.rows = rows;
    this.validity = validity;
    this.offsets = offsets;
    this.data = data;
    this.children = children;
  }

  public ArrowType type() {
    return type;
  }

  public int rows() {
    return rows;
  }

  /** A list's elements: those of a row from {@link #listStart} to {@link #listEnd}. */
  public ColumnView child() {
    return children[0];
  }

  /** A field of a struct, row by row. */
  public ColumnView child(int i) {
    return children[i];
  }

  /** The first element of a row of a list. */
  public int listStart(int row) {
    return offsets == null ? row * type.listSize() : (int) offset(row);
  }

  /** After the last element of a row of a list. */
  public int listEnd(int row) {
    return listStart(row + 1);
  }

  public boolean hasNulls() {
    return validity != null;
  }

  public boolean isNull(int row) {
    return validity != null && (validity.get(row >> 3) >> (row & 7) & 1) == 0;
  }

  public boolean getBoolean(int row) {
    return (data.get(row >> 3) >> (row & 7) & 1) != 0;
  }

  public byte getByte(int row) {
    return data.get(row);
  }

  public short getShort(int row) {
    return data.getShort(2 * row);
  }

  public int getInt(int row) {
    return data.getInt(4 * row);
  }

  public long getLong(int row) {
    return data.getLong(8 * row);
  }

  public float getFloat(int row) {
    return data.getFloat(4 * row);
  }

  public double getDouble(int row) {
    return data.getDouble(8 * row);
  }

  /** The values of numbers as they lie, little-endian, bit by bit for bools; all bytes of text and binary. */
  public ByteBuffer values() {
    return data;
  }

  long offset(int row) {
    return type.id().isLarge() ? offsets.getLong(8 * row) : offsets.getInt(4 * row);
  }

  /** A row of utf8 or binary. */
  public ByteBuffer bytes(int row) {
    ByteBuffer view = data.duplicate();
    view.limit((int) offset(row + 1));
    view.position((int) offset(row));
    return view;
  }

  /** A copy of a row of utf8 or binary. */
  public byte[] getBytes(int row) {
    ByteBuffer view = bytes(row);
    byte[] copy = new byte[view.remaining()];
    view.get(copy);
    return copy;
  }

  public String getString(int row) {
    return new String(getBytes(row), StandardCharsets.UTF_8);
  }

  /** An integer, date or timestamp of any width as its value (uint64 above 2^63-1 as a negative number). */
  public long getInteger(int row) {
    switch (type.id()) {
      case INT8:
        return getByte(row);
      case UINT8:
        return getByte(row) & 0xff;
      case INT16:
        return getShort(row);
      case UINT16:
        return getShort(row) & 0xffff;
      case INT32:
      case DATE32:
        return getInt(row);
      case UINT32:
        return getInt(row) & 0xffffffffL;
      default:
        return getLong(row);
    }
  }
}
