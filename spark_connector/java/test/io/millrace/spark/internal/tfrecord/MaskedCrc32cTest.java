package io.millrace.spark.internal.tfrecord;

import static org.junit.Assert.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.Test;

public final class MaskedCrc32cTest {
  private static int masked(int crc) {
    return Integer.rotateRight(crc, 15) + 0xa282ead8;
  }

  @Test
  public void itIsThatOfTheStandardMasked() {
    byte[] digits = "123456789".getBytes(StandardCharsets.US_ASCII);
    assertEquals(masked(0xe3069283), MaskedCrc32c.of(digits, 0, 9));
    assertEquals(masked(0), MaskedCrc32c.of(digits, 0, 0));
    byte[] zeros = new byte[40];
    assertEquals(masked(0x8a9136aa), MaskedCrc32c.of(zeros, 8, 32)); // RFC 3720, B.4
  }

  @Test
  public void numbersAreLittleEndian() {
    byte[] bytes = new byte[9];
    LittleEndian.putInt(bytes, 1, 0x89abcdef);
    LittleEndian.putInt(bytes, 5, 0x81234567);
    assertEquals(0x89abcdef, LittleEndian.getInt(bytes, 1));
    assertEquals(0x8123456789abcdefL, LittleEndian.getLong(bytes, 1));
    assertEquals((byte) 0xef, bytes[1]);
  }
}
