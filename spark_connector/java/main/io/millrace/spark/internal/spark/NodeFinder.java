package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.WaitReport;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.feed.FeedTarget;
import io.millrace.spark.internal.feed.PartitionState;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds the node that a task is to feed: that of its own executor, otherwise one that the coordinator chooses. */
final class NodeFinder {
  private static final Logger LOG = LoggerFactory.getLogger(NodeFinder.class);
  /**
   * The coordinator is asked so often where a node is: it answers executors, and sends them nothing of itself. They ask
   * while there is no node to feed, and for five seconds after a session has broken.
   */
  private static final long ASK_AGAIN_MILLIS = 50;
  /**
   * So, and then ever less often, whether a node has little to do: by its pace, of which only time can tell, or since
   * it has the fewest rows.
   */
  private static final long FIRST_PATIENCE_MILLIS = 5;
  private static final long MAX_PATIENCE_MILLIS = 100;
  /**
   * So long since another task has last brought rows to the node with the fewest: that one's source may be slow, or it
   * has died and is to have this core.
   */
  private static final long LEVEL_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final long TWIN_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int MAX_UNANSWERED = 3;
  private static final long DEATH_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final FeedPlan plan;
  private final ExecutorSite site;
  private final TaskContext task;
  private final int partition;
  private final boolean speculation = SparkEnv.get().conf().getBoolean("spark.speculation", false);
  private final long began = System.nanoTime();
  /** Attempts of nodes whose programs read the queue no more, by executor id. */
  private final Map<Integer, Integer> stopped = new HashMap<>();
  private int unanswered;
  private boolean levelled = true; // whether the node with the fewest rows is waited for

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
  FeedTarget find() {
    long asked = System.nanoTime();
    WaitReport report = new WaitReport(plan.feedTimeoutMillis, NodeFinder::warn);
    while (true) {
      if (plan.reviver != null) {
        plan.reviver.look(plan, site, task, partition);
      }
      FeedTarget target = look(false);
      if (target == null || target.isRunning()) {
        return target;
      }
      if (System.nanoTime() - asked > TimeUnit.MILLISECONDS.toNanos(plan.feedTimeoutMillis)) {
        throw new MillraceException(
            StatusCode.DEADLINE_EXCEEDED,
            place() + ": no node to feed for "
                + plan.feedTimeoutMillis / 1000.0 + " s (feed_timeout); "
                + stateOf(target.node, target.state));
      }
      report.tell(asked, () -> noneYet(place(), target.node, target.state));
      pause(task, ASK_AGAIN_MILLIS);
    }
  }

  private String place() {
    return "partition " + partition + " (queue '" + plan.queue + "')";
  }

  static String noneYet(String place, String node, FeedTarget.State state) {
    return place + ": no node to feed yet; " + stateOf(node, state);
  }

  static String allBusy(String place) {
    return place + ": every node that reads has enough to do";
  }

  static String hasFewest(String place, String node) {
    return place + ": " + node + " has the fewest rows and is still being fed; all nodes are to have equally many";
  }

  private static String stateOf(String node, FeedTarget.State state) {
    return (node.isEmpty() ? "they are " : node + " is ") + state;
  }

  private static void warn(String line) {
    LOG.warn("feed: {}", line);
  }

  /** As {@link #look}, for training: waits while the nodes that read have enough. */
  FeedTarget lookPatiently() {
    long asked = System.nanoTime();
    long fewest = 0;
    long grown = asked; // then
    WaitReport report = new WaitReport(-1, NodeFinder::warn);
    for (long millis = FIRST_PATIENCE_MILLIS; ; millis = Math.min(2 * millis, MAX_PATIENCE_MILLIS)) {
      FeedTarget target = look(true);
      if (target == null || target.state != FeedTarget.State.BUSY) {
        return target;
      }
      if (target.level && target.fewestRows != fewest) {
        fewest = target.fewestRows;
        grown = System.nanoTime();
      }
      levelled = !target.level || System.nanoTime() - grown < LEVEL_NANOS;
      report.tell(asked, () -> target.level ? hasFewest(place(), target.node) : allBusy(place()));
      pause(task, millis);
    }
  }

  /**
   * For a task of a job that is not ours, whose later attempts are Spark's idea: throws that with which the one before
   * has ended, if another would end so too.
   */
  void failAgain() {
    if (task.attemptNumber() > 0) {
      MillraceException error = site.directory().lookup(plan.feed, partition, -1).partitionError;
      if (error != null) {
        throw error;
      }
    }
  }

