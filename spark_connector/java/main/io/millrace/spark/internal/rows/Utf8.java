package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Whether strings are what they say. */
final class Utf8 {
  private static final long HIGH_BITS = 0x8080808080808080L;

  private Utf8() {}

  /** Fast where all is ASCII. */
  static boolean isValid(UTF8String text) {
    Object base = text.getBaseObject();
    long offset = text.getBaseOffset();
    int size = text.numBytes();
    int at = 0;
    while (at + 8 <= size && (Platform.getLong(base, offset + at) & HIGH_BITS) == 0) {
      at += 8;
    }
    while (at < size && Platform.getByte(base, offset + at) >= 0) {
      at++;
    }
    if (at == size) {
      return true;
    }
    try {
      Text.decodeUtf8(ByteBuffer.wrap(text.getBytes()));
      return true;
    } catch (BadInputException e) {
      return false;
    }
  }
}
