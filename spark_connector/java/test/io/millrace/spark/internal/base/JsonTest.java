package io.millrace.spark.internal.base;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.junit.Test;

public final class JsonTest {
  @Test
  public void readsEveryKindOfValueAndWritesItAgain() throws BadInputException {
    String text =
        "{\"a\":[1,-2,9223372036854775807,0.5,1e3],\"b\":{\"c\":null,\"d\":true,\"e\":false},"
            + "\"f\":\"quote \\\" slash \\\\ tab \\t bell \\u0007 \u00fc\u20ac\ud83d\ude00\",\"g\":{},\"h\":[]}";
    JsonObject object = Json.parseObject(text, 3);
    assertEquals(Arrays.<Object>asList(1L, -2L, Long.MAX_VALUE, 0.5, 1000.0), object.list("a"));
    assertEquals(text.replace("1e3", "1000.0"), Json.write(object));
  }

  @Test
  public void readsEscapesAndSpace() throws BadInputException {
    assertEquals("/\b\f\n\r\tA\ud83d\ude00", Json.parse(" \"\\/\\b\\f\\n\\r\\t\\u0041\\uD83d\\ude00\"\n", 1));
    assertEquals(Arrays.<Object>asList(1L, 2L), Json.parse("\t[ 1 ,\r 2 ] ", 1));
    assertNull(Json.parse("null", 0));
  }

  @Test
  public void refusesWhatIsNotJson() {
    String[] texts = {
      "", " ", "{", "}", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}", "{} {}", "nul", "NaN", "Infinity",
      "01", "1.", ".5", "-", "+1", "1e", "0x1", "\"", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\"",
      "\"\\ud800\\u0041\"", "\"\n\"", "'a'", "[1 2]", "\u00a01", "\"\\u\uff11234\""
    };
    for (String text : texts) {
      assertThrows(text, BadInputException.class, () -> Json.parse(text, 8));
    }
  }

  @Test
  public void limitsNesting() throws BadInputException {
    Json.parse("[[{\"a\":[]}]]", 4);
    assertThrows(BadInputException.class, () -> Json.parse("[[{\"a\":[]}]]", 3));
    char[] deep = new char[1 << 20];
    Arrays.fill(deep, '[');
    assertThrows(BadInputException.class, () -> Json.parse(new String(deep), 8));
  }

  @Test
  public void refusesWhatIsNotUtf8() {
    byte[] overlong = {'"', (byte) 0xc0, (byte) 0x80, '"'};
    assertThrows(BadInputException.class, () -> Json.parse(ByteBuffer.wrap(overlong), 8));
  }

  @Test
  public void namesTheMemberThatIsWrong() throws BadInputException {
    JsonObject object =
        Json.parseObject("{\"text\":\"x\",\"fraction\":1.0,\"less\":-1,\"great\":9223372036854775808}", 8);
    assertTrue(wrong(() -> object.string("absent")).contains("\"absent\" is missing"));
    assertTrue(wrong(() -> object.integer("text")).contains("\"text\" is not an integer"));
    assertTrue(wrong(() -> object.integer("fraction")).contains("\"fraction\""));
    assertTrue(wrong(() -> object.integer("great")).contains("\"great\""));
    assertTrue(wrong(() -> object.count("less")).contains("\"less\" is negative"));
    assertTrue(wrong(() -> object.object("text")).contains("\"text\""));
    assertEquals("", object.stringOrEmpty("absent"));
  }

  private interface Reading {
    void run() throws BadInputException;
  }

  private static String wrong(Reading reading) {
    return assertThrows(BadInputException.class, reading::run).getMessage();
  }
}
