package io.millrace.spark.internal.arrow;

import java.util.Objects;

/** The column types that a feed carries, a subset of Arrow's (docs/feed_protocol.md). Immutable. */
public final class ArrowType {
  /** Kinds of types; {@code width} is the bytes of one value, 0 where that has no meaning. */
  public enum Id {
    BOOL("bool", 0),
    INT8("int8", 1),
    INT16("int16", 2),
    INT32("int32", 4),
    INT64("int64", 8),
    UINT8("uint8", 1),
    UINT16("uint16", 2),
    UINT32("uint32", 4),
    UINT64("uint64", 8),
    FLOAT16("float16", 2),
    FLOAT32("float32", 4),
    FLOAT64("float64", 8),
    UTF8("utf8", 0),
    LARGE_UTF8("large_utf8", 0),
    BINARY("binary", 0),
    LARGE_BINARY("large_binary", 0),
    FIXED_SIZE_LIST("fixed_size_list", 0);

    final String wireName;
    final int width;

    Id(String wireName, int width) {
      this.wireName = wireName;
      this.width = width;
    }

    boolean isPrimitive() {
      return ordinal() <= FLOAT64.ordinal();
    }

    boolean isVariable() {
      return ordinal() >= UTF8.ordinal() && this != FIXED_SIZE_LIST;
    }

    boolean isUtf8() {
      return this == UTF8 || this == LARGE_UTF8;
    }

    boolean isLarge() {
      return this == LARGE_UTF8 || this == LARGE_BINARY;
    }
  }

  private final Id id;
  private final int listSize;
  private final ArrowField element;

  private ArrowType(Id id, int listSize, ArrowField element) {
    this.id = id;
    this.listSize = listSize;
    this.element = element;
  }

  /** Any type but a list. */
  public static ArrowType of(Id id) {
    if (id == Id.FIXED_SIZE_LIST) {
      throw new IllegalArgumentException("a list has a size and an element");
    }
    return new ArrowType(id, 0, null);
  }

  /** {@code size} values of {@code element} in each row; the element is a number or a bool. */
  public static ArrowType fixedSizeList(Id element, int size, boolean elementNullable) {
    if (size < 1 || !element.isPrimitive()) {
      throw new IllegalArgumentException("fixed_size_list<" + element.wireName + ">[" + size + "]");
    }
    return new ArrowType(Id.FIXED_SIZE_LIST, size, new ArrowField("item", of(element), elementNullable));
  }

  public Id id() {
    return id;
  }

  /** Values in a row of a list; 0 for other types. */
  public int listSize() {
    return listSize;
  }

  /** The element of a list; null for other types. */
  public ArrowField element() {
    return element;
  }

  boolean isList() {
    return id == Id.FIXED_SIZE_LIST;
  }

  /** Equality is structural; the name of a list's element does not count. */
  @Override
  public boolean equals(Object other) {
    if (!(other instanceof ArrowType)) {
      return false;
    }
    ArrowType that = (ArrowType) other;
    if (id != that.id || listSize != that.listSize) {
      return false;
    }
    return !isList()
        || element.type().equals(that.element.type()) && element.nullable() == that.element.nullable();
  }

  @Override
  public int hashCode() {
    return Objects.hash(id, listSize, isList() ? element.type() : null);
  }

  /** "int64", "fixed_size_list&lt;float32&gt;[64]". */
  @Override
  public String toString() {
    return isList() ? id.wireName + "<" + element.type() + ">[" + listSize + "]" : id.wireName;
  }
}
