package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Interrupts;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.base.WaitReport;
import io.millrace.spark.internal.cluster.CoordinatorProcess;
import io.millrace.spark.internal.cluster.FeedSummary;
import io.millrace.spark.internal.cluster.Slot;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One train call, on the driver: a Spark job that feeds every partition of every epoch, follow-up jobs for
 * those that were lost with their node or their feeder, and the wait until the ledger shows every row
 * acknowledged. For one thread.
 */
public final class TrainRun<T> {
  private static final Logger LOG = LoggerFactory.getLogger(TrainRun.class);
  /** Time limits are looked at so often while something is waited for. */
  private static final long MAX_WAIT_MILLIS = 500;
  private static final long CAUSE_MILLIS = 3_000;
  private static final int MAX_ROUNDS_WITHOUT_PROGRESS = 10;

  private final JavaSparkContext spark;
  private final CoordinatorProcess coordinator;
  private final FeedPlan plan;
  private final JavaRDD<T> rdd;
  private final EncoderFactory<T> encoders;
  private final String clusterTag;
  private final String description;
  private final ExecutorWatch executors;
  private final Supplier<String> nodeNeeds;
  /** In Spark's UI. */
  private final LongAccumulator rowsFed;
  /** Spark's executor that fed each partition that was received. */
  private final Map<Integer, String> feeders = new HashMap<>();
  /** By partition, what its last task said ({@link FeedOutcome#rows}). */
  private final Map<Integer, Long> rowsBefore = new HashMap<>();
  private final Set<Integer> terminated = new HashSet<>();
  private String openFeed;
  private int round;
  private Duration elapsed = Duration.ZERO;

  /**
   * A call.
   *
   * @param rdd of all epochs, one after the other
   * @param clusterTag of its jobs, which are cancelled by it when the cluster fails
   * @param description of its jobs, for people
   * @param nodeNeeds what a node that is to be started needs, and what Spark has
   */
  public TrainRun(
      JavaSparkContext spark,
      CoordinatorProcess coordinator,
      FeedPlan plan,
      JavaRDD<T> rdd,
      EncoderFactory<T> encoders,
      String clusterTag,
      String description,
      ExecutorWatch executors,
      Supplier<String> nodeNeeds) {
    this.spark = spark;
    this.coordinator = coordinator;
    this.plan = plan;
    this.rdd = rdd;
    this.encoders = encoders;
    this.clusterTag = clusterTag;
    this.description = description;
    this.executors = executors;
    this.nodeNeeds = nodeNeeds;
    this.openFeed = plan.openFeed();
    this.rowsFed = spark.sc().longAccumulator("Millrace rows fed");
  }

  /**
   * Feeds everything; the ledger's last word.
   *
   * @throws MillraceException the cluster's first cause; FAILED_PRECONDITION if every program has ended before;
   *     DEADLINE_EXCEEDED without progress for feed_timeout; what a node refused
   */
  public FeedSummary run() {
    int all = rdd.getNumPartitions();
    awaitNodes(true);
    coordinator.openFeed(plan.feed, plan.queue, all);
    long began = System.nanoTime();
    boolean ended = false;
    try {
      feed(null, new HashMap<>());
      FeedSummary summary = awaitAcknowledged(all);
      elapsed = Duration.ofNanos(System.nanoTime() - began);
      ended = true;
      return summary;
    } finally {
      if (coordinator.firstCause() == null) {
        if (ended) {
          coordinator.closeFeed(plan.feed);
        } else {
          coordinator.abortFeed(openFeed, plan.feed);
        }
      }
    }
  }

  /** Whether a program stopped reading before the end and no other took its place. */
  public boolean terminated() {
    return !terminated.isEmpty();
  }

  /** How long {@link #run} has fed. */
  public Duration elapsed() {
    return elapsed;
  }

