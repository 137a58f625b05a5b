package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/**
 * Copies of small rows on their way into columns: 64 rows, one column after the other, take half as long as each row
 * for itself, which asks every column what it is. Not thread-safe.
 *
 * <p>UnsafeRow: a bit for each null in words of 64, a word for each field, then what the words of texts and bytes name
 * by offset and size, padded with zeros to words (checked for 3.5 to 4.3).
 */
final class RowBlock {
  private static final int ROWS = 64;
  private static final int BYTES = 32 << 10; // of a processor's nearest cache
  // What has more is mostly texts or bytes, which a second copy would cost more than it saves.
  private static final int TEXT_BYTES = 256;
  // So many rows are worth it at least.
  private static final int LEAST_ROWS = 16;

  private final ColumnBuilder[] columns;
  private final String[] names;
  private final int nullBytes;
  private final int rowBytes; // that a row may have
  private final byte[] bytes = new byte[BYTES + 8];
  private final long[] starts = new long[ROWS]; // where they begin in bytes, as Platform says it
  private final int[] sizes = new int[ROWS]; // of a column's texts
  private final long[] nulls; // by column, a bit for each row
  private int rows;
  private int used;
  private int badRow = -1; // that is no UTF-8

  private RowBlock(ColumnBuilder[] columns, String[] names) {
    this.columns = columns;
    this.names = names;
    nulls = new long[columns.length];
    nullBytes = UnsafeRow.calculateBitSetWidthInBytes(columns.length);
    rowBytes = Math.min(nullBytes + 8 * columns.length + TEXT_BYTES, BYTES / LEAST_ROWS);
  }

  /** For these columns; null if there are others than numbers, bools, texts and bytes. */
  static RowBlock create(ColumnBuilder[] columns, String[] names) {
    for (ColumnBuilder column : columns) {
      ArrowType.Id id = column.type().id();
      if (!id.isPrimitive() && id != ArrowType.Id.UTF8 && id != ArrowType.Id.BINARY) {
        return null;
      }
    }
    return new RowBlock(columns, names);
  }

  int rows() {
    return rows;
  }

  /** The row at which {@link #move} has failed; -1 if at none. */
  int badRow() {
    return badRow;
  }

  void clear() {
    rows = 0;
    used = 0;
    badRow = -1;
    Arrays.fill(nulls, 0);
  }

  /** Copies a row; false, and nothing happens, if it is too large or there are as many as there may be. */
  boolean add(Object row) {
    if (rows == ROWS || !(row instanceof UnsafeRow)) {
      return false;
    }
    UnsafeRow unsafe = (UnsafeRow) row;
    int size = unsafe.getSizeInBytes();
    if (size > rowBytes || used + size > BYTES) {
      return false;
    }
    Object base = unsafe.getBaseObject();
    long from = unsafe.getBaseOffset();
    long to = Platform.BYTE_ARRAY_OFFSET + used;
    for (int at = 0; at < size; at += 8) {
      Platform.putLong(bytes, to + at, Platform.getLong(base, from + at));
    }
    for (int at = 0; at < nullBytes; at += 8) {
      for (long word = Platform.getLong(bytes, to + at); word != 0; word &= word - 1) {
        nulls[at * 8 + Long.numberOfTrailingZeros(word)] |= 1L << rows;
      }
    }
    starts[rows++] = to;
    used += size;
    return true;
  }

  /** Adds the rows to the columns; empty afterwards. */
  void move() {
    for (int i = 0; i < columns.length; i++) {
      ColumnBuilder column = columns[i];
      int first = column.rows();
      long field = nullBytes + 8L * i;
      switch (column.type().id()) {
        case BOOL:
          moveBooleans(field, column);
          break;
        case UTF8:
          moveTexts(field, column, nulls[i], names[i]);
          break;
        case BINARY:
          moveTexts(field, column, nulls[i], null);
          break;
        default:
          moveNumbers(field, column);
      }
      column.markNulls(first, nulls[i]);
    }
    clear();
  }

  private void moveBooleans(long field, ColumnBuilder column) {
    long bits = 0;
    for (int row = 0; row < rows; row++) {
      bits |= (long) (Platform.getByte(bytes, starts[row] + field) & 1) << row;
    }
    column.putBooleans(bits, rows);
  }

  private void moveNumbers(long field, ColumnBuilder column) {
    long to = column.putRowsByAddress(rows);
    switch (column.type().id()) {
      case INT8:
        for (int row = 0; row < rows; row++) {
          Platform.putByte(null, to + row, Platform.getByte(bytes, starts[row] + field));
        }
        break;
      case INT16:
        for (int row = 0; row < rows; row++) {
          Platform.putShort(null, to + 2L * row, Platform.getShort(bytes, starts[row] + field));
        }
        break;
      case INT32:
      case DATE32:
      case FLOAT32:
        for (int row = 0; row < rows; row++) {
          Platform.putInt(null, to + 4L * row, Platform.getInt(bytes, starts[row] + field));
        }
        break;
      default:
        for (int row = 0; row < rows; row++) {
          Platform.putLong(null, to + 8L * row, Platform.getLong(bytes, starts[row] + field));
        }
    }
  }

  /** {@code name}: of a column of texts, null for one of bytes. */
  private void moveTexts(long field, ColumnBuilder column, long nulls, String name) {
    int total = 0;
    for (int row = 0; row < rows; row++) {
      boolean isNull = (nulls >>> row & 1) != 0;
      sizes[row] = isNull ? 0 : (int) Platform.getLong(bytes, starts[row] + field);
      total += sizes[row];
    }
    long begin = column.putBytesByAddress(sizes, rows);
    long end = begin + total;
    long to = begin;
    long seen = 0;
    for (int row = 0; row < rows; row++) {
      int size = sizes[row];
      long from = starts[row] + (Platform.getLong(bytes, starts[row] + field) >>> 32);
      if (to + size + 7 <= end) {
        // In words: what is too much of the last one, zeros, is written over by the next texts.
        for (int at = 0; at < size; at += 8) {
          long word = Platform.getLong(bytes, from + at);
          seen |= word;
          Platform.putLong(null, to + at, word);
        }
      } else {
        seen |= Utf8.copy(bytes, from, size, to);
      }
      to += size;
    }
    if (name != null && !Utf8.isAscii(seen)) {
      to = begin;
      for (int row = 0; row < rows; row++) {
        if (!Utf8.isValid(to, sizes[row])) {
          badRow = row;
          throw FieldEncoder.notUtf8(name);
        }
        to += sizes[row];
      }
    }
  }
}
