package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Writes a FlatBuffer from its root on: each table is followed by what it refers to. */
final class FlatWriter {
  /** A table to be written: scalars and references by slot. */
  static final class Table {
    private static final class Field {
      final int slot;
      final int size;
      final long value;
      final Object target; // Table, String or List of Table; null for a scalar

      Field(int slot, int size, long value, Object target) {
        this.slot = slot;
        this.size = size;
        this.value = value;
        this.target = target;
      }
    }

    private final List<Field> fields = new ArrayList<>();

    Table scalar(int slot, int size, long value) {
      fields.add(new Field(slot, size, value, null));
      return this;
    }

    Table table(int slot, Table target) {
      fields.add(new Field(slot, 4, 0, target));
      return this;
    }

    Table string(int slot, String target) {
      fields.add(new Field(slot, 4, 0, target));
      return this;
    }

    Table tables(int slot, List<Table> target) {
      fields.add(new Field(slot, 4, 0, target));
      return this;
    }
  }

  private ByteBuffer out = ByteBuffer.allocate(256).order(ByteOrder.LITTLE_ENDIAN);
  private int size;

  private FlatWriter() {}

  /** The FlatBuffer, its size a multiple of 8. */
  static byte[] write(Table root) {
    FlatWriter writer = new FlatWriter();
    writer.grow(4);
    int table = writer.table(root);
    writer.out.putInt(0, table);
    writer.align(8);
    return Arrays.copyOf(writer.out.array(), writer.size);
  }

  /** Makes room for {@code bytes}, which are 0; returns where they begin. */
  private int grow(int bytes) {
    int at = size;
    size += bytes;
    if (size > out.capacity()) {
      byte[] wider = Arrays.copyOf(out.array(), Math.max(size, 2 * out.capacity()));
      out = ByteBuffer.wrap(wider).order(ByteOrder.LITTLE_ENDIAN);
    }
    return at;
  }

  private void align(int to) {
    grow(-size & (to - 1));
  }

  private int table(Table table) {
    List<Table.Field> fields = new ArrayList<>(table.fields);
    fields.sort((a, b) -> b.size - a.size);
    int slots = 0;
    int tableBytes = 4;
    int[] offsets = new int[fields.size()];
    for (int i = 0; i < offsets.length; i++) {
      Table.Field field = fields.get(i);
      slots = Math.max(slots, field.slot + 1);
      offsets[i] = (tableBytes + field.size - 1) & -field.size;
      tableBytes = offsets[i] + field.size;
    }
    align(2);
    int vtable = grow(4 + 2 * slots);
    align(8);
    int at = grow(tableBytes);
    out.putShort(vtable, (short) (4 + 2 * slots));
    out.putShort(vtable + 2, (short) tableBytes);
    out.putInt(at, at - vtable);
    for (int i = 0; i < offsets.length; i++) {
      Table.Field field = fields.get(i);
      out.putShort(vtable + 4 + 2 * field.slot, (short) offsets[i]);
      int place = at + offsets[i];
      if (field.target != null) {
        int target = target(field.target);
        out.putInt(place, target - place);
      } else if (field.size == 8) {
        out.putLong(place, field.value);
      } else if (field.size == 4) {
        out.putInt(place, (int) field.value);
      } else if (field.size == 2) {
        out.putShort(place, (short) field.value);
      } else {
        out.put(place, (byte) field.value);
      }
    }
    return at;
  }

  private int target(Object target) {
    if (target instanceof Table) {
      return table((Table) target);
    }
    align(4);
    if (target instanceof String) {
      byte[] text = ((String) target).getBytes(StandardCharsets.UTF_8);
      int at = grow(4 + text.length + 1);
      out.putInt(at, text.length);
      System.arraycopy(text, 0, out.array(), at + 4, text.length);
      return at;
    }
    List<?> tables = (List<?>) target;
    int at = grow(4 + 4 * tables.size());
    out.putInt(at, tables.size());
    for (int i = 0; i < tables.size(); i++) {
      int place = at + 4 + 4 * i;
      int table = table((Table) tables.get(i));
      out.putInt(place, table - place);
    }
    return at;
  }
}