  /**
   * The node to feed now. In training a partition that is fed again goes where the coordinator says: to the node that
   * has a part of it, if it can be resumed there, or to the one that will be done with it first. Others go to the node
   * of this executor, unless it has much to do and another one has not, or all nodes are to read equally many batches.
   *
   * @param training whether to ask for a node that has little to do, where that of this executor has not
   * @return null if no node reads the queue any more; one that does not run if none does now, and one will, or they are
   *     busy
   * @throws MillraceException the cause, if the node or the cluster has failed
   */
  private FeedTarget look(boolean training) {
    FeedTarget found = lookAnywhere(training);
    return found == null || !hasStopped(found) ? found : lookElsewhere();
  }

  /** The program of this node has called Terminate, which the coordinator may not know, or has ended. */
  void stopAsking(FeedTarget target) {
    stopped.put(target.executorId, target.attempt);
    site.places().stopPreferring(target.executorId, plan.queue);
  }

  private boolean hasStopped(FeedTarget target) {
    return stopped.getOrDefault(target.executorId, -1) == target.attempt;
  }

  /** As {@link #look}, of all nodes in turn. */
  private FeedTarget lookElsewhere() {
    FeedTarget later = null;
    for (int id : plan.fedNodes) {
      FeedTarget one = site.directory().lookup(plan.feed, partition, id);
      switch (one.state) {
        case FAILED:
          throw site.directory().cause(one.executorId, one.node);
        case FINISHED:
          break;
        case RUNNING:
          if (!hasStopped(one)) {
            return one;
          }
          break;
        default:
          later = one;
      }
    }
    return later;
  }

  private FeedTarget lookAnywhere(boolean training) {
    if (training && again()) {
      FeedTarget chosen = site.directory().lookup(plan.feed, partition, -1);
      if (chosen.isRunning()) {
        return chosen;
      }
    }
    for (int local = site.localNode(plan.queue); ; local = site.localNode(plan.queue)) {
      FeedTarget target =
          isFirst() ? lookFirst(local, training) : site.directory().lookup(plan.feed, partition, local);
      if (local >= 0 && target.state == FeedTarget.State.RESTARTING) {
        target = site.directory().lookup(plan.feed, partition, -1);
      }
      switch (target.state) {
        case FAILED:
          throw site.directory().cause(target.executorId, target.node);
        case FINISHED:
          if (local < 0) {
            return null;
          }
          site.places().stopPreferring(local, plan.queue);
          continue;
        default: // RUNNING, STARTING, RESTARTING, BUSY
          return target;
      }
    }
  }

  /** For a partition that nobody has fed yet. */
  private FeedTarget lookFirst(int local, boolean training) {
    if (local >= 0 && (!training || site.ledger().hasRoom(local))) {
      FeedTarget own = site.directory().lookupFirst(plan.feed, partition, local);
      if (!training || !own.level) {
        return own;
      }
    }
    return training && levelled
        ? site.directory().lookupPatiently(plan.feed, partition)
        : site.directory().lookup(plan.feed, partition, -1);
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
  boolean waitForTwin(FeedTarget target) {
    // The first one says so before its first row; until then it is as if it had not begun.
    boolean held =
        target.partitionState != PartitionState.DONE
            && target.partitionState != PartitionState.FAILED;
    if (!speculation || !held || System.nanoTime() - began > TWIN_NANOS) {
      return false;
    }
    pause(task, ASK_AGAIN_MILLIS);
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
  boolean isGone(FeedTarget before) {
    long asked = System.nanoTime();
    while (true) {
      FeedTarget now = site.directory().lookup(plan.feed, partition, before.executorId);
      if (now.state == FeedTarget.State.FAILED) {
        throw site.directory().cause(before.executorId, before.node);
      }
      if (now.state != FeedTarget.State.RUNNING || now.attempt != before.attempt) {
        return true;
      }
      if (System.nanoTime() - asked > DEATH_NANOS) {
        return false;
      }
      pause(task, ASK_AGAIN_MILLIS);
    }
  }

  private static void pause(TaskContext task, long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new MillraceException(StatusCode.CANCELLED, "the task was interrupted");
    }
    if (task.isInterrupted()) {
      throw new MillraceException(StatusCode.CANCELLED, "the task was cancelled");
    }
  }
}
