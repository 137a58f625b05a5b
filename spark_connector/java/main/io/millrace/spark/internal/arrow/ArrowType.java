package io.millrace.spark.internal.arrow;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;

/** The column types that a feed carries, a subset of Arrow's (docs/feed_protocol.md). Immutable. */
public final class ArrowType {
  /** Levels of types within types, a column of numbers being 1. */
  static final int MAX_DEPTH = 32;

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
    DATE32("date32", 4),
    DATE64("date64", 8),
    TIMESTAMP("timestamp", 8),
    UTF8("utf8", 0),
    LARGE_UTF8("large_utf8", 0),
    BINARY("binary", 0),
    LARGE_BINARY("large_binary", 0),
    LIST("list", 0),
    LARGE_LIST("large_list", 0),
    FIXED_SIZE_LIST("fixed_size_list", 0),
    STRUCT("struct", 0);

    final String wireName;
    final int width;

    Id(String wireName, int width) {
      this.wireName = wireName;
      this.width = width;
    }

    /** One buffer of values of one width, bools among them. */
    public boolean isPrimitive() {
      return ordinal() <= TIMESTAMP.ordinal();
    }

    public boolean isUtf8() {
      return this == UTF8 || this == LARGE_UTF8;
    }

    /** A list of any kind. */
    public boolean isList() {
      return ordinal() >= LIST.ordinal() && ordinal() <= FIXED_SIZE_LIST.ordinal();
    }

    boolean hasOffsets() {
      return ordinal() >= UTF8.ordinal() && ordinal() <= LARGE_LIST.ordinal();
    }

