package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.Movable;
import io.millrace.spark.internal.cluster.PartitionReport;
import io.millrace.spark.internal.feed.FeedMode;
import io.millrace.spark.internal.feed.FeedResult;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.FeedTarget;
import io.millrace.spark.internal.feed.PartitionState;
import io.millrace.spark.internal.feed.SessionEnd;
import io.millrace.spark.internal.feed.SessionOptions;
import io.millrace.spark.internal.feed.SessionState;
import io.millrace.spark.internal.rows.ResultReader;
import io.millrace.spark.internal.rows.RowEncoder;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Feeds one partition to one node and hands out its results while they come: one for each row, in their
 * order. Each execution is a feed of its own, from row 0 on.
 */
final class InferenceTask<T, R> implements Function2<Integer, Iterator<T>, Iterator<R>> {
  private static final long serialVersionUID = 1L;

  private final FeedPlan plan;
  private final EncoderFactory<T> encoders;
  private final StructType resultSchema;
  private final RowMaker<R> maker;
  private final LongAccumulator rowsReturned;

  InferenceTask(
      FeedPlan plan,
      EncoderFactory<T> encoders,
      StructType resultSchema,
      RowMaker<R> maker,
      LongAccumulator rowsReturned) {
    this.plan = plan;
    this.encoders = encoders;
    this.resultSchema = resultSchema;
    this.maker = maker;
    this.rowsReturned = rowsReturned;
  }

  @Override
  public Iterator<R> call(Integer index, Iterator<T> rows) {
    return call(index, rows, () -> true);
  }

  /** As above. While {@code more} is false no row is taken; it turns true again as results are handed out. */
  Iterator<R> call(Integer index, Iterator<T> rows, BooleanSupplier more) {
    if (!rows.hasNext()) {
      return Collections.emptyIterator();
    }
    return new Results<>(this, index, rows, more);
  }

  private static final class Results<T, R> implements Iterator<R> {
    private final InferenceTask<T, R> from;
    private final int index;
    private final Iterator<T> rows;
    private final BooleanSupplier more;
    private final TaskContext task = TaskContext.get();
    private final ExecutorSite site;
    private final NodeFinder finder;
    private FeedTarget target;
    private FeedSession session;
    private PartitionReport report;
    private final RowEncoder<T> encoder;
    private final ResultReader reader;
    private EncodedBatch next;
    private long sent;
    private boolean finished;
    private MillraceException hopeless; // what another attempt would end with too
    private final AtomicBoolean over = new AtomicBoolean(); // not only this task's thread may close it
    private Iterator<R> results = Collections.emptyIterator();

    Results(InferenceTask<T, R> from, int index, Iterator<T> rows, BooleanSupplier more) {
      this.from = from;
      this.index = index;
      this.rows = rows;
      this.more = more;
      reader = new ResultReader(from.resultSchema);
      FeedPlan plan = from.plan;
      // A session is never left behind: others wait for its end. Whoever reads the results may stop before theirs
      // (limit), or be killed.
      site = plan.enterSite();
      task.addTaskCompletionListener((TaskCompletionListener) ended -> close());
      finder = new NodeFinder(plan, site, task, index);
      encoder = from.encoders.create(ExecutorSite.pool());
      finder.failAgain();
      openOrTell(
          SessionOptions.builder(
                  plan.feed + "-" + task.stageId() + "." + task.stageAttemptNumber(), FeedMode.INFERENCE)
              .queue(plan.queue)
              .partition(index)
              .feederAttempt(task.taskAttemptId())
              .feedTimeoutMillis(plan.feedTimeoutMillis)
              .sharedMemory(plan.sharedMemory)
              .budgetBytes(plan.budgetBytes)
              .cancelled(task::isInterrupted)
              .build());
      site.ledger().report(report, PartitionState.FEEDING, session.state());
    }

    private void openOrTell(SessionOptions options) {
      try {
        open(options);
      } catch (MillraceException e) {
        if (report == null) {
          report = new PartitionReport(from.plan.feed, index, target, task.taskAttemptId(), 0, "", 0, Movable.NO);
        }
        noteHopeless(e);
        throw e;
      }
    }

