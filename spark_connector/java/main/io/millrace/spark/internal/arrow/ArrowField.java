package io.millrace.spark.internal.arrow;

import java.util.Objects;

/** A named column, or the element of a list. Immutable. */
public final class ArrowField {
  private final String name;
  private final ArrowType type;
  private final boolean nullable;

  public ArrowField(String name, ArrowType type, boolean nullable) {
    this.name = Objects.requireNonNull(name);
    this.type = Objects.requireNonNull(type);
    this.nullable = nullable;
  }

  public String name() {
    return name;
  }

  public ArrowType type() {
    return type;
  }

  public boolean nullable() {
    return nullable;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof ArrowField)) {
      return false;
    }
    ArrowField that = (ArrowField) other;
    return name.equals(that.name) && type.equals(that.type) && nullable == that.nullable;
  }

  @Override
  public int hashCode() {
    return Objects.hash(name, type, nullable);
  }

  @Override
  public String toString() {
    return name + ": " + type + (nullable ? "" : " not null");
  }
}
