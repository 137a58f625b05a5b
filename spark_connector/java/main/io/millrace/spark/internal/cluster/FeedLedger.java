package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.PartitionState;
import io.millrace.spark.internal.feed.SessionState;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the coordinator's ledger is told of an executor's sessions: how far each came, and how far the nodes are with
 * all of them. Thread-safe; {@link #tell} is for one thread, the site's.
 */
public final class FeedLedger {
  private static final Logger LOG = LoggerFactory.getLogger(FeedLedger.class);
  /** Reports go out so often, unless there are many sessions. */
  private static final long REPORT_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
  private static final long REPORT_NANOS_PER_SESSION = TimeUnit.MILLISECONDS.toNanos(2);
  private static final long MAX_REPORT_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long PACE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final CoordinatorLink link;
  private final Runnable wake;
  // Guarded by this.
  private final List<FollowedSession> followed = new ArrayList<>();
  private final FeedPace pace = new FeedPace();
  // Of tell().
  private CompletableFuture<JsonObject> paceAnswer;
  private long paceNanos = System.nanoTime();
  private long reportNanos = System.nanoTime();

  /** {@code wake} is called when {@link #tell} is due at once. */
  FeedLedger(CoordinatorLink link, Runnable wake) {
    this.link = link;
    this.wake = wake;
  }

  /**
   * Tells the ledger that a session begins; {@link FollowedSession#awaitBegun} has its answer. From then on it is told
   * at least each second how far the session came, and how it ends, also when the task has ended.
   */
  public FollowedSession follow(FeedSession session, PartitionReport report) {
    FollowedSession one =
        new FollowedSession(wake, params -> link.send("report", params), session, report);
    synchronized (this) {
      followed.add(one);
    }
    wake.run();
    return one;
  }

  /** Tells the ledger of a session that is not followed; that it cannot be told is logged. */
  public void report(PartitionReport report, PartitionState state, SessionState session) {
    report(report, state, session, null);
  }

  /** As {@link #report}, with an error that another attempt would end with too. */
  public void report(
      PartitionReport report, PartitionState state, SessionState session, MillraceException error) {
    try {
      link.tryCall("report", report.params(state, session).and("error", errorJson(error)));
    } catch (MillraceException e) {
      LOG.warn("the ledger did not take a partition: {}", e.getMessage());
    }
  }

  private static Params errorJson(MillraceException error) {
    return error == null ? null : Params.of("code", error.code().name()).and("message", error.getMessage());
  }

  /**
   * Whether a node may be given a partition to train on without asking who will be done with it first: it has little
   * unread by its pace, or, while nobody knows that, no whole partition.
   */
  public synchronized boolean hasRoom(int executorId) {
    pace.update(followed);
    return pace.hasRoom(executorId);
  }

  synchronized boolean isFollowing() {
    return !followed.isEmpty();
  }

  /** Whether {@link #tell} has nothing to do. */
  synchronized boolean isIdle() {
    return followed.isEmpty() && !pace.owes();
  }

  /** Tells what is due, and waits for the answers. */
  void tell() {
    List<FollowedSession> now;
    synchronized (this) {
      now = new ArrayList<>(followed);
    }
    tellPace(now);
    tellSessions(now);
  }

  private void tellSessions(List<FollowedSession> now) {
    long interval = Math.max(REPORT_NANOS, now.size() * REPORT_NANOS_PER_SESSION);
    boolean all = System.nanoTime() - reportNanos > Math.min(interval, MAX_REPORT_NANOS);
    if (all) {
      reportNanos = System.nanoTime();
    }
    List<FollowedSession> told = new ArrayList<>();
    for (FollowedSession one : now) {
      if (one.tell(all)) {
        told.add(one);
      }
    }
    // Before the next round: a later report must not overtake an earlier one.
    Set<FollowedSession> over = new HashSet<>();
    for (FollowedSession one : told) {
      if (one.awaitAnswer()) {
        over.add(one);
      }
    }
    synchronized (this) {
      followed.removeAll(over);
      over.forEach(pace::ended);
    }
  }

  /** Ten times a second: how far the nodes are, for whoever decides which one gets how much. */
  private void tellPace(List<FollowedSession> now) {
    if (paceAnswer != null && paceAnswer.isDone()) {
      CompletableFuture<JsonObject> answer = paceAnswer;
      paceAnswer = null;
      try {
        JsonObject members = ControlChild.await(answer, "pace");
        synchronized (this) {
          pace.onAnswer(members, now);
        }
      } catch (MillraceException | BadInputException e) {
        LOG.debug("the coordinator did not take the nodes' pace: {}", e.getMessage());
      }
    }
    if (paceAnswer != null || System.nanoTime() - paceNanos < PACE_NANOS) {
      return;
    }
    paceNanos = System.nanoTime();
    Params params;
    synchronized (this) {
      pace.update(followed);
      params = pace.params(ExecutorSite.hub().principal());
    }
    if (params != null) {
      try {
        paceAnswer = link.send("pace", params);
        paceAnswer.whenComplete((answer, error) -> wake.run());
      } catch (MillraceException e) {
        LOG.debug("there is no way to tell the nodes' pace: {}", e.getMessage());
      }
    }
  }
}
