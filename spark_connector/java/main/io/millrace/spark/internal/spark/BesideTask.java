package io.millrace.spark.internal.spark;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Inference whose results come beside a part of their own rows: elements are pairs, of which the first is fed and the
 * second waits here for the result. What waits has {@link #MOST_BYTES} at most, unless that is less than the node
 * needs to answer at all.
 */
final class BesideTask<R> implements Function2<Integer, Iterator<R>, Iterator<R>> {
  private static final long serialVersionUID = 1L;
  private static final long MOST_BYTES = 64L << 20;

  /** Spark's rows, of either kind. */
  interface Form<R> extends Serializable {
    /** The first of a pair; valid until the next pair. */
    R fed(R pair);

    /** The second, for as long as somebody has it. */
    R kept(R pair);

    /** Of what {@link #kept} has returned, about. */
    long bytes(R kept);

    R joined(R kept, R result);
  }

  private final InferenceTask<R, R> inference;
  private final Form<R> form;
  private final int rowsAtOnce;

  /** Pairs for {@code inference}. A node that has twice {@code rowsAtOnce} rows must be able to answer some of them. */
  BesideTask(InferenceTask<R, R> inference, Form<R> form, int rowsAtOnce) {
    this.inference = inference;
    this.form = form;
    this.rowsAtOnce = rowsAtOnce;
  }

  @Override
  public Iterator<R> call(Integer index, Iterator<R> pairs) {
    Kept kept = new Kept(pairs);
    Iterator<R> results = inference.call(index, kept, kept::mayGrow);
    return new Iterator<R>() {
      @Override
      public boolean hasNext() {
        return results.hasNext();
      }

      @Override
      public R next() {
        R result = results.next();
        return form.joined(kept.take(), result);
      }
    };
  }

  /** The rows that are fed; what is to stand beside their results stays here. */
  private final class Kept implements Iterator<R> {
    private final Iterator<R> pairs;
    private final ArrayDeque<R> waiting = new ArrayDeque<>();
    private long bytes;

    Kept(Iterator<R> pairs) {
      this.pairs = pairs;
    }

    boolean mayGrow() {
      return bytes < MOST_BYTES || waiting.size() < 2L * rowsAtOnce;
    }

    R take() {
      R oldest = waiting.remove();
      bytes -= form.bytes(oldest);
      return oldest;
    }

    @Override
    public boolean hasNext() {
      return pairs.hasNext();
    }

    @Override
    public R next() {
      R pair = pairs.next();
      R kept = form.kept(pair);
      waiting.add(kept);
      bytes += form.bytes(kept);
      return form.fed(pair);
    }
  }

  /** Spark's own: pairs are structs of {@code fed} and {@code kept} columns. */
  static Form<InternalRow> ofInternalRows(int fed, int kept) {
    return new InternalForm(fed, kept);
  }

  private static final class InternalForm implements Form<InternalRow> {
    private static final long serialVersionUID = 1L;

    private final int fedColumns;
    private final int keptColumns;

    InternalForm(int fedColumns, int keptColumns) {
      this.fedColumns = fedColumns;
      this.keptColumns = keptColumns;
    }

    @Override
    public InternalRow fed(InternalRow pair) {
      return pair.getStruct(0, fedColumns);
    }

    @Override
    public InternalRow kept(InternalRow pair) {
      return pair.getStruct(1, keptColumns).copy();
    }

    @Override
    public long bytes(InternalRow kept) {
      return kept instanceof UnsafeRow ? ((UnsafeRow) kept).getSizeInBytes() : 16L * keptColumns;
    }

    @Override
    public InternalRow joined(InternalRow kept, InternalRow result) {
      return new JoinedRow(kept, result);
    }
  }

  /** Objects. */
  static Form<Row> ofRows() {
    return new RowForm();
  }

  private static final class RowForm implements Form<Row> {
    private static final long serialVersionUID = 1L;
    private static final int BYTES = 1024; // nobody knows

    @Override
    public Row fed(Row pair) {
      return pair.getStruct(0);
    }

    @Override
    public Row kept(Row pair) {
      return pair.getStruct(1);
    }

    @Override
    public long bytes(Row kept) {
      return BYTES;
    }

    @Override
    public Row joined(Row kept, Row result) {
      Object[] values = new Object[kept.size() + result.size()];
      for (int i = 0; i < values.length; i++) {
        values[i] = i < kept.size() ? kept.get(i) : result.get(i - kept.size());
      }
      return RowFactory.create(values);
    }
  }
}
