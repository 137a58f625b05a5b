package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import java.nio.charset.StandardCharsets;

/** Rows that both ends of a test can compute: an id, a text, a vector. */
public final class Rows {
  public static final ArrowSchema SCHEMA =
      new ArrowSchema(
          new ArrowField("id", ArrowType.of(ArrowType.Id.INT64), false),
          new ArrowField("text", ArrowType.of(ArrowType.Id.UTF8), true),
          new ArrowField("x", ArrowType.fixedSizeList(ArrowType.Id.FLOAT32, 4, false), true));

  private Rows() {}

  public static EncodedBatch batch(BufferPool pool, long firstId, int rows) {
    BatchBuilder builder = new BatchBuilder(SCHEMA, pool);
    put(builder, firstId, rows);
    return builder.finish();
  }

  public static void put(BatchBuilder builder, long firstId, int rows) {
    for (long id = firstId; id < firstId + rows; id++) {
      builder.column(0).putLong(id);
      if (id % 7 == 3) {
        builder.column(1).putNull();
        builder.column(2).putNull();
      } else {
        builder.column(1).putBytes(text(id).getBytes(StandardCharsets.UTF_8));
        builder.column(2).putFloats(new float[] {id, id + 0.25f, id + 0.5f, id + 0.75f});
      }
      builder.endRow();
    }
  }

  static String text(long id) {
    return "row \u20ac" + id;
  }
}
