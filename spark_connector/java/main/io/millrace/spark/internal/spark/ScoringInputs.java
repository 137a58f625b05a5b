package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.rows.InternalRowEncoder;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/** Makes batches of some columns of a partition's rows, and keeps the rows for {@link ScoringAnswers}. */
final class ScoringInputs implements FlatMapFunction<Iterator<InternalRow>, byte[]> {
  private static final long serialVersionUID = 1L;
  // Two or three batches are under way at a time, and in Python they lie in memory that Spark knows nothing of.
  private static final long BATCH_BYTES = 16L << 20;

  private final StructType kept; // the first columns
  private final StructType inputs;
  private final int[] places;
  private final int columns;
  private final int batchRows;

  ScoringInputs(StructType kept, StructType inputs, int[] places, int columns, int batchRows) {
    this.kept = kept;
    this.inputs = inputs;
    this.places = places;
    this.columns = columns;
    this.batchRows = batchRows;
  }

  @Override
  public Iterator<byte[]> call(Iterator<InternalRow> rows) {
    KeptRows waiting = KeptRows.begin(kept.size());
    UnsafeProjection narrow = UnsafeProjection.create(kept);
    InternalRowEncoder encoder = new InternalRowEncoder(inputs, places, ExecutorSite.pool());
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return rows.hasNext();
      }

      @Override
      public byte[] next() {
        if (!rows.hasNext()) {
          throw new NoSuchElementException("the partition has no more rows");
        }
        while (rows.hasNext() && !encoder.full(batchRows, BATCH_BYTES)) {
          InternalRow row = rows.next();
          encoder.add(row);
          boolean whole = kept.size() == columns && row instanceof UnsafeRow;
          waiting.add(whole ? (UnsafeRow) row : narrow.apply(row));
        }
        EncodedBatch batch = encoder.finish();
        waiting.endBatch(batch.rows());
        return bytesOf(batch);
      }
    };
  }

  private static byte[] bytesOf(EncodedBatch batch) {
    try {
      if (batch.bytes() > Integer.MAX_VALUE - 8) {
        throw new MillraceException(
            StatusCode.INVALID_ARGUMENT,
            "a row's inputs take " + batch.bytes() + " bytes, more than an array of Java: cut the row into several");
      }
      byte[] bytes = new byte[(int) batch.bytes()];
      ByteBuffer to = ByteBuffer.wrap(bytes).put(batch.message());
      batch.copyBody(to);
      return bytes;
    } finally {
      batch.release();
    }
  }
}
