package io.millrace.spark.internal.tfrecord;

/** Numbers as TFRecord has them. */
final class LittleEndian {
  private LittleEndian() {}

  static int getInt(byte[] bytes, int at) {
    return bytes[at] & 255 | (bytes[at + 1] & 255) << 8 | (bytes[at + 2] & 255) << 16 | bytes[at + 3] << 24;
  }

  static long getLong(byte[] bytes, int at) {
    return getInt(bytes, at) & 0xffffffffL | (long) getInt(bytes, at + 4) << 32;
  }

  static void putInt(byte[] bytes, int at, int value) {
    for (int i = 0; i < 4; i++) {
      bytes[at + i] = (byte) (value >>> 8 * i);
    }
  }
}