  /**
   * Waits for a node that reads: at the beginning for all that have not come so far, later for any.
   *
   * <p>This, and no task, waits: whatever starts the node needs a core too.
   */
  private void awaitNodes(boolean all) {
    long began = System.nanoTime();
    WaitReport report = new WaitReport(plan.feedTimeoutMillis, this::warn);
    while (true) {
      long seen = coordinator.changes().count();
      failIfClusterHas();
      Nodes nodes = new Nodes(coordinator);
      if (nodes.areEnded()) {
        if (all) {
          throw new MillraceException(
              StatusCode.FAILED_PRECONDITION,
              "there is no node to feed: " + String.join(", ", nodes.ended) + " ended before this call; a program that "
                  + "trains reads until ShouldStop()");
        }
        return;
      }
      if (nodes.reading > 0 && (!all || nodes.starting.isEmpty())) {
        return;
      }
      if (isOver(began)) {
        throw new MillraceException(StatusCode.DEADLINE_EXCEEDED, noNode(nodes));
      }
      report.tell(
          began, () -> absence(plan.queue, "nodes are yet to come", nodes.starting, nodes.restarting, nodeNeeds));
      awaitChange(seen);
    }
  }

  /** The fed nodes as they are now. */
  private static final class Nodes {
    int reading;
    final List<String> starting = new ArrayList<>();
    final List<String> restarting = new ArrayList<>();
    final List<String> ended = new ArrayList<>();

    Nodes(CoordinatorProcess coordinator) {
      for (Slot slot : coordinator.status()) {
        if (!slot.isFed()) {
          continue;
        }
        if (slot.hasFinished()) {
          ended.add(slot.node());
        } else if (slot.canBeFed()) {
          reading++;
        } else {
          (slot.isHeld() && slot.attempt == 0 ? starting : restarting).add(slot.node());
        }
      }
    }

    /** By themselves, all of them. */
    boolean areEnded() {
      return starting.isEmpty() && restarting.isEmpty() && reading == 0;
    }
  }

  private String noNode(Nodes nodes) {
    return absence(plan.queue, "no node to feed" + lapse(), nodes.starting, nodes.restarting, nodeNeeds);
  }

  /** For {@link JobWatch}: null while a node reads, or where all have ended. */
  private String absence() {
    if (coordinator.anyCanBeFed()) {
      return null; // every node's state is a long answer in a large cluster
    }
    Nodes nodes = new Nodes(coordinator);
    return nodes.reading > 0 || nodes.areEnded() ? null : noNode(nodes);
  }

  private boolean isOver(long since) {
    return System.nanoTime() - since > TimeUnit.MILLISECONDS.toNanos(plan.feedTimeoutMillis);
  }

  private String lapse() {
    return " for " + plan.feedTimeoutMillis / 1000.0 + " s (feed_timeout)";
  }

  private void warn(String line) {
    LOG.warn("cluster {}: {}", coordinator.clusterId(), line);
  }

  /** Who is waited for: nodes that have not come yet, and those that were lost. */
  static String absence(
      String queue, String head, List<String> starting, List<String> restarting, Supplier<String> nodeNeeds) {
    String text = "queue '" + queue + "': " + head;
    if (!starting.isEmpty()) {
      text += "; " + String.join(", ", starting)
          + " published no feed endpoint: does the program call RunNode and GetDataFeed?";
    }
    if (!restarting.isEmpty()) {
      text += "; to be started again: " + String.join(", ", restarting) + ", each needs " + nodeNeeds.get();
    }
    return text;
  }

