package io.millrace.spark.internal.tfrecord;

/** TFRecord's checksum: CRC-32C, turned and moved. (Java 8 has no CRC-32C.) */
final class MaskedCrc32c {
  private static final int POLYNOMIAL = 0x82f63b78; // Castagnoli's, reversed
  private static final int MASK_DELTA = 0xa282ead8;
  /** What eight bytes at a time do: TABLES[k][b] is byte b with k zero bytes after it. */
  private static final int[][] TABLES = tables();

  private MaskedCrc32c() {}

  private static int[][] tables() {
    int[][] tables = new int[8][256];
    for (int b = 0; b < 256; b++) {
      int crc = b;
      for (int bit = 0; bit < 8; bit++) {
        crc = (crc >>> 1) ^ ((crc & 1) == 0 ? 0 : POLYNOMIAL);
      }
      tables[0][b] = crc;
    }
    for (int b = 0; b < 256; b++) {
      for (int k = 1; k < 8; k++) {
        int before = tables[k - 1][b];
        tables[k][b] = (before >>> 8) ^ tables[0][before & 255];
      }
    }
    return tables;
  }

  /** Of {@code length} bytes. */
  static int of(byte[] bytes, int offset, int length) {
    int crc = -1;
    int at = offset;
    int end = offset + length;
    for (; end - at >= 8; at += 8) {
      int low = crc ^ LittleEndian.getInt(bytes, at);
      int high = LittleEndian.getInt(bytes, at + 4);
      crc =
          TABLES[7][low & 255] ^ TABLES[6][low >>> 8 & 255] ^ TABLES[5][low >>> 16 & 255] ^ TABLES[4][low >>> 24]
              ^ TABLES[3][high & 255] ^ TABLES[2][high >>> 8 & 255] ^ TABLES[1][high >>> 16 & 255]
              ^ TABLES[0][high >>> 24];
    }
    for (; at < end; at++) {
      crc = (crc >>> 8) ^ TABLES[0][(crc ^ bytes[at]) & 255];
    }
    crc = ~crc;
    return Integer.rotateRight(crc, 15) + MASK_DELTA;
  }
}
