package io.millrace.spark.internal.cluster;

import java.util.LinkedHashMap;

/** Parameters of a request, in the order in which they were given. */
public final class Params extends LinkedHashMap<String, Object> {
  private static final long serialVersionUID = 1L;

  /** Parameters with one member; null: none. */
  public static Params of(String name, Object value) {
    return new Params().and(name, value);
  }

  /** Adds a member; null: does not. */
  public Params and(String name, Object value) {
    if (value != null) {
      put(name, value);
    }
    return this;
  }
}
