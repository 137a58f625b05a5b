package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import org.apache.spark.unsafe.Platform;

/** Strings, which are UTF-8 if they are what they say. */
final class Utf8 {
  private static final long HIGH_BITS = 0x8080808080808080L;

  private Utf8() {}

  /**
   * Copies {@code size} bytes of memory as Spark names it to an address.
   *
   * @return all of them in one word, for {@link #isAscii}
   */
  static long copy(Object base, long offset, int size, long target) {
    // Most texts are short: a call of copyMemory would take longer than this, and every byte is looked at anyway.
    long seen = 0;
    int at = 0;
    for (; at + 8 <= size; at += 8) {
      long word = Platform.getLong(base, offset + at);
      seen |= word;
      Platform.putLong(null, target + at, word);
    }
    if (size >= 8) {
      if (at < size) { // the last word once more, with what is left of it
        long word = Platform.getLong(base, offset + size - 8);
        seen |= word;
        Platform.putLong(null, target + size - 8, word);
      }
    } else {
      for (; at < size; at++) {
        byte one = Platform.getByte(base, offset + at);
        seen |= one;
        Platform.putByte(null, target + at, one);
      }
    }
    return seen;
  }

  /** Whether bytes are ASCII, of which {@code seen} is all that was seen. */
  static boolean isAscii(long seen) {
    return (seen & HIGH_BITS) == 0;
  }

  static boolean isValid(long address, int size) {
    long seen = 0;
    int at = 0;
    for (; at + 8 <= size; at += 8) {
      seen |= Platform.getLong(null, address + at);
    }
    for (; at < size; at++) {
      seen |= Platform.getByte(null, address + at);
    }
    if (isAscii(seen)) {
      return true;
    }
    byte[] bytes = new byte[size];
    Platform.copyMemory(null, address, bytes, Platform.BYTE_ARRAY_OFFSET, size);
    try {
      Text.decodeUtf8(ByteBuffer.wrap(bytes));
      return true;
    } catch (BadInputException e) {
      return false;
    }
  }
}
