package io.millrace.spark.internal.base;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON (RFC 8259), strictly: a value, no text behind it, valid UTF-8, a limit on nesting.
 *
 * <p>Values are null, Boolean, String, Long (an integer that fits), Double (any other number), List and
 * {@link JsonObject}. Our own, because Spark's Jackson differs between the Sparks that this jar serves.
 */
public final class Json {
  private final String text;
  private final int maxDepth;
  private int at;

  private Json(String text, int maxDepth) {
    this.text = text;
    this.maxDepth = maxDepth;
  }

  /** The value of UTF-8 bytes; {@code maxDepth} counts arrays and objects, the outermost is 1. */
  public static Object parse(ByteBuffer utf8, int maxDepth) throws BadInputException {
    return parse(Text.decodeUtf8(utf8), maxDepth);
  }

  public static Object parse(String text, int maxDepth) throws BadInputException {
    Json parser = new Json(text, maxDepth);
    Object value = parser.value(0);
    parser.skipSpace();
    if (parser.at != text.length()) {
      throw parser.bad("text behind the value");
    }
    return value;
  }

  /** As {@link #parse}, for an object. */
  public static JsonObject parseObject(ByteBuffer utf8, int maxDepth) throws BadInputException {
    return object(parse(utf8, maxDepth));
  }

  public static JsonObject parseObject(String text, int maxDepth) throws BadInputException {
    return object(parse(text, maxDepth));
  }

  private static JsonObject object(Object value) throws BadInputException {
    if (!(value instanceof JsonObject)) {
      throw new BadInputException("the JSON text is not an object");
    }
    return (JsonObject) value;
  }

  private BadInputException bad(String what) {
    return new BadInputException("bad JSON at character " + at + ": " + what);
  }

  private void skipSpace() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() throws BadInputException {
    if (at == text.length()) {
      throw bad("it ends too early");
    }
    return text.charAt(at);
  }

  private boolean take(char c) {
    if (at < text.length() && text.charAt(at) == c) {
      at++;
      return true;
    }
    return false;
  }

  private Object value(int depth) throws BadInputException {
    skipSpace();
    char c = peek();
    if (c == '{' || c == '[') {
      if (depth == maxDepth) {
        throw bad("nested deeper than " + maxDepth);
      }
      at++;
      return c == '{' ? members(depth + 1) : elements(depth + 1);
    }
    if (c == '"') {
      at++;
      return string();
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
      return number();
    }
    return word();
  }

  private Object word() throws BadInputException {
    if (text.startsWith("true", at)) {
      at += 4;
      return Boolean.TRUE;
    }
    if (text.startsWith("false", at)) {
      at += 5;
      return Boolean.FALSE;
    }
    if (text.startsWith("null", at)) {
      at += 4;
      return null;
    }
    throw bad("no value");
  }

  private JsonObject members(int depth) throws BadInputException {
    Map<String, Object> members = new LinkedHashMap<>();
    skipSpace();
    if (take('}')) {
      return new JsonObject(members);
    }
    do {
      skipSpace();
      if (!take('"')) {
        throw bad("no name");
      }
      String name = string();
      skipSpace();
      if (!take(':')) {
        throw bad("no colon");
      }
      members.put(name, value(depth));
      skipSpace();
    } while (take(','));
    if (!take('}')) {
      throw bad("no comma and no brace");
    }
    return new JsonObject(members);
  }

  private List<Object> elements(int depth) throws BadInputException {
    List<Object> elements = new ArrayList<>();
    skipSpace();
    if (take(']')) {
      return elements;
    }
    do {
      elements.add(value(depth));
      skipSpace();
    } while (take(','));
    if (!take(']')) {
      throw bad("no comma and no bracket");
    }
    return elements;
  }

  private String string() throws BadInputException {
    StringBuilder out = new StringBuilder();
    while (true) {
      char c = peek();
      at++;
      if (c == '"') {
        return out.toString();
      }
      if (c < ' ') {
        throw bad("a control character in a string");
      }
      if (c != '\\') {
        out.append(c);
        continue;
      }
      char escape = peek();
      at++;
      int simple = "\"\\/bfnrt".indexOf(escape);
      if (simple >= 0) {
        out.append("\"\\/\b\f\n\r\t".charAt(simple));
      } else if (escape == 'u') {
        unicode(out);
      } else {
        throw bad("an unknown escape");
      }
    }
  }

  private void unicode(StringBuilder out) throws BadInputException {
    char first = hex4();
    if (Character.isLowSurrogate(first)) {
      throw bad("half a character");
    }
    out.append(first);
    if (Character.isHighSurrogate(first)) {
      if (!text.startsWith("\\u", at)) {
        throw bad("half a character");
      }
      at += 2;
      char second = hex4();
      if (!Character.isLowSurrogate(second)) {
        throw bad("half a character");
      }
      out.append(second);
    }
  }

  private char hex4() throws BadInputException {
    int code = 0;
    for (int i = 0; i < 4; i++) {
      char c = peek();
      int digit = c < 128 ? Character.digit(c, 16) : -1;
      if (digit < 0) {
        throw bad("no hex digit");
      }
      code = code * 16 + digit;
      at++;
    }
    return (char) code;
  }

  private void digits() throws BadInputException {
    int begin = at;
    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
      at++;
    }
    if (at == begin) {
      throw bad("no digit");
    }
  }

  private Object number() throws BadInputException {
    int begin = at;
    take('-');
    if (!take('0')) {
      digits();
    }
    boolean whole = true;
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) {
        take('-');
      }
      digits();
    }
    String number = text.substring(begin, at);
    if (whole) {
      try {
        return Long.valueOf(number);
      } catch (NumberFormatException e) {
        return Double.valueOf(number);
      }
    }
    return Double.valueOf(number);
  }

  // ---------------------------------------------------------------------------------------- writing

  /**
   * The text of a value as {@link #parse} returns them; any Map, Iterable and Number will do as well. No
   * space in it, members in the order of the Map.
   */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof CharSequence) {
      writeString(value.toString(), out);
    } else if (value instanceof JsonObject) {
      write(((JsonObject) value).members(), out);
    } else if (value instanceof Map) {
      char before = '{';
      for (Map.Entry<?, ?> member : ((Map<?, ?>) value).entrySet()) {
        out.append(before);
        before = ',';
        writeString(member.getKey().toString(), out);
        out.append(':');
        write(member.getValue(), out);
      }
      out.append(before == '{' ? "{}" : "}");
    } else if (value instanceof Iterable) {
      char before = '[';
      for (Object element : (Iterable<?>) value) {
        out.append(before);
        before = ',';
        write(element, out);
      }
      out.append(before == '[' ? "[]" : "]");
    } else if (value == null || value instanceof Boolean || value instanceof Number) {
      if (value instanceof Double && (((Double) value).isNaN() || ((Double) value).isInfinite())) {
        throw new IllegalArgumentException(value + " cannot be written as JSON");
      }
      out.append(value);
    } else {
      throw new IllegalArgumentException(value.getClass() + " cannot be written as JSON");
    }
  }

  private static void writeString(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      int simple = "\"\\\b\f\n\r\t".indexOf(c);
      if (simple >= 0) {
        out.append('\\').append("\"\\bfnrt".charAt(simple));
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
