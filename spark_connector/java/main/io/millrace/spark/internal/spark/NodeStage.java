package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.base.ChangeSignal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import org.apache.spark.SparkExecutorInfo;
import org.apache.spark.SparkJobInfo;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.JavaSparkStatusTracker;
import org.apache.spark.storage.StorageLevel;
import org.apache.spark.util.CollectionAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The Spark jobs whose tasks hold a cluster's nodes: one for all nodes, and another for each node that found no
 * place or is to be started anew. With speculation each node has a job from the start: Spark copies no task
 * that is alone, and a copy would hold a slot that another node waits for. Each job has a thread of the driver.
 * Thread-safe.
 */
public final class NodeStage {
  private static final Logger LOG = LoggerFactory.getLogger(NodeStage.class);
  private static final long EXPLAIN_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long STOP_NANOS = TimeUnit.SECONDS.toNanos(10);
  /** Jobs are cancelled again so often until their threads end: one that is about to begin has no id to be told. */
  private static final long CANCEL_AGAIN_MILLIS = 100;
  private static final long MAX_PAUSE_MILLIS = 5_000;
  /**
   * At the end of a cluster with dynamic allocation Spark's status tracker is asked so often for tasks that have not
   * ended. A listener would hear of it at once, but of every task of the application too, and the tracker may hear of
   * it later.
   */
  private static final long LOOK_MILLIS = 20;

  private final JavaSparkContext spark;
  private volatile NodePlan plan;
  private final List<NodeSlot> slots;
  private final ChangeSignal changes;
  private final IntPredicate needsAgent;
  private final IntUnaryOperator attempt;
  private final Consumer<Exception> onError;
  private final String jobGroup;
  private final boolean together;
  private final CollectionAccumulator<Integer> displaced;
  private final JavaRDD<String> nodes;
  private final List<JavaRDD<String>> kept = new CopyOnWriteArrayList<>();
  private final List<Integer> sought = new CopyOnWriteArrayList<>(); // executor ids of nodes without a place
  // Guarded by this.
  private final List<Thread> jobs = new ArrayList<>();
  private int handledDisplaced;
  private boolean stopping;

  /**
   * The stage of these nodes.
   *
   * @param changes raised when Spark has another executor, or one less; and by {@link #stop}
   * @param needsAgent whether the node of this executor id is to be started; asked by any thread
   * @param attempt the number of that node's last attempt, -1 before its first; asked by any thread
   * @param onError called with what Spark says when it could not run a job, on that job's thread; may block
   */
  public NodeStage(
      JavaSparkContext spark,
      NodePlan plan,
      List<NodeSlot> slots,
      ChangeSignal changes,
      IntPredicate needsAgent,
      IntUnaryOperator attempt,
      Consumer<Exception> onError) {
    this.spark = spark;
    this.plan = plan;
    this.slots = new ArrayList<>(slots);
    this.changes = changes;
    this.needsAgent = needsAgent;
    this.attempt = attempt;
    this.onError = onError;
    this.jobGroup = "millrace-" + plan.clusterId + "-nodes";
    this.together = !spark.getConf().getBoolean("spark.speculation", false);
    this.displaced = new CollectionAccumulator<>();
    spark.sc().register(displaced, "millrace " + plan.clusterId + ": nodes without a place");
    this.nodes = rdd(this.slots, new NodeTask(plan, together ? displaced : null));
    nodes.setName("Millrace cluster " + plan.clusterId);
  }

  private JavaRDD<String> rdd(List<NodeSlot> of, NodeTask task) {
    JavaRDD<String> made = spark.parallelize(of, Math.max(1, of.size())).mapPartitions(task);
    if (allocatesDynamically()) {
      // An executor that has a block is not idle, also when its node's task has ended.
      made.persist(StorageLevel.MEMORY_AND_DISK());
      kept.add(made);
    }
    return made;
  }

  private boolean allocatesDynamically() {
    return spark.getConf().getBoolean("spark.dynamicAllocation.enabled", false);
  }

  /** The RDD whose tasks hold the nodes; computing it again starts nothing that runs already. */
  public JavaRDD<String> rdd() {
    return nodes;
  }

  /** How many nodes it has. */
  public int size() {
    return slots.size();
  }

  /** Submits the jobs for all nodes. */
  public void start() {
    if (!together) {
      for (int i = 0; i < slots.size(); i++) {
        int partition = i;
        submit(() -> placeAlone(partition));
      }
      return;
    }
    submit(
        () -> {
          describe(slots.size() + (slots.size() == 1 ? " node" : " nodes"));
          LOG.debug("the node stage ended: {}", nodes.collect());
        });
  }

  /** Submits a job for one node again, and another each time that it lands where there is no place. */
  public void startAgain(int executorId) {
    for (NodeSlot slot : slots) {
      if (slot.executorId == executorId) {
        int lost = attempt.applyAsInt(executorId);
        submit(() -> place(slot, lost));
        return;
      }
    }
  }

