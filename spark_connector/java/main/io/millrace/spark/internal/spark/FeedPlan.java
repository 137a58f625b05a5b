package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.base.Defaults;
import io.millrace.spark.internal.cluster.CoordinatorAddress;
import io.millrace.spark.internal.cluster.ExecutorSite;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What a task needs to know to feed a partition. Immutable; travels with the tasks. */
public final class FeedPlan implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(FeedPlan.class);

  final String clusterId;
  final CoordinatorAddress coordinator;
  /** Of the ledger. */
  final String feed;
  final String queue;
  final long feedTimeoutMillis;
  /** Partitions of the data; partitions of the RDD from there on are those of later epochs. */
  final int partitions;
  /** Training: each partition has the same rows, in the same order, whenever Spark computes it. */
  final boolean determinate;
  /** Executors write rows into the memory of nodes of their host, where they can. */
  final boolean sharedMemory;
  /** What an executor may have on its way to nodes, as what a node may hold. */
  final long budgetBytes;
  /** Training: the numbers of chief, master and workers. */
  final int[] fedNodes;
  /** Starts lost nodes again in tasks that feed; null where that is left to the nodes' own jobs. */
  final NodeReviver reviver;
  /** What OPEN says: the ledger's feed, or "feed.n" once the feed before has ended. */
  private String openFeed;
  /** Why partitions are fed again. */
  private HashMap<Integer, String> refed = new HashMap<>();
  /** How far nodes may have used partitions. */
  private HashMap<Integer, Long> rowsBefore = new HashMap<>();

  /**
   * A plan to train on all partitions.
   *
   * @param sharedMemory null: the default
   * @param budgetBytes null: the default
   * @param reviver may be null
   */
  static FeedPlan train(
      String clusterId,
      CoordinatorAddress coordinator,
      String feed,
      String queue,
      long feedTimeoutMillis,
      int partitions,
      boolean determinate,
      Boolean sharedMemory,
      Long budgetBytes,
      int[] fedNodes,
      NodeReviver reviver) {
    return new FeedPlan(
        clusterId, coordinator, feed, queue, feedTimeoutMillis, partitions, determinate, sharedMemory, budgetBytes,
        fedNodes, reviver);
  }

  /**
   * A plan for inference on all partitions, each from its row 0 on.
   *
   * @param sharedMemory null: the default
   * @param budgetBytes null: the default
   * @param reviver may be null
   */
  static FeedPlan inference(
      String clusterId,
      CoordinatorAddress coordinator,
      String feed,
      String queue,
      long feedTimeoutMillis,
      int partitions,
      Boolean sharedMemory,
      Long budgetBytes,
      NodeReviver reviver) {
    return new FeedPlan(
        clusterId, coordinator, feed, queue, feedTimeoutMillis, partitions, false, sharedMemory, budgetBytes,
        new int[0], reviver);
  }

  private FeedPlan(
      String clusterId,
      CoordinatorAddress coordinator,
      String feed,
      String queue,
      long feedTimeoutMillis,
      int partitions,
      boolean determinate,
      Boolean sharedMemory,
      Long budgetBytes,
      int[] fedNodes,
      NodeReviver reviver) {
    this.clusterId = clusterId;
    this.coordinator = coordinator;
    this.feed = feed;
    this.queue = queue;
    this.feedTimeoutMillis = feedTimeoutMillis;
    this.partitions = partitions;
    this.determinate = determinate;
    this.sharedMemory = sharedMemory == null ? Defaults.SHARED_MEMORY : sharedMemory;
    this.budgetBytes = budgetBytes == null ? Defaults.BUDGET_BYTES : budgetBytes;
    this.fedNodes = fedNodes;
    this.reviver = reviver;
    this.openFeed = feed;
  }

  /** The plan for feeding some partitions again, with how far nodes may have used them ({@link FeedOutcome#rows}). */
  FeedPlan again(String nextOpenFeed, Map<Integer, String> why, Map<Integer, Long> rows) {
    FeedPlan plan =
        new FeedPlan(
            clusterId, coordinator, feed, queue, feedTimeoutMillis, partitions, determinate, sharedMemory, budgetBytes,
            fedNodes, reviver);
    plan.openFeed = nextOpenFeed;
    plan.refed = new HashMap<>(why);
    plan.rowsBefore = new HashMap<>(rows);
    return plan;
  }

  String openFeed() {
    return openFeed;
  }

  /** "" if it is not fed again. */
  String refedReason(int partition) {
    return refed.getOrDefault(partition, "");
  }

  /** How far a node may have used its rows; 0 if none has had it. */
  long rowsBefore(int partition) {
    return rowsBefore.getOrDefault(partition, 0L);
  }

  /** The executor's part of the cluster, to be left when the task ends. */
  ExecutorSite enterSite() {
    ExecutorSite site = ExecutorSite.enter(clusterId, coordinator);
    TaskContext task = TaskContext.get();
    if (reviver != null && fedNodes.length > 0) { // in inference a task looks while it waits for a node
      try {
        reviver.look(this, site, task, task.partitionId());
      } catch (MillraceException e) {
        LOG.debug("no lost node is started here: {}", e.getMessage()); // its own job does it in its turn
      }
    }
    return site;
  }
}
