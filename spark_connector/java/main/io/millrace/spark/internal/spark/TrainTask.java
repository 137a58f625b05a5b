package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.FollowedSession;
import io.millrace.spark.internal.cluster.Movable;
import io.millrace.spark.internal.cluster.PartitionReport;
import io.millrace.spark.internal.feed.FeedMode;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.FeedTarget;
import io.millrace.spark.internal.feed.PartitionState;
import io.millrace.spark.internal.feed.SessionEnd;
import io.millrace.spark.internal.feed.SessionOptions;
import io.millrace.spark.internal.rows.RowEncoder;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.util.LongAccumulator;

/**
 * Feeds one partition to one node and ends when the node holds every row, or those that it is to have; the executor's
 * {@link ExecutorSite} tells the ledger when they are acknowledged. Errors of the cluster are outcomes, so that
 * Spark does not try again what cannot succeed; errors of the data are Spark's.
 */
final class TrainTask<T> implements Function2<Integer, Iterator<T>, Iterator<FeedOutcome>> {
  private static final long serialVersionUID = 1L;
  /** Of one task: the next one's attempts are greater. */
  private static final int MAX_SESSIONS = 1024;

  private final FeedPlan plan;
  private final EncoderFactory<T> encoders;
  private final LongAccumulator rowsFed;

  TrainTask(FeedPlan plan, EncoderFactory<T> encoders, LongAccumulator rowsFed) {
    this.plan = plan;
    this.encoders = encoders;
    this.rowsFed = rowsFed;
  }

  /** A partition's rows, which Spark gives once, and how far sessions have come with them. */
  private static final class Source<T> {
    final Iterator<T> rows;
    boolean touched; // Spark has made a row
    long rowsBefore; // so far the node of the last session may have used them
    private int sessions;

    Source(Iterator<T> rows, long rowsBefore) {
      this.rows = rows;
      this.rowsBefore = rowsBefore;
    }

    /** What the ledger knows the next session by: it grows with each one of a partition, as Spark's ids do. */
    long nextAttempt(TaskContext task) {
      return task.taskAttemptId() * MAX_SESSIONS + Math.min(sessions++, MAX_SESSIONS - 1);
    }
  }

  @Override
  public Iterator<FeedOutcome> call(Integer index, Iterator<T> rows) {
    ExecutorSite site = plan.enterSite();
    try {
      return Collections.singletonList(feed(index, rows, site)).iterator();
    } finally {
      site.leave();
    }
  }

  private FeedOutcome feed(int index, Iterator<T> rows, ExecutorSite site) {
    TaskContext task = TaskContext.get();
    String feeder = SparkEnv.get().executorId();
    NodeFinder finder = new NodeFinder(plan, site, task, index);
    Source<T> source = new Source<>(rows, plan.rowsBefore(index));
    try {
      while (true) {
        FeedTarget target = finder.lookPatiently();
        if (target == null) {
          return FeedOutcome.terminated(index, feeder);
        }
        if (!target.isRunning()) {
          // Were this task to wait, the one that starts the node might find no core.
          return FeedOutcome.later(index, source.rowsBefore, feeder, refedReason(index));
        }
        if (task.attemptNumber() > 0 && finder.waitForTwin(target)) {
          continue;
        }
        if (task.attemptNumber() > 0 && target.partitionState == PartitionState.DONE) {
          // An earlier attempt of this task has done it, and Spark has lost its word.
          return FeedOutcome.received(index, 0, feeder);
        }
        FeedOutcome outcome = feedTo(target, index, source, site, finder);
        // A node that read no more, or did not answer, before the first row was taken from Spark.
        if (outcome.kind != FeedOutcome.Kind.AGAIN || source.touched) {
          return outcome;
        }
        source.rowsBefore = outcome.rows;
      }
    } catch (MillraceException e) {
      if (e.code() == StatusCode.CANCELLED) {
        throw e;
      }
      return FeedOutcome.failed(index, feeder, e);
    }
  }

  /** Why the partition is fed again; "" if it is not. */
  private String refedReason(int index) {
    String reason = plan.refedReason(index);
    int attempt = TaskContext.get().attemptNumber();
    return reason.isEmpty() && attempt > 0 ? "attempt " + attempt + " of its Spark task" : reason;
  }