  private void placeAlone(int partition) {
    NodeSlot slot = slots.get(partition);
    int none = attempt.applyAsInt(slot.executorId);
    describe(slot.node);
    List<String> told = nodes.collectPartitions(new int[] {partition})[0];
    if (told.isEmpty() && !isStopping()) {
      place(slot, none);
    }
  }

  private void place(NodeSlot slot, int lost) {
    Integer id = slot.executorId;
    sought.add(id);
    try {
      look(slot, lost);
    } finally {
      sought.remove(id);
    }
  }

  /**
   * Ends once the node has a place, or has had one since the attempt {@code lost}: {@link #startAgain} is called for
   * the loss of that one too, and the tasks of two searches would stand in each other's way.
   */
  private void look(NodeSlot slot, int lost) {
    long explainAt = System.nanoTime() + EXPLAIN_NANOS;
    long pause = EXPLAIN_NANOS;
    describe(slot.node + " again");
    int tries = 0;
    while (true) {
      long seen = changes.count();
      JavaRDD<String> job = tries == 0 ? rdd(Arrays.asList(slot), new NodeTask(plan, null)) : everywhere(slot);
      List<String> told = job.collect();
      if (!told.isEmpty() || isStopping()) {
        LOG.debug("a node's job ended: {}", told);
        return;
      }
      if (kept.remove(job)) {
        job.unpersist(false);
      }
      waitForChange(seen, ++tries);
      if (isStopping()) {
        return;
      }
      // Its executor has another agent for it by itself, or Spark ran the task again that an executor was lost with.
      if (!needsAgent.test(slot.executorId) || attempt.applyAsInt(slot.executorId) != lost) {
        LOG.debug("{} has a place, or has had one", slot.node);
        return;
      }
      if (System.nanoTime() > explainAt) {
        pause *= 2;
        explainAt = System.nanoTime() + pause;
        LOG.warn("cluster {}: {} has no place yet: it needs {}", plan.clusterId, slot.node, need());
      }
    }
  }

  /**
   * A job that looks for a place on every executor at once: Spark offers a task to a free core of any of them, and
   * a single one would find the right one among many only after many tries. Where two find a place, the coordinator
   * refuses one of them, and its task ends. Tasks that stay with their nodes are not multiplied, as they would wait for
   * that; nor those for which Spark would ask for more executors.
   */
  private JavaRDD<String> everywhere(NodeSlot slot) {
    boolean brief = plan.freesFedSlots && slot.isFed() && together && !allocatesDynamically();
    int tasks = brief ? executors() / (int) Math.max(1, sought.stream().distinct().count()) : 1;
    NodeTask task = tasks > 1 ? NodeTask.oneOfMany(plan) : new NodeTask(plan, null);
    return rdd(Collections.nCopies(Math.max(1, tasks), slot), task);
  }

  /**
   * Between jobs that find no place: an executor may have come or gone since {@code seen}. The place of a node whose
   * agent has ended is free without that, so the wait ends by itself too.
   */
  private void waitForChange(long seen, int tries) {
    try {
      changes.await(seen, Math.min(100L * tries * tries, MAX_PAUSE_MILLIS));
    } catch (InterruptedException e) {
      LOG.debug("an interrupt that nobody sends");
    }
  }

  /** Starts fed nodes again in other tasks; null with dynamic allocation. */
  NodeReviver reviver() {
    // There an executor counts as idle unless a job of ours has left a block on it; and Spark adds one for the job.
    if (allocatesDynamically()) {
      return null;
    }
    List<NodeSlot> fed = new ArrayList<>(slots);
    fed.removeIf(slot -> !slot.isFed());
    return fed.isEmpty() ? null : new NodeReviver(plan, fed);
  }

  /** Lets executors have more nodes, if there are too few executors for one node each. */
  void spread() {
    int executors = executors();
    int needed = executors == 0 ? 1 : (slots.size() + executors - 1) / executors;
    if (needed > plan.nodesPerExecutor) {
      LOG.info("cluster {}: {} nodes share {} executors", plan.clusterId, slots.size(), executors);
      plan = plan.withNodesPerExecutor(needed);
    }
  }

  private int executors() {
    if (spark.sc().isStopped()) {
      return 0;
    }
    // Off local mode the driver is in the list too.
    return spark.sc().statusTracker().getExecutorInfos().length - (spark.isLocal() ? 0 : 1);
  }

  private void describe(String what) {
    spark.setJobGroup(jobGroup, "Millrace cluster " + plan.clusterId + ": " + what, true);
  }

  private synchronized void submit(Runnable body) {
    if (stopping || slots.isEmpty()) {
      return;
    }
    Thread job =
        new Thread(
            () -> {
              try {
                body.run();
              } catch (Exception e) { // Spark's are checked ones, undeclared
                onJobFailed(e);
              }
            },
            "millrace-nodes");
    job.setDaemon(true);
    jobs.add(job);
    job.start();
  }

