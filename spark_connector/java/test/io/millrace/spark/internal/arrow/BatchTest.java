package io.millrace.spark.internal.arrow;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.Test;

public final class BatchTest {
  private final BufferPool pool = new BufferPool(1 << 20);

  static ArrowField field(String name, ArrowType.Id id) {
    return new ArrowField(name, ArrowType.of(id), true);
  }

  private static List<ColumnView> decode(ArrowSchema schema, EncodedBatch batch) throws BadInputException {
    return new BatchDecoder(schema).decode(ByteBuffer.wrap(batch.message()), batch.rows(), batch.parts());
  }

  @Test
  public void everyTypeGoesThereAndBack() throws BadInputException {
    List<ArrowField> fields = new ArrayList<>();
    for (ArrowType.Id id : ArrowType.Id.values()) {
      if (id != ArrowType.Id.TIMESTAMP && !id.isList() && id != ArrowType.Id.STRUCT) {
        fields.add(new ArrowField("c\u00fc" + id, ArrowType.of(id), id.ordinal() % 2 == 0));
      }
    }
    fields.add(new ArrowField("", ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 3, false), true));
    fields.add(new ArrowField("bits", ArrowType.fixedSizeList(ArrowType.Id.BOOL, 5, true), true));
    for (ArrowType.Unit unit : ArrowType.Unit.values()) {
      String zone = unit.ordinal() == 0 ? "" : "Europe/Zürich";
      fields.add(new ArrowField("t" + unit, ArrowType.timestamp(unit, zone), true));
    }
    ArrowField text = field("text", ArrowType.Id.UTF8);
    ArrowField pair = new ArrowField("pair", ArrowType.struct(text, field("day", ArrowType.Id.DATE32)), false);
    fields.add(new ArrowField("list", ArrowType.list(pair), true));
    fields.add(new ArrowField("large", ArrowType.largeList(new ArrowField("", ArrowType.list(text), true)), true));
    fields.add(new ArrowField("fixed", ArrowType.fixedSizeList(pair, 7), true));
    ArrowSchema schema = new ArrowSchema(fields);
    assertEquals(schema, SchemaMessage.decode(ByteBuffer.wrap(SchemaMessage.encode(schema))));
    assertEquals(new ArrowSchema(), SchemaMessage.decode(ByteBuffer.wrap(SchemaMessage.encode(new ArrowSchema()))));
  }

  @Test
  public void aRowThatNoMessageCanHaveIsRefused() {
    ColumnBuilder column = new ColumnBuilder(ArrowType.of(ArrowType.Id.BINARY), pool, new DirectBuffer.Growth());
    ColumnBuilder list =
        new ColumnBuilder(
            ArrowType.list(field("", ArrowType.Id.FLOAT64)), pool, new DirectBuffer.Growth());
    Runnable[] puts = {
      () -> column.putBytesByAddress((1 << 30) + 1), () -> list.putListByAddress(1 << 28), // 2 GiB
    };
    for (Runnable put : puts) {
      MillraceException e = assertThrows(MillraceException.class, put::run);
      assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
      assertTrue(e.getMessage(), e.getMessage().contains("more than 1073741824 bytes in one column"));
    }
  }

  @Test
  public void valuesAndNullsGoThereAndBack() throws BadInputException {
    ArrowSchema schema =
        new ArrowSchema(
            field("flag", ArrowType.Id.BOOL),
            field("small", ArrowType.Id.INT8),
            field("short", ArrowType.Id.UINT16),
            field("int", ArrowType.Id.INT32),
            field("long", ArrowType.Id.INT64),
            field("float", ArrowType.Id.FLOAT32),
            field("double", ArrowType.Id.FLOAT64),
            field("text", ArrowType.Id.UTF8),
            field("large", ArrowType.Id.LARGE_BINARY),
            new ArrowField("vector", ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 2, true), true));
    // 3 rows fit into the gathered part, 30,000 do not; 17 leave bits over.
    for (int rows : new int[] {1, 3, 17, 30_000}) {
      BatchBuilder builder = new BatchBuilder(schema, pool);
      for (int row = 0; row < rows; row++) {
        for (int i = 0; i < 10; i++) {
          put(builder.column(i), i, row);
        }
        builder.endRow();
      }
      EncodedBatch batch = builder.finish();
      assertEquals(0, builder.rows());
      List<ColumnView> columns = decode(schema, batch);
      for (int row = 0; row < rows; row++) {
        for (int i = 0; i < 10; i++) {
          check(columns.get(i), i, row);
        }
      }
      batch.release();
      assertTrue(pool.keptBytes() > 0);
    }
  }

  /** Memory that is lent for one batch. */
  private static final class Lent implements BodyMemory {
    final ByteBuffer bytes;
    boolean released;

    Lent(long size) {
      bytes = ByteBuffer.allocateDirect((int) size).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < size; i++) {
        bytes.put(i, (byte) 0xa5);
      }
    }

    @Override
    public ByteBuffer bytes() {
      return bytes;
    }

    @Override
    public void release() {
      released = true;
    }
  }

  @Test
  public void aBatchLiesInLentMemoryIfItFits() throws BadInputException {
    ArrowType list = ArrowType.list(field("", ArrowType.Id.FLOAT32));
    ArrowSchema schema =
        new ArrowSchema(
            field("flag", ArrowType.Id.BOOL),
            field("int", ArrowType.Id.INT32),
            new ArrowField("list", list, true),
            field("text", ArrowType.Id.UTF8));
    BatchBuilder builder = new BatchBuilder(schema, pool);
    assertEquals(0, builder.wantedBytes());
    // Rows, whether some are null, how many bytes its text has, and whether the batch lies there: one without memory
    // first; one like that; the first nulls; texts that outgrow their place, and another one that has grown as much;
    // and the last rows of a partition.
    int[][] batches = {
      {9000, 0, 9, 0}, {9000, 0, 9, 1}, {9100, 1, 9, 1}, {9000, 1, 90, 0}, {9000, 1, 90, 1}, {500, 0, 90, 0},
      {480, 0, 90, 1},
    };
    for (int[] each : batches) {
      Lent lent = builder.wantedBytes() == 0 ? null : new Lent(builder.wantedBytes());
      if (lent != null) {
        builder.begin(lent);
      }
      for (int row = 0; row < each[0]; row++) {
        boolean isNull = each[1] == 1 && row % 5 == 0;
        if (isNull) {
          builder.column(1).putNull();
        } else {
          builder.column(1).putInt(row);
        }
        builder.column(0).putBoolean(row % 3 == 0);
        builder.column(2).putFloats(new float[] {row, -row, row + 0.5f});
        builder.column(3).putBytes(text(row, each[2]));
        builder.endRow();
      }
      EncodedBatch batch = builder.finish();
      String what = Arrays.toString(each);
      assertEquals(what, each[3] == 1, batch.lent() != null);
      assertEquals(what, lent != null && each[3] == 0, lent != null && lent.released);
      List<List<ByteBuffer>> bodies = new ArrayList<>();
      bodies.add(batch.parts());
      if (batch.lent() == null) {
        ByteBuffer copy = ByteBuffer.allocateDirect((int) batch.bodyBytes()).order(ByteOrder.LITTLE_ENDIAN);
        batch.copyBody(copy.duplicate());
        bodies.add(Arrays.asList(copy));
      }
      for (List<ByteBuffer> parts : bodies) {
        List<ColumnView> columns =
            new BatchDecoder(schema).decode(ByteBuffer.wrap(batch.message()), batch.rows(), parts);
        for (int row = 0; row < each[0]; row++) {
          boolean isNull = each[1] == 1 && row % 5 == 0;
          assertEquals(what, isNull, columns.get(1).isNull(row));
          assertEquals(what, isNull ? 0 : row, columns.get(1).getInt(row));
          assertEquals(what, row % 3 == 0, columns.get(0).getBoolean(row));
          assertEquals(what, -row, columns.get(2).child().getFloat(3 * row + 1), 0);
          assertArrayEquals(what, text(row, each[2]), columns.get(3).getBytes(row));
        }
      }
      batch.release();
      assertTrue(what, lent == null || lent.released);
    }
  }

  private static byte[] text(int row, int bytes) {
    byte[] text = new byte[bytes];
    Arrays.fill(text, (byte) ('a' + row % 26));
    return text;
  }

  private static boolean isNull(int column, int row) {
    return (row + column) % 4 == 3;
  }

  private static void put(ColumnBuilder column, int i, int row) {
    if (isNull(i, row)) {
      column.putNull();
      return;
    }
    switch (i) {
      case 0:
        column.putBoolean(row % 3 == 0);
        break;
      case 1:
        column.putByte((byte) row);
        break;
      case 2:
        column.putShort((short) (row * 3));
        break;
      case 3:
        column.putInt(-row);
        break;
      case 4:
        column.putLong(row * 10_000_000_000L);
        break;
      case 5:
        column.putFloat(row * 0.5f);
        break;
      case 6:
        column.putDouble(-row * 0.25);
        break;
      case 7:
        column.putBytes(("row \u20ac " + row).getBytes(StandardCharsets.UTF_8));
        break;
      case 8:
        column.putBytes(new byte[row % 5]);
        break;
      default:
        column.putFloats(new float[] {row, row + 0.5f});
        if (row % 5 == 0) {
          column.child().markNull(2 * row + 1);
        }
    }
  }

  private static void check(ColumnView column, int i, int row) {
    assertEquals(isNull(i, row), column.isNull(row));
    if (isNull(i, row)) {
      return;
    }
    switch (i) {
      case 0:
        assertEquals(row % 3 == 0, column.getBoolean(row));
        break;
      case 1:
        assertEquals((byte) row, column.getByte(row));
        break;
      case 2:
        assertEquals(row * 3 & 0xffff, column.getInteger(row));
        break;
      case 3:
        assertEquals(-row, column.getInt(row));
        break;
      case 4:
        assertEquals(row * 10_000_000_000L, column.getLong(row));
        break;
      case 5:
        assertEquals(row * 0.5f, column.getFloat(row), 0);
        break;
      case 6:
        assertEquals(-row * 0.25, column.getDouble(row), 0);
        break;
      case 7:
        assertEquals("row \u20ac " + row, column.getString(row));
        break;
      case 8:
        assertArrayEquals(new byte[row % 5], column.getBytes(row));
        break;
      default:
        assertEquals(row, column.child().getFloat(2 * row), 0);
        assertEquals(row % 5 == 0, column.child().isNull(2 * row + 1));
    }
  }

  @Test
  public void nestedValuesGoThereAndBack() throws BadInputException {
    ArrowField text = field("text", ArrowType.Id.UTF8);
    ArrowField numbers = new ArrowField("numbers", ArrowType.list(field("", ArrowType.Id.INT32)), true);
    ArrowField corner =
        new ArrowField("corner", ArrowType.fixedSizeList(field("", ArrowType.Id.BOOL), 2), true);
    ArrowType pair = ArrowType.struct(text, numbers, corner);
    ArrowSchema schema =
        new ArrowSchema(
            new ArrowField("pair", pair, true),
            new ArrowField("pairs", ArrowType.largeList(new ArrowField("item", pair, true)), true));
    for (int rows : new int[] {1, 2, 3, 50, 5000}) {
      BatchBuilder builder = new BatchBuilder(schema, pool);
      for (int row = 0; row < rows; row++) {
        putPair(builder.column(0), row);
        if (row % 6 == 2) {
          builder.column(1).putNull();
        } else {
          for (int i = 0; i < row % 4; i++) {
            putPair(builder.column(1).child(), row + i);
          }
          builder.column(1).endList();
        }
        builder.endRow();
      }
      EncodedBatch batch = builder.finish();
      List<ColumnView> columns = decode(schema, batch);
      for (int row = 0; row < rows; row++) {
        checkPair(columns.get(0), row, row);
        ColumnView pairs = columns.get(1);
        assertEquals(row % 6 == 2, pairs.isNull(row));
        int size = row % 6 == 2 ? 0 : row % 4;
        assertEquals(size, pairs.listEnd(row) - pairs.listStart(row));
        for (int i = 0; i < size; i++) {
          checkPair(pairs.child(), pairs.listStart(row) + i, row + i);
        }
      }
      batch.release();
    }
  }

  private static void putPair(ColumnBuilder pair, int n) {
    if (n % 5 == 4) {
      pair.putNull();
      return;
    }
    pair.child(0).putBytes(("t" + n).getBytes(StandardCharsets.UTF_8));
    for (int i = 0; i < n % 3; i++) {
      pair.child(1).child().putInt(n * i);
    }
    pair.child(1).endList();
    if (n % 7 == 0) {
      pair.child(2).putNull();
    } else {
      pair.child(2).child().putBoolean(n % 2 == 0);
      pair.child(2).child().putNull();
      pair.child(2).endList();
    }
    pair.endStruct();
  }

  private static void checkPair(ColumnView pair, int row, int n) {
    assertEquals(n % 5 == 4, pair.isNull(row));
    if (n % 5 == 4) {
      return;
    }
    assertEquals("t" + n, pair.child(0).getString(row));
    ColumnView numbers = pair.child(1);
    assertEquals(n % 3, numbers.listEnd(row) - numbers.listStart(row));
    for (int i = 0; i < n % 3; i++) {
      assertEquals(n * i, numbers.child().getInt(numbers.listStart(row) + i));
    }
    ColumnView corner = pair.child(2);
    assertEquals(n % 7 == 0, corner.isNull(row));
    if (n % 7 != 0) {
      assertEquals(n % 2 == 0, corner.child().getBoolean(corner.listStart(row)));
      assertTrue(corner.child().isNull(corner.listStart(row) + 1));
    }
  }

  @Test
  public void noBufferCrossesAPart() {
    ArrowSchema schema = new ArrowSchema(field("a", ArrowType.Id.INT64), field("b", ArrowType.Id.INT8));
    BatchBuilder builder = new BatchBuilder(schema, pool);
    for (int row = 0; row < 10_000; row++) {
      builder.column(0).putLong(row);
      builder.column(1).putByte((byte) row);
      builder.endRow();
    }
    EncodedBatch batch = builder.finish();
    assertEquals(2, batch.parts().size());
    assertEquals(10_000, batch.parts().get(0).capacity());
    assertEquals(80_000, batch.parts().get(1).capacity());
    for (ByteBuffer part : batch.parts()) {
      assertEquals(0, part.position());
      assertEquals(part.capacity(), part.limit());
    }
  }

  @Test
  public void rowsThatDoNotFitAreErrors() {
    ArrowSchema schema =
        new ArrowSchema(
            new ArrowField("v", ArrowType.fixedSizeList(ArrowType.Id.FLOAT64, 2, false), false),
            field("x", ArrowType.Id.INT32));
    BatchBuilder builder = new BatchBuilder(schema, pool);
    assertThrows(IllegalArgumentException.class, () -> builder.column(0).putDoubles(new double[3]));
    builder.column(0).putDoubles(new double[2]);
    builder.endRow();
    assertThrows(IllegalStateException.class, builder::finish);
    builder.clear();
    assertThrows(IllegalStateException.class, builder::finish);
    builder.column(0).child().putDouble(1);
    assertThrows(IllegalStateException.class, () -> builder.column(0).endList());
  }

  @Test
  public void memoryByAddressIsTheMemoryOfTheRow() throws BadInputException {
    ArrowSchema schema =
        new ArrowSchema(new ArrowField("v", ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 4, false), false));
    BatchBuilder builder = new BatchBuilder(schema, pool);
    ColumnBuilder column = builder.column(0);
    long first = column.putListByAddress(4);
    builder.endRow();
    assertTrue(first != 0);
    long second = column.putListByAddress(4);
    builder.endRow();
    assertEquals(first + 16, second);
    assertEquals(2, decode(schema, builder.finish()).get(0).rows());
  }

  @Test
  public void theSchemaTellsTypesApart() throws BadInputException {
    ArrowType list = ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 3, true);
    assertEquals("fixed_size_list<float32>[3]", list.toString());
    assertEquals(list, ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 3, true));
    assertFalse(list.equals(ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 3, false)));
    assertFalse(list.equals(ArrowType.fixedSizeList(ArrowType.Id.FLOAT64, 3, true)));
    assertThrows(
        IllegalArgumentException.class,
        () -> ArrowType.struct(field("a", ArrowType.Id.INT8), field("a", ArrowType.Id.INT8)));
    ArrowField wide = new ArrowField("", ArrowType.fixedSizeList(ArrowType.Id.INT8, 1 << 16, true), true);
    assertThrows(IllegalArgumentException.class, () -> ArrowType.fixedSizeList(wide, 1 << 15));
    ArrowType deep = ArrowType.of(ArrowType.Id.INT8);
    for (int i = 1; i < 32; i++) {
      deep = ArrowType.list(new ArrowField("", deep, true));
    }
    ArrowField deepest = new ArrowField("deep", deep, true);
    assertThrows(IllegalArgumentException.class, () -> ArrowType.list(deepest));
    ArrowSchema deepSchema = new ArrowSchema(deepest);
    assertEquals(deepSchema, SchemaMessage.decode(ByteBuffer.wrap(SchemaMessage.encode(deepSchema))));
    assertEquals("timestamp[us, UTC]", ArrowType.timestamp(ArrowType.Unit.MICROSECOND, "UTC").toString());
    assertEquals("struct<a: int8>", ArrowType.struct(field("a", ArrowType.Id.INT8)).toString());
    assertThrows(IllegalArgumentException.class, () -> ArrowType.fixedSizeList(ArrowType.Id.INT8, 0, true));
  }

  @Test
  public void damagedBytesNeverDoMoreThanThrow() {
    ArrowSchema schema =
        new ArrowSchema(
            field("id", ArrowType.Id.INT64),
            field("text", ArrowType.Id.UTF8),
            new ArrowField("v", ArrowType.fixedSizeList(ArrowType.Id.INT16, 3, true), true),
            new ArrowField(
                "l", ArrowType.list(new ArrowField("", ArrowType.struct(field("t", ArrowType.Id.UTF8)), true)), true));
    BatchBuilder builder = new BatchBuilder(schema, pool);
    for (int row = 0; row < 9; row++) {
      builder.column(0).putLong(row);
      builder.column(1).putBytes(("t" + row).getBytes(StandardCharsets.UTF_8));
      builder.column(2).putNull();
      builder.column(3).child().child(0).putBytes(("t" + row).getBytes(StandardCharsets.UTF_8));
      builder.column(3).child().endStruct();
      builder.column(3).endList();
      builder.endRow();
    }
    EncodedBatch batch = builder.finish();
    byte[] message = batch.message();
    byte[] schemaMessage = SchemaMessage.encode(schema);
    Random random = new Random(1);
    int refused = 0;
    for (int i = 0; i < 20_000; i++) {
      byte[] damaged = message.clone();
      byte[] damagedSchema = schemaMessage.clone();
      for (int n = random.nextInt(3); n >= 0; n--) {
        byte[] values = {0, 1, 7, 8, 0x7f, (byte) 0x80, (byte) 0xff, (byte) random.nextInt()};
        damaged[random.nextInt(damaged.length)] = values[random.nextInt(values.length)];
        damagedSchema[random.nextInt(damagedSchema.length)] = values[random.nextInt(values.length)];
      }
      try {
        new BatchDecoder(schema).decode(ByteBuffer.wrap(damaged), batch.rows(), batch.parts());
        SchemaMessage.decode(ByteBuffer.wrap(damagedSchema));
      } catch (BadInputException e) {
        refused++;
      }
    }
    assertTrue(refused > 10_000);
    byte[] cut = Arrays.copyOf(message, message.length - 8);
    assertThrows(
        BadInputException.class, () -> new BatchDecoder(schema).decode(ByteBuffer.wrap(cut), 9, batch.parts()));
  }
}