    /** Its offsets have 8 bytes. */
    boolean isLarge() {
      return this == LARGE_UTF8 || this == LARGE_BINARY || this == LARGE_LIST;
    }
  }

  /** What a timestamp counts; the order is Arrow's. */
  public enum Unit {
    SECOND("s"),
    MILLISECOND("ms"),
    MICROSECOND("us"),
    NANOSECOND("ns");

    final String wireName;

    Unit(String wireName) {
      this.wireName = wireName;
    }
  }

  private final Id id;
  private final int listSize;
  private final List<ArrowField> children;
  private final Unit unit;
  private final String zone;
  private final int depth;

  private ArrowType(Id id, int listSize, List<ArrowField> children, Unit unit, String zone) {
    this.id = id;
    this.listSize = listSize;
    this.children = Collections.unmodifiableList(new ArrayList<>(children));
    this.unit = unit;
    this.zone = zone;
    int deepest = 0;
    for (ArrowField child : children) {
      deepest = Math.max(deepest, child.type().depth);
    }
    depth = deepest + 1;
    if (depth > MAX_DEPTH) {
      throw new IllegalArgumentException("types nested more than " + MAX_DEPTH + " deep");
    }
  }

  /** Any type but a timestamp, a list or a struct. */
  public static ArrowType of(Id id) {
    if (id == Id.TIMESTAMP || id.isList() || id == Id.STRUCT) {
      throw new IllegalArgumentException("a " + id.wireName + " has more to it than its name");
    }
    return new ArrowType(id, 0, Collections.<ArrowField>emptyList(), null, "");
  }

  /** Time since 1970-01-01; {@code zone} is "" for a local time, "UTC" for a moment. */
  public static ArrowType timestamp(Unit unit, String zone) {
    return new ArrowType(
        Id.TIMESTAMP,
        0,
        Collections.<ArrowField>emptyList(),
        Objects.requireNonNull(unit),
        Objects.requireNonNull(zone));
  }

  /** Any number of {@code element} in each row, fewer than 2^31 in a batch. */
  public static ArrowType list(ArrowField element) {
    return new ArrowType(Id.LIST, 0, Collections.singletonList(element), null, "");
  }

  /** As {@link #list}, with offsets of 64 bits. */
  public static ArrowType largeList(ArrowField element) {
    return new ArrowType(Id.LARGE_LIST, 0, Collections.singletonList(element), null, "");
  }

  /** {@code size} values of {@code element} in each row. */
  public static ArrowType fixedSizeList(ArrowField element, int size) {
    if (size < 1 || size * valuesPerRow(element.type()) > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("fixed_size_list<" + element.type() + ">[" + size + "]");
    }
    return new ArrowType(Id.FIXED_SIZE_LIST, size, Collections.singletonList(element), null, "");
  }

  /** {@code size} numbers, bools or dates in each row. */
  public static ArrowType fixedSizeList(Id element, int size, boolean elementNullable) {
    return fixedSizeList(new ArrowField("item", of(element), elementNullable), size);
  }

  /** Fields under names, each name once; at least one. */
  public static ArrowType struct(List<ArrowField> fields) {
    Set<String> names = new HashSet<>();
    for (ArrowField field : fields) {
      if (!names.add(field.name())) {
        throw new IllegalArgumentException("two fields of a struct have the name \"" + field.name() + "\"");
      }
    }
    if (fields.isEmpty()) {
      throw new IllegalArgumentException("a struct without fields");
    }
    return new ArrowType(Id.STRUCT, 0, fields, null, "");
  }

  public static ArrowType struct(ArrowField... fields) {
    return struct(Arrays.asList(fields));
  }

  /** How many innermost values fixed-size lists within fixed-size lists have in a row. */
  private static long valuesPerRow(ArrowType type) {
    long most = 1;
    for (ArrowField child : type.children) {
      boolean counts = type.id == Id.FIXED_SIZE_LIST || type.id == Id.STRUCT;
      most = Math.max(most, counts ? valuesPerRow(child.type()) : 1);
    }
    return type.id == Id.FIXED_SIZE_LIST ? type.listSize * most : most;
  }

  public Id id() {
    return id;
  }

  /** Values in a row of a fixed-size list; 0 for other types. */
  public int listSize() {
    return listSize;
  }

  /** The element of a list; null for other types. */
  public ArrowField element() {
    return id.isList() ? children.get(0) : null;
  }

  /** The element of a list, the fields of a struct; empty for other types. */
  public List<ArrowField> children() {
    return children;
  }

  /** Of a timestamp; null for other types. */
  public Unit unit() {
    return unit;
  }

  /** Of a timestamp; "" if it has none, and for other types. */
  public String zone() {
    return zone;
  }

  int depth() {
    return depth;
  }

  /** Equality is structural; the name of a list's element does not count. */
  @Override
  public boolean equals(Object other) {
    if (this == other) {
      return true;
    }
    if (!(other instanceof ArrowType)) {
      return false;
    }
    ArrowType that = (ArrowType) other;
    if (id != that.id || listSize != that.listSize || unit != that.unit || !zone.equals(that.zone)) {
      return false;
    }
    if (!id.isList()) {
      return children.equals(that.children);
    }
    return element().type().equals(that.element().type()) && element().nullable() == that.element().nullable();
  }

  @Override
  public int hashCode() {
    return Objects.hash(id, listSize, unit, zone, id.isList() ? element().type() : children);
  }

  /** "int64", "timestamp[us, UTC]", "fixed_size_list&lt;float32&gt;[64]", "struct&lt;x: int8&gt;". */
  @Override
  public String toString() {
    if (id == Id.TIMESTAMP) {
      return "timestamp[" + unit.wireName + (zone.isEmpty() ? "]" : ", " + zone + "]");
    }
    if (id == Id.STRUCT) {
      StringBuilder out = new StringBuilder("struct<");
      for (ArrowField child : children) {
        out.append(out.length() > 7 ? ", " : "").append(child);
      }
      return out.append('>').toString();
    }
    if (!id.isList()) {
      return id.wireName;
    }
    return id.wireName + "<" + element().type() + ">" + (listSize == 0 ? "" : "[" + listSize + "]");
  }
}