    /**
     * Time was given as long as the user wants, or the rows themselves are what is wrong: Spark's next attempt shall
     * not wait for as long again, nor feed them again. Of a node that has gone its program's word counts for that
     * attempt of it only.
     */
    private void noteHopeless(MillraceException e) {
      boolean gone = session != null && isGone(session.state().end);
      if (e.code() == StatusCode.DEADLINE_EXCEEDED || e.code() == StatusCode.INVALID_ARGUMENT && !gone) {
        hopeless = e;
      }
    }

    private static boolean isGone(SessionEnd end) {
      return end == SessionEnd.BROKEN || end == SessionEnd.UNANSWERED || end == SessionEnd.REFUSED;
    }

    /** Opens the session with a node that answers. */
    private void open(SessionOptions options) {
      while (true) {
        target = finder.find();
        if (target == null) {
          throw new MillraceException(
              StatusCode.FAILED_PRECONDITION,
              "partition " + index + " (queue '" + from.plan.queue + "'): no node serves inference any more");
        }
        session = ExecutorSite.hub().open(target, options);
        try {
          session.awaitAnswered();
          report = new PartitionReport(from.plan.feed, index, target, task.taskAttemptId(), 0, "", 0, Movable.NO);
          return;
        } catch (MillraceException e) {
          if (session.state().end != SessionEnd.UNANSWERED || !finder.mayAskAgain()) {
            throw explain(e);
          }
        }
      }
    }

    private void close() {
      if (!over.compareAndSet(false, true)) {
        return;
      }
      if (session != null) {
        session.abort(StatusCode.CANCELLED, "its task has ended");
      }
      SessionState state = session == null ? null : session.state();
      if (report != null && (state != null || hopeless != null)) {
        boolean done = state != null && state.end == SessionEnd.DONE;
        PartitionState end = done ? PartitionState.DONE : PartitionState.FAILED;
        site.ledger().report(report, end, state, hopeless);
        if (done) {
          site.directory().confirmTarget(from.plan.feed, target);
        }
      }
      site.leave();
    }

    @Override
    public boolean hasNext() {
      while (!results.hasNext() && !over.get()) {
        try {
          advance();
        } catch (MillraceException e) {
          MillraceException why = explain(e);
          noteHopeless(why);
          close();
          throw why;
        }
      }
      return results.hasNext();
    }

    /** Sends or receives something; results first. */
    private void advance() {
      if (next == null && !finished && more.getAsBoolean()) {
        encodeNext();
      }
      switch (session.awaitReady(next)) {
        case RESULT:
          FeedResult result = session.nextResult();
          from.rowsReturned.add(result.rows());
          results = from.maker.rows(reader, result);
          break;
        case SEND:
          int count = next.rows();
          if (session.trySend(encoder.schema(), next)) {
            sent += count;
            next = null;
          }
          break;
        default:
          close();
      }
    }

    private void encodeNext() {
      long began = System.nanoTime();
      while (rows.hasNext() && !encoder.full() && more.getAsBoolean()) {
        T row = rows.next();
        if (session.wantsRows() && encoder.hold(row)) {
          continue;
        }
        write(
            () -> {
              encoder.begin(session::lend);
              encoder.add(row);
            });
      }
      if (encoder.rows() > 0) {
        long read = System.nanoTime();
        write(
            () -> {
              encoder.begin(session::lend);
              next = encoder.finish();
            });
        session.countTimes(read - began, System.nanoTime() - read);
      } else {
        session.finish(sent);
        finished = true;
      }
    }

    /** What may write into room that the node has granted; the source may take its time between two of these. */
    private void write(Runnable what) {
      session.beginWriting();
      try {
        what.run();
      } finally {
        session.endWriting();
      }
    }

    /** Why the node is gone, where that is what has happened. */
    private MillraceException explain(MillraceException e) {
      SessionEnd end = session.state().end;
      if (end == SessionEnd.TERMINATED) {
        site.places().stopPreferring(target.executorId, from.plan.queue);
      }
      if (!isGone(end)) {
        return e;
      }
      try {
        return finder.isGone(target)
            ? new MillraceException(
                StatusCode.UNAVAILABLE, session.place() + ": the node has ended; the partition is fed again")
            : e;
      } catch (MillraceException cause) {
        return cause;
      }
    }

    @Override
    public R next() {
      if (!hasNext()) {
        throw new NoSuchElementException("partition " + index + " has no more results");
      }
      return results.next();
    }
  }
}
