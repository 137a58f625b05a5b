package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Rows on their way into a batch.
 *
 * <pre>{@code
 * BatchBuilder batch = new BatchBuilder(schema, pool);
 * batch.column(0).putLong(7);
 * batch.endRow();
 * EncodedBatch encoded = batch.finish();   // and batch is empty
 * }</pre>
 *
 * Not thread-safe.
 */
public final class BatchBuilder {
  private final ArrowSchema schema;
  private final BufferPool pool;
  private final ColumnBuilder[] columns;
  private final DirectBuffer.Growth growth = new DirectBuffer.Growth();
  private int rows;
  // What full() knows: it looks again once the rows are so many, or a buffer has grown.
  private int nextLook;
  private int growthSeen;

  public BatchBuilder(ArrowSchema schema, BufferPool pool) {
    this.schema = schema;
    this.pool = pool;
    columns = new ColumnBuilder[schema.fields().size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = new ColumnBuilder(schema.fields().get(i).type(), pool, growth);
    }
  }

  public ArrowSchema schema() {
    return schema;
  }

  public ColumnBuilder column(int i) {
    return columns[i];
  }

  /** Every column has one more row now. */
  public void endRow() {
    rows++;
  }

  /** Every column has {@code count} more rows now. */
  public void endRows(int count) {
    rows += count;
  }

  public int rows() {
    return rows;
  }

  /** Bytes so far, about what the encoded batch will have. */
  public long bytes() {
    long bytes = 0;
    for (ColumnBuilder column : columns) {
      bytes += column.bytes();
    }
    return bytes;
  }

  /** Whether the batch has {@code target} bytes, or nearly twice as many after one large row; cheap. */
  public boolean full(long target) {
    if (rows < nextLook && growthSeen == growth.count) {
      return false;
    }
    long bytes = bytes();
    growthSeen = growth.count;
    if (bytes >= target) {
      return true;
    }
    long left = (target - bytes) * rows / Math.max(1, bytes);
    nextLook = rows + (int) Math.max(1, Math.min(1 << 16, left));
    return false;
  }

  /** The rows in wire form; at least one. This is empty afterwards. */
  public EncodedBatch finish() {
    for (int i = 0; i < columns.length; i++) {
      if (columns[i].rows() != rows) {
        throw new IllegalStateException(
            "column " + schema.fields().get(i) + " has " + columns[i].rows() + " rows of " + rows);
      }
    }
    if (rows == 0) {
      throw new IllegalStateException("a batch without rows");
    }
    BodyWriter body = new BodyWriter(pool);
    for (ColumnBuilder column : columns) {
      column.finish(body);
    }
    EncodedBatch encoded = body.finish(rows);
    rows = 0;
    nextLook = 0;
    return encoded;
  }

  /** Forgets all rows and gives their memory back. */
  public void clear() {
    List<ByteBuffer> memory = new ArrayList<>();
    for (ColumnBuilder column : columns) {
      column.clear(memory);
    }
    memory.forEach(pool::give);
    rows = 0;
    nextLook = 0;
  }
}