  private FeedOutcome feedTo(
      FeedTarget target, int index, Source<T> source, ExecutorSite site, NodeFinder finder) {
    TaskContext task = TaskContext.get();
    String feeder = SparkEnv.get().executorId();
    String refed = refedReason(index);
    long firstRow = plan.determinate ? target.resumeRow : 0;
    Movable movable = plan.determinate ? Movable.ANY_ROW : Movable.WHOLE;
    long attempt = source.nextAttempt(task);
    PartitionReport report =
        new PartitionReport(plan.feed, index, target, attempt, firstRow, refed, source.rowsBefore, movable);
    SessionOptions options =
        SessionOptions.builder(plan.openFeed(), FeedMode.TRAIN)
            .queue(plan.queue)
            .partition(index % plan.partitions)
            .dataEpoch(index / plan.partitions)
            .feederAttempt(attempt)
            .firstRow(firstRow)
            .feedTimeoutMillis(plan.feedTimeoutMillis)
            .sharedMemory(plan.sharedMemory)
            .budgetBytes(plan.budgetBytes)
            .cancelled(task::isInterrupted)
            .build();
    FeedSession session = ExecutorSite.hub().open(target, options);
    FollowedSession told = site.ledger().follow(session, report);
    boolean received = false;
    try {
      session.awaitAnswered();
      if (!told.awaitBegun()) {
        throw takenOver(session);
      }
      long rowCount = feedRows(session, source, encoders.create(ExecutorSite.pool()), firstRow);
      session.finish(rowCount);
      session.awaitReceived();
      received = true;
      told.setReceived();
      site.directory().confirmTarget(plan.feed, target);
      return FeedOutcome.received(index, rowCount, feeder);
    } catch (MillraceException e) {
      SessionEnd end = session.state().end;
      if (end != SessionEnd.OPEN) {
        told.awaitEndTold(); // whether the ledger knows of the session
      }
      if (told.isTakenOver()) {
        throw takenOver(session);
      }
      if (end == SessionEnd.TERMINATED) {
        finder.stopAsking(target);
        return FeedOutcome.again(index, rowsInDoubt(told, source), feeder, e.getMessage());
      }
      if (end == SessionEnd.BROKEN || end == SessionEnd.UNANSWERED || end == SessionEnd.REFUSED) {
        boolean gone = finder.isGone(target);
        boolean again = end == SessionEnd.BROKEN || end == SessionEnd.UNANSWERED && finder.mayAskAgain();
        if (!gone && !again) {
          throw e;
        }
        String why = gone ? target.node + " ended" : e.getMessage();
        return FeedOutcome.again(index, rowsInDoubt(told, source), feeder, why);
      }
      throw e;
    } finally {
      if (!received) {
        site.directory().forgetTarget(plan.feed, target.executorId);
        session.abort(StatusCode.CANCELLED, "its task has ended");
        told.awaitEndTold();
      }
    }
  }

  /** What the session before this one left in doubt is counted once the ledger has this one's beginning. */
  private static long rowsInDoubt(FollowedSession told, Source<?> source) {
    return told.isKnown() ? told.state().rowsInDoubt() : source.rowsBefore;
  }

  /** Another attempt of this task feeds the partition, on another executor: this one ends, without being a failure. */
  private static TaskKilledException takenOver(FeedSession session) {
    return new TaskKilledException(session.place() + ": another attempt has taken the partition over");
  }

  /**
   * Sends the rows from {@code firstRow} on; returns how many the partition has. It stops once the rest was taken back
   * for another node: a later job feeds it.
   */
  private long feedRows(
      FeedSession session, Source<T> source, RowEncoder<T> encoder, long firstRow) {
    Iterator<T> rows = source.rows;
    long sent = firstRow;
    long began = System.nanoTime();
    boolean more = rows.hasNext();
    source.touched = more;
    if (firstRow > 0) {
      long passed = encoder.skip(rows, firstRow);
      if (passed < firstRow) {
        throw new MillraceException(
            StatusCode.DATA_LOSS,
            session.place() + ": the source has " + passed + " rows where it had " + firstRow
                + " or more before; Spark calls it determinate, and it is not: checkpoint the data");
      }
      more = rows.hasNext();
    }
    try {
      while (more || encoder.rows() > 0) {
        T row = more ? rows.next() : null;
        boolean add = more;
        if (add && session.wantsRows() && encoder.hold(row)) {
          add = false;
          more = rows.hasNext();
          if (more) {
            continue;
          }
        }
        EncodedBatch batch = null;
        if (!session.beginWriting()) {
          break;
        }
        try {
          encoder.begin(session::lend);
          if (add) {
            encoder.add(row);
          }
          if (encoder.full() || !more) {
            sent += encoder.rows();
            rowsFed.add(encoder.rows());
            long read = System.nanoTime();
            batch = encoder.finish();
            session.countTimes(read - began, System.nanoTime() - read);
          }
        } finally {
          session.endWriting(); // the source may take its time
        }
        if (batch != null) {
          session.send(encoder.schema(), batch);
          began = System.nanoTime();
        }
        more = more && rows.hasNext();
      }
    } finally {
      encoder.clear();
    }
    return sent;
  }
}
