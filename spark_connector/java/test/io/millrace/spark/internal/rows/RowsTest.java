package io.millrace.spark.internal.rows;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchDecoder;
import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;
import scala.Tuple2;

/** Run by spark-submit, with each Spark: its own rows there and back. */
public final class RowsTest {
  private static final String[] COLUMNS = {
    "id",
    "id % 3 = 0 AS flag",
    "CAST(id % 100 AS tinyint) AS i8",
    "CAST(-id AS smallint) AS i16",
    "IF(id % 5 = 1, NULL, CAST(id * 1000 AS int)) AS i32",
    "CAST(id AS float) / 3f AS f32",
    "IF(id % 7 = 2, NULL, sqrt(id)) AS f64",
    "IF(id % 4 = 3, NULL, concat('z\u00fc ', repeat(CAST(id AS string), CAST(id % 9 AS int)))) AS text",
    "IF(id % 4 = 2, NULL, CAST(CAST(id AS string) AS binary)) AS bytes",
    "date_add(DATE'2024-02-28', CAST(id % 5000 AS int) - 2500) AS day",
    "timestamp_micros(id * 1234567891 - 99999999999) AS moment",
    "IF(id % 6 = 0, NULL, make_timestamp_ntz(2024, 1, 1 + CAST(id % 28 AS int), 3, 4, 5.678901)) AS clock",
    "transform(sequence(0, CAST(id % 11 AS int)), x -> CAST(x * id AS float)) AS vector",
    "IF(id % 8 = 5, NULL, array(id, NULL, -id)) AS holes",
    "array(id % 2 = 0, true) AS flags",
    "transform(sequence(1, 70 + CAST(id % 3 AS int)), x -> IF(x % 65 = 64, NULL, CAST(x AS smallint))) AS many",
    "array(array('a', NULL), NULL, array(CAST(id AS string))) AS texts",
    "IF(id % 9 = 4, NULL, named_struct('a', id, 'b', named_struct('c', CAST(id AS string), 'd', array(1, 2)))) AS s",
    "array(named_struct('x', CAST(id AS double), 'y', NULLIF(id % 2, 0))) AS structs",
    "slice(array(1L, 2L), 1, CAST(id % 2 AS int)) AS maybe_empty",
  };

  private static SparkSession spark() {
    return SparkSession.builder().config("spark.sql.session.timeZone", "America/New_York").getOrCreate();
  }

  /** Encodes the rows and reads the batches as results. */
  private static final class Echo<T> implements Iterator<InternalRow> {
    private final Iterator<T> rows;
    private final RowEncoder<T> encoder;
    private final ResultReader reader;
    private Iterator<InternalRow> results = Collections.emptyIterator();

    Echo(Iterator<T> rows, RowEncoder<T> encoder, StructType schema) {
      this.rows = rows;
      this.encoder = encoder;
      this.reader = new ResultReader(schema);
    }

    @Override
    public boolean hasNext() {
      if (!results.hasNext() && (rows.hasNext() || encoder.rows() > 0)) {
        while (rows.hasNext() && !encoder.full()) {
          encoder.add(rows.next());
        }
        results = decode(encoder, reader);
      }
      return results.hasNext();
    }

    @Override
    public InternalRow next() {
      assertTrue(hasNext());
      return results.next();
    }
  }