  private synchronized boolean isStopping() {
    return stopping;
  }

  private void onJobFailed(Exception e) {
    if (isStopping()) {
      return;
    }
    // Not by us. What runs goes on: see NodeTask.
    if (JobErrors.isCancelled(e) && slots.stream().noneMatch(slot -> needsAgent.test(slot.executorId))) {
      LOG.warn(
          "cluster {}: Spark's jobs that hold nodes were cancelled (Ctrl-C in PySpark cancels all jobs); the nodes "
              + "run on, and their slots are free for other tasks",
          plan.clusterId);
      return;
    }
    onError.accept(e);
  }

  /** Submits jobs for the nodes of the first job that found no place since the last call, while they come. */
  public void replaceDisplaced() {
    List<Integer> all = displaced.value();
    List<Integer> fresh;
    synchronized (this) {
      fresh = new ArrayList<>(all.subList(Math.min(handledDisplaced, all.size()), all.size()));
      handledDisplaced = all.size();
    }
    for (int executorId : fresh) {
      LOG.info("an executor has its nodes already: another is looked for, for node {}", executorId);
      startAgain(executorId);
    }
  }

  /** How many nodes have a place, in words, and what may be short. */
  public String explain(int here) {
    int starting = Math.min(tasks(), slots.size()) - here;
    return "have " + here + " of " + slots.size() + " slots; each needs " + need()
        + (starting > 0 ? ", " + starting + " of them to start an agent" : "");
  }

  /** What a node needs, and what Spark has. */
  public String need() {
    int cores = Math.max(1, spark.getConf().getInt("spark.task.cpus", 1));
    int perExecutor = spark.getConf().getInt("spark.executor.cores", 0);
    int executors = executors();
    int busy = 0;
    for (SparkExecutorInfo executor : spark.sc().statusTracker().getExecutorInfos()) {
      busy += executor.numRunningTasks();
    }
    String gpus = spark.getConf().get("spark.task.resource.gpu.amount", "");
    StringBuilder text = new StringBuilder();
    if (plan.nodesPerExecutor == 1) {
      text.append("an executor of its own with ");
    } else {
      text.append("an executor with fewer than ").append(plan.nodesPerExecutor).append(" nodes and ");
    }
    text.append(cores).append(cores == 1 ? " free core" : " free cores");
    if (!gpus.isEmpty()) {
      text.append(" and ").append(gpus).append(" gpu");
    }
    text.append(". Spark has ").append(executors).append(executors == 1 ? " executor" : " executors");
    if (perExecutor > 0) {
      text.append(" of ").append(perExecutor).append(perExecutor == 1 ? " core" : " cores");
    }
    text.append(", ").append(busy).append(busy == 1 ? " task runs" : " tasks run");
    return text.toString();
  }

  /**
   * Ends the jobs, and with them the nodes that they hold. Waits for the threads, ten seconds at most; an interrupt of
   * the caller's is kept for later.
   */
  public void stop() {
    List<Thread> running;
    synchronized (this) {
      stopping = true;
      running = new ArrayList<>(jobs);
    }
    changes.raise();
    boolean interrupted = false;
    long until = System.nanoTime() + STOP_NANOS;
    cancelJobs(running);
    for (Thread job : running) {
      while (job.isAlive() && System.nanoTime() - until < 0) {
        try {
          job.join(CANCEL_AGAIN_MILLIS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
        cancelJobs(running); // one that a thread was about to submit waits for a slot by now
      }
    }
    // A task that ended after its RDD was given up would leave a block behind, and Spark's dynamic allocation would
    // never let that executor go.
    while (!kept.isEmpty() && tasks() > 0 && System.nanoTime() - until < 0) {
      try {
        Thread.sleep(LOOK_MILLIS);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (!spark.sc().isStopped()) {
      for (JavaRDD<String> one : kept) {
        one.unpersist(false);
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** How many tasks the jobs have, also those that were cancelled. */
  private int tasks() {
    int tasks = 0;
    JavaSparkStatusTracker tracker = spark.statusTracker();
    for (int id : spark.sc().isStopped() ? new int[0] : tracker.getJobIdsForGroup(jobGroup)) {
      SparkJobInfo job = tracker.getJobInfo(id);
      for (int stageId : job == null ? new int[0] : job.stageIds()) {
        SparkStageInfo stage = tracker.getStageInfo(stageId);
        tasks += stage == null ? 0 : stage.numActiveTasks();
      }
    }
    return tasks;
  }

  private void cancelJobs(List<Thread> running) {
    // Spark warns of a group without a job.
    if (!spark.sc().isStopped() && running.stream().anyMatch(Thread::isAlive)) {
      spark.cancelJobGroup(jobGroup);
    }
  }
}
