package io.millrace.spark.ml;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.param.Param;

/** A parameter that is an object of JSON: its values are text, numbers, Booleans, null, and Lists and Maps of them. */
class JsonParam<V> extends Param<Map<String, V>> {
  private static final long serialVersionUID = 1L;
  private static final int MAX_DEPTH = 100;

  JsonParam(String parent, String name, String doc) {
    super(parent, name, doc);
  }

  @Override
  public String jsonEncode(Map<String, V> value) {
    try {
      return Json.write(value);
    } catch (IllegalArgumentException e) {
      throw new MillraceException(StatusCode.INVALID_ARGUMENT, name() + ": " + e.getMessage());
    }
  }

  @Override
  public Map<String, V> jsonDecode(String json) {
    @SuppressWarnings("unchecked") // what was saved is what it was
    Map<String, V> members = (Map<String, V>) plain(parsed(this, json));
    return members;
  }

  /** The object that a parameter was saved as. */
  static JsonObject parsed(Param<?> param, String json) {
    try {
      return Json.parseObject(json, MAX_DEPTH);
    } catch (BadInputException e) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT, param.name() + " was saved as " + json + ": " + e.getMessage());
    }
  }

  private static Object plain(Object value) {
    if (value instanceof JsonObject) {
      Map<String, Object> members = new LinkedHashMap<>();
      ((JsonObject) value).members().forEach((name, member) -> members.put(name, plain(member)));
      return members;
    }
    if (value instanceof List) {
      List<Object> elements = new ArrayList<>();
      ((List<?>) value).forEach(element -> elements.add(plain(element)));
      return elements;
    }
    return value;
  }
}
