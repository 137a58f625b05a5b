package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.FeedRoute;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/** Finds the node that a task is to feed: that of its own executor, otherwise one that the coordinator chooses. */
final class NodeFinder {
  private static final long ASK_AGAIN_MILLIS = 50;
  private static final long TWIN_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int MAX_UNANSWERED = 3;
  private static final long DEATH_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final FeedPlan plan;
  private final ExecutorSite site;
  private final TaskContext task;
  private final int partition;
  private final boolean speculation = SparkEnv.get().conf().getBoolean("spark.speculation", false);
  private final long began = System.nanoTime();
  private int unanswered;

  NodeFinder(FeedPlan plan, ExecutorSite site, TaskContext task, int partition) {
    this.plan = plan;
    this.site = site;
    this.task = task;
    this.partition = partition;
  }

  /**
   * A node that runs; waits at most feed_timeout for one, and starts one that was lost where the plan says so.
   *
   * @return null if no node reads the queue any more
   * @throws MillraceException the cause, if the node or the cluster has failed; DEADLINE_EXCEEDED; CANCELLED
   */
  FeedRoute find() {
    long asked = System.nanoTime();
    while (true) {
      if (plan.reviver != null) {
        plan.reviver.look(plan, site, task, partition);
      }
      FeedRoute route = look();
      if (route == null || route.target != null) {
        return route;
      }
      if (System.nanoTime() - asked > TimeUnit.MILLISECONDS.toNanos(plan.feedTimeoutMillis)) {
        throw new MillraceException(
            StatusCode.DEADLINE_EXCEEDED,
            "partition " + partition + " (queue '" + plan.queue + "'): no node to feed for "
                + plan.feedTimeoutMillis / 1000.0 + " s (feed_timeout); "
                + (route.node.isEmpty() ? "they are " : route.node + " is ") + route.state);
      }
      pause(task);
    }
  }

  /**
   * For a task of a job that is not ours, whose later attempts are Spark's idea: throws that with which the one before
   * has ended, if another would end so too.
   */
  void failAgain() {
    if (task.attemptNumber() > 0) {
      MillraceException error = site.lookup(plan.feed, partition, -1).partitionError;
      if (error != null) {
        throw error;
      }
    }
  }

  /**
   * The node to feed now: that which has acknowledged a part of the partition, wherever it is, if the partition can
   * be resumed there; then that of this executor; then another.
   *
   * @return null if no node reads the queue any more; without a target if none runs now, and one will
   * @throws MillraceException the cause, if the node or the cluster has failed
   */
  FeedRoute look() {
    if (plan.determinate && again()) {
      FeedRoute resumed = site.lookup(plan.feed, partition, -1);
      if (resumed.target != null && resumed.resumeRow > 0) {
        return resumed;
      }
    }
    for (int local = site.localNode(plan.queue); ; local = site.localNode(plan.queue)) {
      FeedRoute route =
          local >= 0 && isFirst()
              ? site.lookupFirst(plan.feed, partition, local)
              : site.lookup(plan.feed, partition, local);
      if (local >= 0 && route.state.equals("restarting")) {
        route = site.lookup(plan.feed, partition, -1);
      }
      switch (route.state) {
        case "failed":
          throw site.cause(route.executorId, route.node);
        case "finished":
          if (local < 0) {
            return null;
          }
          site.stopPreferring(local, plan.queue);
          continue;
        default: // running, starting, restarting
          return route;
      }
    }
  }

  /** Whether a session that its node did not answer is to be opened again: every one has a connection of its own. */
  boolean mayAskAgain() {
    return ++unanswered < MAX_UNANSWERED;
  }

  /**
   * For a second attempt of a task, where the first one may still run (speculation): whether it is to ask again
   * before it feeds. A first one that ends well is the end of the second; one that makes no end within ten
   * seconds is taken over from, and its rows count as fed again.
   */
  boolean waitForTwin(FeedRoute route) {
    // The first one says so before its first row; until then it is as if it had not begun.
    boolean held = !route.partitionState.equals("done") && !route.partitionState.equals("failed");
    if (!speculation || !held || System.nanoTime() - began > TWIN_NANOS) {
      return false;
    }
    pause(task);
    return true;
  }

  /** Whether nobody has fed the partition before. */
  private boolean isFirst() {
    return !again() && task.stageAttemptNumber() == 0;
  }

  private boolean again() {
    return task.attemptNumber() > 0 || !plan.refedReason(partition).isEmpty();
  }

  /**
   * After a session with a node broke: whether the node is gone, as far as is known within a few seconds.
   *
   * @throws MillraceException the cause, if it has failed for good
   */
  boolean isGone(FeedRoute before) {
    long asked = System.nanoTime();
    while (true) {
      FeedRoute now = site.lookup(plan.feed, partition, before.executorId);
      if (now.state.equals("failed")) {
        throw site.cause(before.executorId, before.node);
      }
      if (!now.state.equals("running") || now.attempt != before.attempt) {
        return true;
      }
      if (System.nanoTime() - asked > DEATH_NANOS) {
        return false;
      }
      pause(task);
    }
  }

  private static void pause(TaskContext task) {
    try {
      Thread.sleep(ASK_AGAIN_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new MillraceException(StatusCode.CANCELLED, "the task was interrupted");
    }
    if (task.isInterrupted()) {
      throw new MillraceException(StatusCode.CANCELLED, "the task was cancelled");
    }
  }
}