  /** Feeds these partitions, null for all, until each is received or nobody reads. */
  private void feed(List<Integer> partitions, Map<Integer, String> why) {
    List<Integer> left = partitions;
    Map<Integer, String> reasons = why;
    int withoutProgress = 0;
    long since = System.nanoTime();
    while (left == null || !left.isEmpty()) {
      List<FeedOutcome> outcomes = runJob(left, plan.again(openFeed, reasons, rowsBefore));
      int before = left == null ? outcomes.size() : left.size();
      boolean tried = false;
      left = new ArrayList<>();
      reasons = new TreeMap<>();
      for (FeedOutcome outcome : outcomes) {
        tried |= outcome.kind != FeedOutcome.Kind.LATER;
        rowsBefore.put(outcome.partition, outcome.rows);
        switch (outcome.kind) {
          case RECEIVED:
            feeders.put(outcome.partition, outcome.feeder);
            break;
          case TERMINATED:
            terminated.add(outcome.partition);
            break;
          case AGAIN:
          case LATER:
            left.add(outcome.partition);
            if (!outcome.reason.isEmpty()) {
              reasons.put(outcome.partition, outcome.reason);
            }
            break;
          default:
            throw firstCauseOr(outcome.error);
        }
      }
      if (left.size() < before) {
        withoutProgress = 0;
        since = System.nanoTime();
      } else if (tried && ++withoutProgress == MAX_ROUNDS_WITHOUT_PROGRESS) {
        throw firstCauseOr(
            new MillraceException(
                StatusCode.UNAVAILABLE,
                "partition " + left.get(0) + " (queue '" + plan.queue + "') could not be fed in "
                    + MAX_ROUNDS_WITHOUT_PROGRESS + " attempts: " + reasons.get(left.get(0))));
      } else if (!tried && isOver(since)) {
        throw new MillraceException(
            StatusCode.DEADLINE_EXCEEDED,
            "queue '" + plan.queue + "': no node took a row" + lapse() + ", and the last that ran has ended");
      }
      if (!left.isEmpty()) {
        awaitNodes(false);
      }
    }
  }

  @SuppressWarnings("try") // the label is there to be closed
  private List<FeedOutcome> runJob(List<Integer> partitions, FeedPlan with) {
    failIfClusterHas();
    String what = partitions == null ? "" : ", " + partitions.size() + " partitions again";
    JobWatch watch =
        new JobWatch(spark, plan.feed, coordinator.changes(), this::absence, plan.feedTimeoutMillis);
    try (JobLabel label = new JobLabel(spark, description + what, clusterTag, plan.feed)) {
      JavaRDD<FeedOutcome> fed = rdd.mapPartitionsWithIndex(new TrainTask<>(with, encoders, rowsFed), true);
      if (partitions == null) {
        return fed.collect();
      }
      List<FeedOutcome> outcomes = new ArrayList<>();
      int[] ids = partitions.stream().mapToInt(Integer::intValue).toArray();
      for (List<FeedOutcome> one : fed.collectPartitions(ids)) {
        outcomes.addAll(one);
      }
      return outcomes;
    } catch (MillraceException e) {
      throw e;
    } catch (Exception e) {
      // Spark's exceptions are checked ones, thrown from Scala without being declared; 4.x throws what a function of
      // the user's has thrown, whatever it is.
      if (e instanceof InterruptedException) {
        spark.sc().cancelJobsWithTag(plan.feed); // Spark leaves it running
        throw interrupted((InterruptedException) e);
      }
      watch.failIfEnded();
      throw JobErrors.typed(e, awaitFirstCause(JobErrors.isCancelled(e)));
    } finally {
      watch.close();
    }
  }

