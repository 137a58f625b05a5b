package io.millrace.spark.internal.rows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.Defaults;
import java.util.Collections;
import java.util.Iterator;
import java.util.function.LongFunction;
import org.apache.spark.TaskContext;

/**
 * Makes batches of rows of one kind.
 *
 * <pre>{@code
 * encoder.add(row);                       // copies it: Spark reuses its rows
 * if (encoder.full()) {
 *   session.send(encoder.schema(), encoder.finish());
 * }
 * }</pre>
 *
 * An error of {@link #add} or {@link #finish} is a MillraceException with INVALID_ARGUMENT that names the row and the
 * column; call {@link #clear} then. Not thread-safe.
 */
public abstract class RowEncoder<T> {
  // Large enough that a batch costs little beside its bytes, small enough that a node begins early.
  static final long BATCH_BYTES = Defaults.BATCH_BYTES;
  private static final int BATCH_ROWS = 1 << 16;

  private BatchBuilder builder;
  private RowBlock block; // of rows that come next; null: each is put into columns as it is added
  private long rowsBefore; // of the partition: passed over, or in batches that are finished

  /** What rows are put into; {@link #add} may make it of the first row. */
  final void setBuilder(BatchBuilder value) {
    builder = value;
  }

  final void setBlock(RowBlock value) {
    block = value;
  }

  final BatchBuilder builder() {
    return builder;
  }

  /**
   * Lets {@code lender} give the memory for the next rows, if none have been put into columns since the last batch: it
   * is asked for about as much as the batch before took, and may give null.
   */
  public final void begin(LongFunction<BodyMemory> lender) {
    long wanted = builder == null || builder.rows() > 0 ? 0 : builder.wantedBytes();
    BodyMemory memory = wanted == 0 ? null : lender.apply(wanted);
    if (memory != null) {
      builder.begin(memory);
    }
  }

  /**
   * Keeps a copy of a row, which may be changed afterwards, until {@link #add} or {@link #finish}: no memory of
   * {@link #begin} is touched.
   *
   * @return false if the row is to be added now
   */
  public final boolean hold(T row) {
    return block != null && block.add(row);
  }

  /** Adds a row, which may be changed afterwards. */
  public final void add(T row) {
    if (hold(row)) {
      return;
    }
    putHeld();
    if (hold(row)) {
      return;
    }
    try {
      put(row);
    } catch (MillraceException e) {
      throw named(e, builder == null ? 0 : builder.rowsOfColumnUnderWay(rowsOf(row)));
    }
  }

  private void putHeld() {
    int held = held();
    if (held == 0) {
      return;
    }
    try {
      block.move();
    } catch (MillraceException e) {
      throw named(e, builder.rows() + Math.max(0, block.badRow()));
    }
    builder.endRows(held);
  }

  private int held() {
    return block == null ? 0 : block.rows();
  }

  private MillraceException named(MillraceException e, int row) {
    TaskContext task = TaskContext.get();
    String place = task == null ? "" : "partition " + task.partitionId() + " of Spark's job, ";
    return new MillraceException(
        e.code(), place + "row " + (rowsBefore + row) + ": " + e.getMessage(), "", "",
        Collections.<String>emptyList(), e);
  }

  /** Puts a row into the columns, and ends it. */
  protected abstract void put(T row);

  /** How many rows {@code element} is; one, unless elements are pieces of columns. */
  protected int rowsOf(T element) {
    return 1;
  }

  /** The rest of an element, from row {@code first} of it on, which it must have. */
  protected T restOf(T element, int first) {
    return element;
  }

  /**
   * Passes over {@code count} rows, and adds what comes after them in the element that has the last one.
   *
   * @return how many rows were passed over: fewer if there are no more
   */
  public final long skip(Iterator<T> elements, long count) {
    long left = count;
    while (left > 0 && elements.hasNext()) {
      T element = elements.next();
      int of = rowsOf(element);
      long passed = Math.min(left, of);
      left -= passed;
      rowsBefore += passed;
      if (of > passed) {
        add(restOf(element, (int) passed));
      }
    }
    return count - left;
  }

  /** Of the batches; null if it is made of the first row, and that is yet to come. */
  public final ArrowSchema schema() {
    return builder == null ? null : builder.schema();
  }

  /** Rows since the last batch. */
  public final int rows() {
    return builder == null ? 0 : builder.rows() + held();
  }

  /** Bytes of the rows since the last batch, about. */
  public final long bytes() {
    return builder == null ? 0 : builder.bytes();
  }

  /** Whether these rows are enough for a batch: a megabyte, or 65,536. */
  public final boolean full() {
    return full(BATCH_ROWS, BATCH_BYTES);
  }

  /** Whether these rows are as many, or have about as many bytes. */
  public final boolean full(int rows, long bytes) {
    return builder != null && (builder.rows() >= rows || builder.full(bytes));
  }

  /** The rows since the last batch, at least one, in wire form. */
  public final EncodedBatch finish() {
    putHeld();
    rowsBefore += builder.rows();
    return builder.finish();
  }

  /** Forgets the rows since the last batch and gives their memory back. */
  public final void clear() {
    if (builder != null) {
      builder.clear();
    }
    if (block != null) {
      block.clear();
    }
  }
}
