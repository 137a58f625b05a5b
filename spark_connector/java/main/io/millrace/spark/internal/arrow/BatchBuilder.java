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
  // For what is put behind the rest: validity of a column that had no null before.
  private static final int SPARE_BYTES = 4 << 10;

  private final ArrowSchema schema;
  private final BufferPool pool;
  private final ColumnBuilder[] columns;
  private final DirectBuffer.Growth growth = new DirectBuffer.Growth();
  private final List<DirectBuffer> buffers = new ArrayList<>(); // of all columns
  private BodyMemory memory; // that the rows lie in, as far as it goes; null: the pool's alone
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
      columns[i].listBuffers(buffers);
    }
  }

  public ArrowSchema schema() {
    return schema;
  }

  public ColumnBuilder column(int i) {
    return columns[i];
  }

  /** Memory for another batch like the one before, if that is to be lent; 0 if there was none, or that was done. */
  public long wantedBytes() {
    if (memory != null) {
      return 0;
    }
    long bytes = 0;
    for (DirectBuffer buffer : buffers) {
      bytes += placeFor(buffer);
    }
    return bytes == 0 ? 0 : bytes + SPARE_BYTES;
  }

  /** What a buffer is given: a little more than it had, since no batch is quite like another. */
  private static int placeFor(DirectBuffer buffer) {
    long size = buffer.sizeBefore();
    return (int) ((size + size / 16 + 63) & ~63L);
  }

  /**
   * Puts the next rows into {@code lent}, at least {@link #wantedBytes}, each buffer at a place of its own. What
   * outgrows its place moves elsewhere; {@link #finish} puts it behind the others if it can. No row is under way.
   */
  public void begin(BodyMemory lent) {
    if (rows > 0 || memory != null) {
      throw new IllegalStateException("there are rows already");
    }
    memory = lent;
    ByteBuffer bytes = lent.bytes();
    // The largest one comes last: it has all that is left.
    DirectBuffer largest = buffers.get(0);
    for (DirectBuffer buffer : buffers) {
      largest = buffer.sizeBefore() > largest.sizeBefore() ? buffer : largest;
    }
    int at = 0;
    for (DirectBuffer buffer : buffers) {
      int place = placeFor(buffer);
      if (buffer != largest && place > 0) {
        buffer.useLent(bytes, at, at + place);
        at += place;
      }
    }
    largest.useLent(bytes, at, bytes.capacity());
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

  /** Where {@code count} more rows are being added, one column after the other: how many the one under way has. */
  public int rowsOfColumnUnderWay(int count) {
    for (ColumnBuilder column : columns) {
      if (column.rows() < rows + count) {
        return column.rows();
      }
    }
    return rows + count;
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
    EncodedBatch encoded = body.finish(rows, memory);
    memory = null;
    rows = 0;
    nextLook = 0;
    return encoded;
  }

  /** Forgets all rows and gives their memory back. */
  public void clear() {
    List<ByteBuffer> freed = new ArrayList<>();
    for (ColumnBuilder column : columns) {
      column.clear(freed);
    }
    freed.forEach(pool::give);
    if (memory != null) {
      memory.release();
      memory = null;
    }
    rows = 0;
    nextLook = 0;
  }
}