  private static Iterator<InternalRow> decode(RowEncoder<?> encoder, ResultReader reader) {
    EncodedBatch batch = encoder.finish();
    try {
      return reader.internalRows(
          encoder.schema(),
          new BatchDecoder(encoder.schema()).decode(ByteBuffer.wrap(batch.message()), batch.rows(), batch.parts()),
          batch.rows());
    } catch (BadInputException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Of a session's room: nobody else's bytes, and not more than was asked for. */
  private static final class Lent implements BodyMemory {
    private final ByteBuffer bytes;

    Lent(long size) {
      bytes = ByteBuffer.allocateDirect((int) size).order(ByteOrder.LITTLE_ENDIAN);
    }

    @Override
    public ByteBuffer bytes() {
      return bytes;
    }

    @Override
    public void release() {}
  }

  private static List<Row> readRows(RowEncoder<?> encoder, StructType schema) throws BadInputException {
    EncodedBatch batch = encoder.finish();
    List<Row> rows = new ArrayList<>();
    new ResultReader(schema)
        .rows(
            encoder.schema(),
            new BatchDecoder(encoder.schema()).decode(ByteBuffer.wrap(batch.message()), batch.rows(), batch.parts()),
            batch.rows())
        .forEachRemaining(rows::add);
    return rows;
  }

  @Test
  public void aDataFrameComesBackAsItWas() {
    SparkSession spark = spark();
    assertNotNull(DataFrames.internalCreateDataFrame(spark.getClass()));
    Dataset<Row> df = spark.range(0, 3000, 1, 2).selectExpr(COLUMNS);
    StructType schema = df.schema();
    JavaRDD<InternalRow> echoed =
        df.queryExecution()
            .toRdd()
            .toJavaRDD()
            .mapPartitions(
                rows -> new Echo<>(rows, new InternalRowEncoder(schema, new BufferPool(16 << 20)), schema));
    Dataset<Row> back = DataFrames.create(spark, () -> echoed, () -> null, schema);
    assertEquals(df.collectAsList(), back.collectAsList());
    assertEquals(schema, back.schema());
  }

  private static void checkColumns(Dataset<Row> df) {
    StructType schema = df.schema();
    JavaRDD<ColumnSlice> columns = ColumnSlices.of(df);
    assertNotNull(columns);
    JavaRDD<InternalRow> echoed =
        columns.mapPartitions(
            slices -> new Echo<>(slices, new ColumnEncoder(schema, new BufferPool(16 << 20)), schema));
    List<Row> rows = df.collectAsList();
    assertEquals(rows, DataFrames.create(spark(), () -> echoed, () -> null, schema).collectAsList());
    assertTrue(rows.size() > 3000);
  }

  /** All but the first rows of each partition, as a feed resumes there. */
  private static <T> JavaRDD<InternalRow> after(int first, JavaRDD<T> elements, StructType schema, EncoderOf<T> of) {
    return elements.mapPartitions(
        all -> {
          RowEncoder<T> encoder = of.create(schema, new BufferPool(16 << 20));
          assertEquals(first, encoder.skip(all, first));
          return new Echo<>(all, encoder, schema);
        });
  }

  private interface EncoderOf<T> extends Serializable {
    RowEncoder<T> create(StructType schema, BufferPool pool);
  }

  @Test
  public void afterAnyRowAFeedGoesOn() {
    Dataset<Row> df = spark().range(0, 70_000, 1, 1).selectExpr("id", "CAST(id AS float) AS f").cache();
    List<Row> rows = df.collectAsList();
    JavaRDD<ColumnSlice> columns = ColumnSlices.of(df);
    StructType schema = df.schema();
    for (int first : new int[] {1, 777, 10_000, 69_999, 70_000}) {
      JavaRDD<InternalRow> ofColumns = after(first, columns, schema, ColumnEncoder::new);
      JavaRDD<InternalRow> ofRows =
          after(first, df.queryExecution().toRdd().toJavaRDD(), schema, InternalRowEncoder::new);
      for (JavaRDD<InternalRow> one : Arrays.asList(ofColumns, ofRows)) {
        assertEquals(
            rows.subList(first, rows.size()),
            DataFrames.create(spark(), () -> one, () -> null, schema).collectAsList());
      }
    }
    RowEncoder<ColumnSlice> encoder = new ColumnEncoder(schema, new BufferPool(1 << 20));
    assertEquals(0, encoder.skip(Collections.<ColumnSlice>emptyIterator(), 5));
    df.unpersist();
  }

  @Test
  public void columnsComeBackAsTheyWere() throws IOException {
    List<String> numbers = new ArrayList<>(Arrays.asList(COLUMNS[0], COLUMNS[1], COLUMNS[2]));
    numbers.addAll(Arrays.asList(COLUMNS[4], COLUMNS[5], COLUMNS[6]));
    // Spark caches these as columns; more than one slice of a megabyte in a batch.
    Dataset<Row> cached = spark().range(0, 90_000, 1, 2).selectExpr(numbers.toArray(new String[0])).cache();
    checkColumns(cached);
    checkColumns(cached.select("f64", "id", "flag"));
    // Days and moments too, values of a dictionary, and columns of nulls, or of one value for a whole file.
    numbers.addAll(Arrays.asList(COLUMNS[3], COLUMNS[9], COLUMNS[10], COLUMNS[11], "id % 3 AS few"));
    numbers.addAll(Arrays.asList("id % 2 AS part", "CAST(NULL AS float) AS none"));
    Path folder = Files.createTempDirectory("columns");
    spark()
        .range(0, 5000, 1, 2)
        .selectExpr(numbers.toArray(new String[0]))
        .write()
        .mode("overwrite")
        .partitionBy("part")
        .parquet(folder.toString());
    checkColumns(spark().read().parquet(folder.toString()));
    cached.unpersist();
    // Strings: all different, few, nulls, of a whole file, and long ones, of which a megabyte has not many.
    Path texts = Files.createTempDirectory("texts");
    spark()
        .range(0, 5000, 1, 2)
        .selectExpr(
            "id",
            "uuid() AS u",
            "concat('n\u00e4me', id % 5) AS few",
            "IF(id % 3 = 0, NULL, repeat('y', CAST(4000 + id % 1000 AS int))) AS y",
            "CAST(NULL AS string) AS none",
            "concat('p', id % 2) AS part")
        .write()
        .mode("overwrite")
        .partitionBy("part")
        .parquet(texts.toString());
    Dataset<Row> strings = spark().read().parquet(texts.toString());
    checkColumns(strings);
    int most = ColumnSlices.of(strings).map(slice -> slice.rows).reduce(Math::max);
    assertTrue("rows of a slice: " + most, most > 100 && most < 500);
  }

  @Test
  public void whatIsNotInColumnsGoesAsRows() {
    Dataset<Row> range = spark().range(0, 10, 1, 1).toDF();
    assertNull(ColumnSlices.of(range));
    Dataset<Row> cached = range.selectExpr("id", "CAST(id AS string) AS text").cache();
    assertNull(ColumnSlices.of(cached));
    assertNull(ColumnSlices.of(cached.selectExpr("id + 1 AS id")));
    cached.unpersist();
  }

  @Test
  public void rowsAsObjectsComeBackToo() throws BadInputException {
    Dataset<Row> df = spark().range(0, 200, 1, 1).selectExpr(COLUMNS);
    List<Row> rows = df.collectAsList();
    ObjectRowEncoder<Row> encoder = new ObjectRowEncoder<>(null, new BufferPool(1 << 20));
    for (Row row : rows) {
      encoder.add(row);
    }
    assertEquals(200, encoder.rows());
    List<Row> read = readRows(encoder, df.schema());
    assertEquals(rows, read);
    assertEquals(rows, spark().createDataFrame(read, df.schema()).collectAsList());
  }

  private static List<Row> objects(Object... values) throws BadInputException {
    ObjectRowEncoder<Object> encoder = new ObjectRowEncoder<>(null, new BufferPool(1 << 20));
    StructType schema = ObjectTypes.schemaOf(values[0]);
    for (Object value : values) {
      encoder.add(value);
    }
    return readRows(encoder, schema);
  }

  @Test
  public void plainObjectsArePutIntoColumns() throws BadInputException {
    assertEquals(Arrays.asList(RowFactory.create(5L), RowFactory.create(7L)), objects(5L, 7L));
    assertEquals(Arrays.asList(RowFactory.create("a")), objects("a"));
    assertEquals(
        Arrays.asList(RowFactory.create("a", 1), RowFactory.create(null, null)),
        objects(new Tuple2<>("a", 1), new Tuple2<>(null, null)));
    byte[] bytes = (byte[]) objects(new byte[] {1, 2}).get(0).get(0);
    assertEquals(2, bytes[1]);
    assertEquals(Arrays.asList(1.5f, 2f), objects(new float[] {1.5f, 2}, new float[0]).get(0).getList(0));
    assertEquals(Arrays.asList(1L, null), objects(Arrays.asList(1L, null)).get(0).getList(0));
    assertEquals(
        "value", new ArrayList<>(Arrays.asList(ObjectTypes.schemaOf(5L).fieldNames())).get(0));
  }

  private static String refusal(Object... values) {
    MillraceException e = assertThrows(MillraceException.class, () -> objects(values));
    assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
    return e.getMessage();
  }

  @Test
  public void whatAFeedCannotCarryIsNamed() {
    assertTrue(refusal(5L, "a").contains("\"value\": a java.lang.String where the type is bigint"));
    assertTrue(refusal(5L, new Tuple2<>(1, 2)).contains("2 columns where those before have 1"));
    assertTrue(refusal(new Tuple2<>(1, null)).contains("\"_2\": no type can be read from a null"));
    assertTrue(refusal(new java.math.BigDecimal(1)).contains("BigDecimal"));
    for (String[] bad :
        new String[][] {
          {"1.5BD AS price", "column \"price\": type decimal(2,1) is not supported by feeds; cast it to double"},
          {"map('a', 1) AS m", "map_entries()"},
          {"named_struct('i', INTERVAL '1' DAY) AS s", "column \"s.i\""},
        }) {
      StructType schema = spark().range(1).selectExpr(bad[0]).schema();
      MillraceException e = assertThrows(MillraceException.class, () -> SparkTypes.schema(schema));
      assertTrue(e.getMessage(), e.getMessage().contains(bad[1]));
    }
    StructType twice = spark().range(1).selectExpr("id", "id").schema();
    assertTrue(
        assertThrows(MillraceException.class, () -> SparkTypes.schema(twice)).getMessage().contains("rename"));
  }

  @Test
  public void aStringThatIsNotUtf8IsRefusedBeforeTheNodeSeesIt() {
    Dataset<Row> df = spark().range(1).selectExpr("CAST(X'c3' AS string) AS t");
    InternalRow row = df.queryExecution().toRdd().toJavaRDD().map(InternalRow::copy).first();
    InternalRowEncoder encoder = new InternalRowEncoder(df.schema(), new BufferPool(1 << 20));
    encoder.add(row);
    MillraceException e = assertThrows(MillraceException.class, encoder::finish);
    assertTrue(e.getMessage(), e.getMessage().contains("column \"t\""));
    OnHeapColumnVector column = new OnHeapColumnVector(1, DataTypes.StringType);
    column.putByteArray(0, new byte[] {(byte) 0xc3});
    ColumnarBatch batch = new ColumnarBatch(new ColumnVector[] {column}, 1);
    ColumnEncoder ofColumns = new ColumnEncoder(df.schema(), new BufferPool(1 << 20));
    e = assertThrows(MillraceException.class, () -> ofColumns.add(new ColumnSlice(batch, 0, 1)));
    assertTrue(e.getMessage(), e.getMessage().contains("column \"t\""));
    encoder.clear();
    assertEquals(0, encoder.rows());
  }

  @Test
  public void everyByteOfAStringIsLookedAt() {
    StructType schema = new StructType().add("t", DataTypes.StringType);
    UnsafeProjection toUnsafe = UnsafeProjection.create(schema);
    InternalRowEncoder encoder = new InternalRowEncoder(schema, new BufferPool(1 << 20));
    List<String> texts = new ArrayList<>();
    for (int size = 0; size <= 20; size++) {
      byte[] bytes = new byte[size];
      Arrays.fill(bytes, (byte) 'a');
      for (int bad = 0; bad < size; bad++) {
        bytes[bad] = (byte) 0xc3;
        InternalRow row = new GenericInternalRow(new Object[] {UTF8String.fromBytes(bytes.clone())});
        for (InternalRow same : Arrays.asList(row, toUnsafe.apply(row))) {
          InternalRowEncoder refusing = new InternalRowEncoder(schema, new BufferPool(1 << 20));
          ThrowingRunnable put =
              () -> {
                refusing.add(same);
                refusing.finish();
              };
          assertThrows("byte " + bad + " of " + size, MillraceException.class, put);
          refusing.clear();
        }
        bytes[bad] = (byte) ('a' + bad);
      }
      texts.add(new String(bytes, StandardCharsets.UTF_8));
      encoder.add(toUnsafe.apply(new GenericInternalRow(new Object[] {UTF8String.fromBytes(bytes)})));
    }
    Iterator<InternalRow> rows = decode(encoder, new ResultReader(schema));
    for (String text : texts) {
      assertEquals(text, rows.next().getUTF8String(0).toString());
    }
  }

  private static ColumnSlice texts(int rows, int badRow) {
    OnHeapColumnVector[] columns = {
      new OnHeapColumnVector(rows, DataTypes.StringType), new OnHeapColumnVector(rows, DataTypes.StringType),
    };
    for (int row = 0; row < rows; row++) {
      columns[0].putByteArray(row, new byte[] {'a'});
      columns[1].putByteArray(row, new byte[] {(byte) (row == badRow ? 0xc3 : 'b')});
    }
    return new ColumnSlice(new ColumnarBatch(columns, rows), 0, rows);
  }

  @Test
  public void anErrorOfARowNamesItByItsPlaceInThePartition() {
    StructType schema = new StructType().add("s", DataTypes.StringType).add("t", DataTypes.StringType);
    ColumnEncoder columns = new ColumnEncoder(schema, new BufferPool(1 << 20));
    assertEquals(2, columns.skip(Arrays.asList(texts(3, -1)).iterator(), 2));
    assertEquals(1, columns.finish().rows());
    columns.add(texts(4, -1));
    MillraceException e = assertThrows(MillraceException.class, () -> columns.add(texts(9, 5)));
    assertTrue(e.getMessage(), e.getMessage().startsWith("row 12: column \"t\": a string"));
    ObjectRowEncoder<Row> rows = new ObjectRowEncoder<>(schema, new BufferPool(1 << 20));
    rows.add(RowFactory.create("a", "b"));
    assertEquals(1, rows.finish().rows());
    rows.add(RowFactory.create("a", "b"));
    e = assertThrows(MillraceException.class, () -> rows.add(RowFactory.create("a", 1)));
    assertTrue(e.getMessage(), e.getMessage().startsWith("row 2: column \"t\": a java.lang.Integer"));
    rows.clear();
    columns.clear();
    UnsafeProjection toUnsafe = UnsafeProjection.create(schema);
    UTF8String good = UTF8String.fromString("\u00e4");
    UTF8String bad = UTF8String.fromBytes(new byte[] {(byte) 0xc3});
    InternalRowEncoder small = new InternalRowEncoder(schema, new BufferPool(1 << 20));
    for (boolean unsafe : new boolean[] {false, true}) {
      e =
          assertThrows(
              MillraceException.class,
              () -> {
                for (int i = 0; i < 300; i++) {
                  InternalRow row = new GenericInternalRow(new Object[] {good, i == 170 ? bad : good});
                  small.add(unsafe ? toUnsafe.apply(row) : row);
                }
              });
      assertTrue(e.getMessage(), e.getMessage().startsWith("row 170: column \"t\": a string"));
      small.clear();
      assertEquals(0, small.rows());
    }
  }

  /** Rows of every size, so that those that are held and those that are not come in turn; each in lent memory too. */
  @Test
  public void smallRowsAndLargeOnesKeepTheirOrder() throws BadInputException {
    StructType schema =
        new StructType()
            .add("b", DataTypes.BooleanType)
            .add("y", DataTypes.ByteType)
            .add("t", DataTypes.StringType)
            .add("s", DataTypes.ShortType)
            .add("v", DataTypes.BinaryType)
            .add("i", DataTypes.IntegerType)
            .add("d", DataTypes.DoubleType);
    for (int i = schema.size(); i < 70; i++) { // more nulls than a word has bits
      schema = schema.add("f" + i, DataTypes.FloatType);
    }
    Random random = new Random(1);
    UnsafeProjection toUnsafe = UnsafeProjection.create(schema);
    InternalRowEncoder encoder = new InternalRowEncoder(schema, new BufferPool(16 << 20));
    for (int batch = 0; batch < 20; batch++) {
      encoder.begin(Lent::new);
      List<InternalRow> rows = new ArrayList<>();
      int count = 1 + random.nextInt(300);
      for (int row = 0; row < count; row++) {
        byte[] text = new byte[random.nextInt(random.nextInt(10) == 0 ? 600 : 20)];
        Arrays.fill(text, (byte) ('a' + row % 26));
        Object[] values = new Object[schema.size()];
        values[0] = random.nextBoolean();
        values[1] = (byte) row;
        values[2] = UTF8String.fromBytes(text);
        values[3] = (short) row;
        values[4] = text;
        values[5] = row;
        values[6] = row / 7.0;
        for (int i = 7; i < values.length; i++) {
          values[i] = (float) (row + i);
        }
        for (int i = 0; i < values.length; i++) {
          values[i] = random.nextInt(1 + batch % 4) == 1 ? null : values[i];
        }
        InternalRow one = new GenericInternalRow(values);
        rows.add(one);
        encoder.add(random.nextInt(20) == 0 ? one : toUnsafe.apply(one));
        assertEquals(rows.size(), encoder.rows());
      }
      Iterator<InternalRow> back = decode(encoder, new ResultReader(schema));
      for (InternalRow row : rows) {
        assertEquals(toUnsafe.apply(row).copy(), toUnsafe.apply(back.next()).copy());
      }
      assertTrue(!back.hasNext());
    }
  }

  @Test
  public void resultsMustBeWhatTheSchemaSays() throws BadInputException {
    StructType wanted = new StructType().add("b", DataTypes.LongType).add("a", DataTypes.StringType, false);
    StructType sent = new StructType().add("a", DataTypes.StringType).add("b", DataTypes.IntegerType);
    ObjectRowEncoder<Row> encoder = new ObjectRowEncoder<>(sent, new BufferPool(1 << 20));
    encoder.add(RowFactory.create("x", 4));
    assertEquals(Arrays.asList(RowFactory.create(4L, "x")), readRows(encoder, wanted));
    encoder.add(RowFactory.create(null, 4));
    MillraceException e = assertThrows(MillraceException.class, () -> readRows(encoder, wanted));
    assertTrue(e.getMessage(), e.getMessage().contains("a null in \"a\""));
    ArrowSchema found = SparkTypes.schema(sent);
    for (StructType other :
        new StructType[] {
          new StructType().add("a", DataTypes.StringType),
          new StructType().add("a", DataTypes.StringType).add("c", DataTypes.IntegerType),
          new StructType().add("a", DataTypes.StringType).add("b", DataTypes.ShortType),
        }) {
      assertEquals(
          StatusCode.INVALID_ARGUMENT,
          assertThrows(MillraceException.class, () -> ResultSchema.match(other, found)).code());
    }
  }

  @Test
  public void batchesHaveAboutAMegabyte() {
    StructType schema = new StructType().add("v", DataTypes.BinaryType);
    ObjectRowEncoder<Row> encoder = new ObjectRowEncoder<>(schema, new BufferPool(16 << 20));
    int rows = 0;
    while (!encoder.full()) {
      encoder.add(RowFactory.create(new byte[1000]));
      rows++;
    }
    assertTrue("rows: " + rows, rows > 900 && rows < 1300);
    encoder.finish().release();
    encoder.add(RowFactory.create(new byte[10]));
    assertTrue(!encoder.full());
    encoder.add(RowFactory.create(new byte[5 << 20]));
    assertTrue(encoder.full());
    encoder.clear();
    StructType one = new StructType().add("v", DataTypes.LongType);
    ObjectRowEncoder<Row> longs = new ObjectRowEncoder<>(one, new BufferPool(16 << 20));
    rows = 0;
    while (!longs.full()) {
      longs.add(RowFactory.create(1L));
      rows++;
    }
    assertEquals(65_536, rows);
  }
}