  /** All partitions are received: tells the nodes, and waits until their programs have used the rows. */
  private FeedSummary awaitAcknowledged(int all) {
    coordinator.feedEnd(openFeed, false);
    long lastProgress = -1;
    long since = System.nanoTime();
    WaitReport report = new WaitReport(plan.feedTimeoutMillis, this::warn);
    CompletableFuture<JsonObject> ledger = CompletableFuture.completedFuture(null);
    while (true) {
      long seen = coordinator.changes().count();
      failIfClusterHas();
      long removals = executors.removals();
      FeedSummary summary = coordinator.feedSummary(plan.feed);
      if (summary.done + terminated.size() >= all && (summary.equalSettled || !terminated.isEmpty())) {
        return summary;
      }
      Map<Integer, String> lost = lost(summary);
      if (!lost.isEmpty()) {
        // The nodes have closed the feed before.
        openFeed = plan.feed + "." + ++round;
        awaitNodes(false);
        feed(new ArrayList<>(lost.keySet()), lost);
        coordinator.feedEnd(openFeed, false);
        since = System.nanoTime();
        continue;
      }
      long progress = summary.progress() + removals;
      if (progress != lastProgress) {
        lastProgress = progress;
        since = System.nanoTime();
      }
      if (isOver(since)) {
        throw new MillraceException(
            StatusCode.DEADLINE_EXCEEDED,
            "queue '" + plan.queue + "': no row acknowledged" + lapse() + ": " + summary.rowsReceived
                + " rows received, " + summary.rowsAcked + " acknowledged; the program is not calling NextBatch on "
                + String.join(", ", unfinished().keySet()));
      }
      report.tell(
          since,
          () -> unacknowledged(plan.queue, summary.rowsReceived, summary.rowsAcked, unfinished().keySet()));
      if (ledger.isDone()) {
        try {
          ledger.join();
        } catch (CompletionException e) {
          throw firstCauseOr(JobErrors.find(e));
        }
        ledger = coordinator.waitFeed(plan.feed, all - terminated.size(), summary.failed, MAX_WAIT_MILLIS);
      }
      awaitChange(seen);
    }
  }

  static String unacknowledged(String queue, long received, long acknowledged, Set<String> nodes) {
    return "queue '" + queue + "': " + received + " rows received, " + acknowledged
        + " acknowledged; the others are to be acknowledged by " + String.join(", ", nodes);
  }

  /** Partitions that were received, and will not be acknowledged: why, by number. */
  private Map<Integer, String> lost(FeedSummary summary) {
    Map<Integer, String> lost = new TreeMap<>();
    for (int partition : summary.failedPartitions) {
      if (!terminated.contains(partition)) {
        lost.put(partition, "its node or its feeder was lost before the rows were acknowledged");
      }
    }
    Set<Integer> orphans = new HashSet<>();
    for (Map.Entry<Integer, String> fed : feeders.entrySet()) {
      if (executors.isRemoved(fed.getValue())) {
        orphans.add(fed.getKey());
      }
    }
    if (!orphans.isEmpty()) {
      for (List<Integer> ofNode : unfinished().values()) {
        for (Integer partition : ofNode) {
          if (orphans.contains(partition)) {
            lost.put(partition, "the executor that fed it was lost before the rows were acknowledged");
          }
        }
      }
      feeders.keySet().removeAll(orphans);
    }
    return lost;
  }

  /** Partitions that are not done, by the node that was fed last. */
  private Map<String, List<Integer>> unfinished() {
    Map<String, List<Integer>> unfinished = new TreeMap<>();
    for (Slot slot : coordinator.status()) {
      for (int attempt = 0; attempt <= slot.attempt; attempt++) {
        for (Long partition : coordinator.unfinishedPartitions(plan.feed, slot.executorId, attempt)) {
          unfinished.computeIfAbsent(slot.node(), node -> new ArrayList<>()).add(partition.intValue());
        }
      }
    }
    return unfinished;
  }

  private void failIfClusterHas() {
    MillraceException cause = coordinator.firstCause();
    if (cause != null) {
      throw JobErrors.again(cause);
    }
  }

  /** A task's error may be the consequence of what the coordinator is about to tell. */
  private MillraceException firstCauseOr(MillraceException error) {
    MillraceException cause = awaitFirstCause(error.code() != StatusCode.INVALID_ARGUMENT);
    return JobErrors.again(cause == null ? error : cause);
  }

  private MillraceException awaitFirstCause(boolean wait) {
    try {
      return coordinator.awaitFirstCause(wait ? CAUSE_MILLIS : 0);
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  /** Waits for a change since {@code seen} of them, or until time limits are to be looked at. */
  private void awaitChange(long seen) {
    try {
      coordinator.changes().await(seen, MAX_WAIT_MILLIS);
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  private static MillraceException interrupted(InterruptedException e) {
    return Interrupts.cancelled("the thread that trains was interrupted", e);
  }
}
