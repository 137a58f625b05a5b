package io.millrace.spark.internal.arrow;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The columns of a feed, in order. Immutable. */
public final class ArrowSchema {
  private final List<ArrowField> fields;

  public ArrowSchema(List<ArrowField> fields) {
    this.fields = Collections.unmodifiableList(new ArrayList<>(fields));
  }

  public ArrowSchema(ArrowField... fields) {
    this(Arrays.asList(fields));
  }

  public List<ArrowField> fields() {
    return fields;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ArrowSchema && fields.equals(((ArrowSchema) other).fields);
  }

  @Override
  public int hashCode() {
    return fields.hashCode();
  }

  @Override
  public String toString() {
    return fields.toString();
  }
}
