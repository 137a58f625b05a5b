package io.millrace.spark.internal.base;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;

/** Small helpers around text. */
public final class Text {
  private static final SecureRandom RANDOM = new SecureRandom();

  private Text() {}

  /** The text of UTF-8 bytes; unlike String's constructor it does not replace what is no UTF-8. */
  public static String decodeUtf8(ByteBuffer bytes) throws BadInputException {
    try {
      return StandardCharsets.UTF_8
          .newDecoder()
          .onMalformedInput(CodingErrorAction.REPORT)
          .onUnmappableCharacter(CodingErrorAction.REPORT)
          .decode(bytes.duplicate())
          .toString();
    } catch (CharacterCodingException e) {
      throw new BadInputException("the text is not valid UTF-8");
    }
  }

  /** {@code bytes} random bytes as hex digits, unguessable. */
  public static String randomHex(int bytes) {
    byte[] random = new byte[bytes];
    RANDOM.nextBytes(random);
    return hex(random);
  }

  /** As lower-case hex digits. */
  public static String hex(byte[] bytes) {
    StringBuilder hex = new StringBuilder();
    for (byte b : bytes) {
      hex.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
    }
    return hex.toString();
  }

  /** A random number other than 0. */
  public static long randomNonZero() {
    long random = 0;
    while (random == 0) {
      random = RANDOM.nextLong();
    }
    return random;
  }

  /** A name of a peer's as it may stand in a message: at most 100 characters, harmless to a terminal. */
  public static String quoted(String name) {
    int end = Math.min(name.length(), 100);
    return "\"" + escaped(name.substring(0, end)) + (end < name.length() ? "...\"" : "\"");
  }

  /** What a peer says, as it may stand in a message: harmless to a terminal. */
  public static String escaped(String text) {
    StringBuilder out = new StringBuilder(text.length());
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (Character.isISOControl(c)) {
        out.append(String.format("\\x%02x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.toString();
  }
}
