package io.millrace.spark.internal.arrow;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;

/**
 * Reads FlatBuffers that nobody has verified: every access is checked against the bytes there are, and
 * nothing is allocated by what these say. {@code slot} is the number of a field in the order of its
 * declaration; a union takes two.
 */
final class FlatTable {
  /** Elements of equal size. */
  static final class Vector {
    static final Vector EMPTY = new Vector(null, 0, 0, 0);

    private final ByteBuffer bytes;
    private final int first;
    private final int size;
    private final int elementBytes;

    private Vector(ByteBuffer bytes, int first, int size, int elementBytes) {
      this.bytes = bytes;
      this.first = first;
      this.size = size;
      this.elementBytes = elementBytes;
    }

    int size() {
      return size;
    }

    /** The i64 at byte {@code offset} of element {@code i}. */
    long int64(int i, int offset) {
      return bytes.getLong(first + i * elementBytes + offset);
    }

    FlatTable table(int i) throws BadInputException {
      int at = first + i * elementBytes;
      return at(bytes, at + (bytes.getInt(at) & 0xffffffffL));
    }
  }

  private final ByteBuffer bytes; // little-endian, position 0
  private final int table;
  private final int tableBytes;
  private final int vtable;
  private final int vtableBytes;

  private FlatTable(ByteBuffer bytes, int table, int tableBytes, int vtable, int vtableBytes) {
    this.bytes = bytes;
    this.table = table;
    this.tableBytes = tableBytes;
    this.vtable = vtable;
    this.vtableBytes = vtableBytes;
  }

  /** The table that the first four bytes point to; {@code bytes} is little-endian, from position 0. */
  static FlatTable root(ByteBuffer bytes) throws BadInputException {
    require(bytes, 0, 4);
    return at(bytes, bytes.getInt(0) & 0xffffffffL);
  }

  private static void require(ByteBuffer bytes, long at, long size) throws BadInputException {
    if (at < 0 || size > bytes.limit() || at > bytes.limit() - size) {
      throw new BadInputException("malformed flatbuffer: it points outside of itself");
    }
  }

  private static FlatTable at(ByteBuffer bytes, long at) throws BadInputException {
    require(bytes, at, 4);
    long vtable = at - bytes.getInt((int) at);
    require(bytes, vtable, 4);
    int vtableBytes = bytes.getShort((int) vtable) & 0xffff;
    int tableBytes = bytes.getShort((int) vtable + 2) & 0xffff;
    if (vtableBytes < 4 || vtableBytes % 2 != 0 || tableBytes < 4) {
      throw new BadInputException("malformed flatbuffer: an impossible table");
    }
    require(bytes, vtable, vtableBytes);
    require(bytes, at, tableBytes);
    return new FlatTable(bytes, (int) at, tableBytes, (int) vtable, vtableBytes);
  }

  /** Position of the field's {@code size} inline bytes, -1 if it is absent. */
  private int find(int slot, int size) throws BadInputException {
    int entry = 4 + 2 * slot;
    if (entry + 2 > vtableBytes) {
      return -1;
    }
    int offset = bytes.getShort(vtable + entry) & 0xffff;
    if (offset == 0) {
      return -1;
    }
    if (offset < 4 || offset + size > tableBytes) {
      throw new BadInputException("malformed flatbuffer: a field outside of its table");
    }
    return table + offset;
  }

  long int64(int slot, long otherwise) throws BadInputException {
    int at = find(slot, 8);
    return at < 0 ? otherwise : bytes.getLong(at);
  }

  int int32(int slot, int otherwise) throws BadInputException {
    int at = find(slot, 4);
    return at < 0 ? otherwise : bytes.getInt(at);
  }

  int int16(int slot, int otherwise) throws BadInputException {
    int at = find(slot, 2);
    return at < 0 ? otherwise : bytes.getShort(at);
  }

  int uint8(int slot, int otherwise) throws BadInputException {
    int at = find(slot, 1);
    return at < 0 ? otherwise : bytes.get(at) & 0xff;
  }

  /** Position that the offset field points to, where four bytes can be read; -1 if it is absent. */
  private long follow(int slot) throws BadInputException {
    int at = find(slot, 4);
    if (at < 0) {
      return -1;
    }
    long target = at + (bytes.getInt(at) & 0xffffffffL);
    require(bytes, target, 4);
    return target;
  }

  /** null if it is absent. */
  FlatTable table(int slot) throws BadInputException {
    long at = follow(slot);
    return at < 0 ? null : at(bytes, at);
  }

  /** "" if it is absent. */
  String string(int slot) throws BadInputException {
    Vector text = vector(slot, 1);
    if (text.size() == 0) {
      return "";
    }
    ByteBuffer slice = bytes.duplicate();
    slice.limit(text.first + text.size());
    slice.position(text.first);
    return Text.decodeUtf8(slice);
  }

  /** Empty if it is absent. */
  Vector vector(int slot, int elementBytes) throws BadInputException {
    long at = follow(slot);
    if (at < 0) {
      return Vector.EMPTY;
    }
    long size = bytes.getInt((int) at) & 0xffffffffL;
    require(bytes, at + 4, size * elementBytes);
    return new Vector(bytes, (int) at + 4, (int) size, elementBytes);
  }
}
