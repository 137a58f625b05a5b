package io.millrace.spark.internal.base;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** An object that {@link Json} has read. A member that is missing or of another type is bad input. */
public final class JsonObject {
  private final Map<String, Object> members;

  JsonObject(Map<String, Object> members) {
    this.members = Collections.unmodifiableMap(members);
  }

  /** All members, in the order of the text. */
  public Map<String, Object> members() {
    return members;
  }

  public boolean has(String name) {
    return members.containsKey(name);
  }

  public String string(String name) throws BadInputException {
    return get(name, String.class, "a string");
  }

  /** "" if there is no such member. */
  public String stringOrEmpty(String name) throws BadInputException {
    return has(name) ? string(name) : "";
  }

  /** An integer from 0 to 2^63-1. */
  public long count(String name) throws BadInputException {
    long value = integer(name);
    if (value < 0) {
      throw new BadInputException(Text.quoted(name) + " is negative");
    }
    return value;
  }

  public long integer(String name) throws BadInputException {
    return get(name, Long.class, "an integer");
  }

  public boolean bool(String name) throws BadInputException {
    return get(name, Boolean.class, "true or false");
  }

  public JsonObject object(String name) throws BadInputException {
    return get(name, JsonObject.class, "an object");
  }

  @SuppressWarnings("unchecked")
  public List<Object> list(String name) throws BadInputException {
    return get(name, List.class, "an array");
  }

  /** One of these, by its name in lower case. */
  public <E extends Enum<E>> E constant(Class<E> type, String name) throws BadInputException {
    String value = string(name);
    for (E one : type.getEnumConstants()) {
      if (one.name().toLowerCase(Locale.ROOT).equals(value)) {
        return one;
      }
    }
    throw new BadInputException(Text.quoted(name) + " cannot be " + Text.quoted(value));
  }

  private <T> T get(String name, Class<T> type, String what) throws BadInputException {
    if (!members.containsKey(name)) {
      throw new BadInputException(Text.quoted(name) + " is missing");
    }
    Object value = members.get(name);
    if (!type.isInstance(value)) {
      throw new BadInputException(Text.quoted(name) + " is not " + what);
    }
    return type.cast(value);
  }

  @Override
  public String toString() {
    return Json.write(members);
  }
}
