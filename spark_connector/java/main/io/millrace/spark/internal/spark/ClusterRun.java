package io.millrace.spark.internal.spark;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.FailureOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Defaults;
import io.millrace.spark.internal.base.Durations;
import io.millrace.spark.internal.base.Interrupts;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.cluster.CoordinatorProcess;
import io.millrace.spark.internal.cluster.NodeAgent;
import io.millrace.spark.internal.cluster.Params;
import io.millrace.spark.internal.cluster.Slot;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One cluster on the driver, from the first process to the last: the coordinator, the jobs that hold its
 * nodes, parameter servers on the driver's host. Thread-safe.
 */
public final class ClusterRun {
  private static final Logger LOG = LoggerFactory.getLogger(ClusterRun.class);
  /** While nodes start, what is short is looked at so often. */
  private static final long MAX_WAIT_MILLIS = 500;
  private static final long CAUSE_MILLIS = 1_000;
  /** How long a program that begins may fail, for want of a library maybe, to be told by the call that starts it. */
  private static final long FEED_MILLIS = 3_000;
  private static final long EXPLAIN_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long LATE_EXECUTORS_NANOS = TimeUnit.SECONDS.toNanos(30);

  private final JavaSparkContext spark;
  private final NodeProgram program;
  private final ClusterOptions options;
  private final String defaultFs;
  private final CoordinatorProcess coordinator;
  private final NodeStage stage;
  private final List<NodeSlot> slots = new ArrayList<>();
  private final List<NodeAgent> driverNodes = new ArrayList<>();
  // A SparkContext that somebody stops takes the executors, and the nodes with them: end the rest too.
  private final ExecutorWatch executors = new ExecutorWatch(() -> react(this::close), this::onEnd);
  // What must not be done on the thread that reads the coordinator's lines.
  private final ExecutorService reactions =
      Executors.newSingleThreadExecutor(
          body -> {
            Thread thread = new Thread(body, "millrace-reactions");
            thread.setDaemon(true);
            return thread;
          });
  private volatile boolean closed;

  /** Starts everything and waits until every node runs; an error leaves nothing behind. */
  public static ClusterRun start(JavaSparkContext spark, NodeProgram program, ClusterOptions options) {
    OptionChecks.check(spark, program, options);
    ClusterRun run = new ClusterRun(spark, program, options);
    try {
      run.awaitRunning();
      return run;
    } catch (RuntimeException e) {
      run.close();
      throw e;
    }
  }

  private ClusterRun(JavaSparkContext spark, NodeProgram program, ClusterOptions options) {
    this.spark = spark;
    this.program = program;
    this.options = options;
    String fs = options.node().defaultFs();
    this.defaultFs = fs == null || fs.isEmpty() ? hadoopFs(spark) : fs;
    this.coordinator =
        CoordinatorProcess.start(
            startParams(spark.getConf(), program, options, defaultFs),
            cause -> react(this::onFailure),
            executorId -> react(() -> onRelaunch(executorId)),
            options.observer());
    List<NodeSlot> ofSpark = new ArrayList<>();
    for (String role : coordinator.roles()) {
      NodeSlot slot = new NodeSlot(slots.size(), role);
      slots.add(slot);
      if (!(options.driverPsNodes() && slot.isPs())) {
        ofSpark.add(slot);
      }
    }
    NodePlan plan =
        new NodePlan(
            coordinator.clusterId(),
            coordinator.address(),
            Capacity.of(spark.getConf()).nodesPerExecutor(ofSpark.size(), options.nodesPerExecutor()),
            OptionChecks.orZero(options.node().gpusPerNode()),
            options.inputMode() == InputMode.FEED,
            options.node().workingDir(),
            options.node().portRange(),
            program.function());
    try {
      stage =
          new NodeStage(
              spark, plan, ofSpark, executors.changes(), coordinator::needsAgent, coordinator::attempt,
              this::onStageFailed);
      spark.sc().addSparkListener(executors);
    } catch (RuntimeException e) { // the SparkContext was stopped meanwhile
      coordinator.close();
      throw e;
    }
  }

  private void react(Runnable what) {
    if (!closed) {
      reactions.execute(what);
    }
  }

  /** A node that has found no place says so at the end of its task; rows are lost with the executor that fed them. */
  private void onEnd() {
    coordinator.changes().raise();
  }

  private static String hadoopFs(JavaSparkContext spark) {
    String fs = spark.hadoopConfiguration().get("fs.defaultFS", "file:///");
    // As TFCluster does: a path is put behind it.
    return fs.startsWith("file://") && fs.length() > 7 && fs.endsWith("/") ? fs.substring(0, fs.length() - 1) : fs;
  }

  private static Params startParams(
      SparkConf conf, NodeProgram program, ClusterOptions options, String defaultFs) {
    String host = conf.get("spark.driver.host", "127.0.0.1");
    return Params.of("num_executors", options.numExecutors())
        .and("num_ps", options.numPs())
        .and("master_node", options.masterNode())
        .and("eval_node", options.evalNode())
        .and("program", program.program())
        .and("shipped", program.isShipped())
        .and("args", program.args())
        .and("env", program.env())
        .and("input_mode", options.inputMode() == InputMode.FEED ? "FEED" : "DIRECT")
        .and("name", options.name())
        .and("log_dir", options.logDir())
        .and("tensorboard", options.tensorboard())
        .and("reservation_timeout_ms", OptionParams.millis(options.reservationTimeout()))
        .and("node", OptionParams.of(options.node()).and("default_fs", defaultFs))
        .and("feed", OptionParams.of(options.feed()))
        .and("failure", OptionParams.of(options.failure()))
        .and("output_events", options.observer() != null)
        .and("metric_events", options.observer() != null)
        .and("bind_address", bindAddress(conf.get("spark.driver.bindAddress", host)))
        .and("advertise_host", host)
        .and("port_range", options.coordinatorPortRange())
        .and("cluster_file", true);
  }

  private static String bindAddress(String host) {
    try {
      return InetAddress.getByName(host).getHostAddress();
    } catch (UnknownHostException e) {
      return "0.0.0.0"; // it is known to the executors only
    }
  }

  // ----------------------------------------------------------------------------------------- starting

  private void awaitRunning() {
    for (NodeSlot slot : slots) {
      if (options.driverPsNodes() && slot.isPs()) {
        startOnDriver(slot);
      }
    }
    stage.start();
    long began = System.nanoTime();
    long explained = began;
    CompletableFuture<JsonObject> running = coordinator.send("wait_running", new Params());
    running.whenComplete((answer, error) -> coordinator.changes().raise());
    while (true) {
      long seen = coordinator.changes().count();
      if (running.isDone()) {
        break;
      }
      failIfClusterHas();
      stage.replaceDisplaced();
      int here = agentsOfSpark();
      if (here < stage.size() && System.nanoTime() - explained > EXPLAIN_NANOS) {
        explained = System.nanoTime() + EXPLAIN_NANOS; // then half as often
        if (options.nodesPerExecutor() == 0 && System.nanoTime() - began > spreadNanos()) {
          stage.spread();
        }
        LOG.warn("cluster {}: {}", coordinator.clusterId(), stage.explain(here));
      }
      try {
        coordinator.changes().await(seen, MAX_WAIT_MILLIS);
      } catch (InterruptedException e) {
        throw Interrupts.cancelled("interrupted while the cluster started", e);
      }
    }
    await(running);
    if (options.inputMode() == InputMode.FEED) {
      await(coordinator.send("wait_fed_endpoints", Params.of("timeout_ms", FEED_MILLIS)), true);
    }
  }

  /** How long executors are waited for, before those that are there share the nodes. */
  private long spreadNanos() {
    return Capacity.of(spark.getConf()).isKnown() ? LATE_EXECUTORS_NANOS : EXPLAIN_NANOS;
  }

  private void await(CompletableFuture<JsonObject> running) {
    await(running, false);
  }

  private void await(CompletableFuture<JsonObject> running, boolean mayBeLate) {
    try {
      running.get();
    } catch (InterruptedException e) {
      throw Interrupts.cancelled("interrupted while the cluster started", e);
    } catch (ExecutionException e) {
      MillraceException error = JobErrors.find(e);
      if (mayBeLate && error.code() == StatusCode.DEADLINE_EXCEEDED) {
        return;
      }
      MillraceException cause = firstCauseOf(error);
      if (cause != null) {
        throw JobErrors.again(cause);
      }
      int here = agentsOfSpark();
      if (error.code() == StatusCode.DEADLINE_EXCEEDED && here < stage.size()) {
        throw new MillraceException(error.code(), error.getMessage() + "; " + stage.explain(here));
      }
      throw JobErrors.again(error);
    }
  }

  private MillraceException firstCauseOf(MillraceException error) {
    try {
      return coordinator.awaitFirstCause(error.code() == StatusCode.DEADLINE_EXCEEDED ? 0 : CAUSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return null;
    }
  }

  private int agentsOfSpark() {
    // The parameter servers come first.
    return coordinator.slotsWithAgent(slots.size() - stage.size());
  }

  /** Spark cannot hold a node any more. The node's own end explains more, if that is why. */
  private void onStageFailed(Exception error) {
    try {
      if (coordinator.awaitFirstCause(CAUSE_MILLIS) == null) {
        coordinator.fail(JobErrors.typed(error, null));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Throws the cluster's first cause, if it has failed. */
  public void failIfClusterHas() {
    MillraceException cause = coordinator.firstCause();
    if (cause != null) {
      throw JobErrors.again(cause);
    }
  }

  private void startOnDriver(NodeSlot slot) {
    Params params =
        Params.of("working_dir", options.node().workingDir()).and("port_range", options.node().portRange());
    synchronized (driverNodes) {
      driverNodes.add(coordinator.startAgent(slot.executorId, params, program.function()));
    }
  }

  private void onRelaunch(int executorId) {
    NodeSlot slot = slots.get(executorId);
    LOG.info("{}: another agent is started", slot.node);
    try {
      if (options.driverPsNodes() && slot.isPs()) {
        startOnDriver(slot);
      } else {
        stage.startAgain(executorId);
      }
    } catch (MillraceException e) {
      coordinator.fail(e); // nobody else would know
    }
  }

  private void onFailure() {
    if (coordinator == null) {
      return; // it has ended before it had begun, which the constructor tells
    }
    LOG.error("cluster {} has failed: {}", coordinator.clusterId(), coordinator.firstCause().getMessage());
    if (!spark.sc().isStopped()) {
      spark.sc().cancelJobsWithTag(feedTag());
    }
  }

  // -------------------------------------------------------------------------------------- what it is

  public JavaSparkContext spark() {
    return spark;
  }

  public ClusterOptions options() {
    return options;
  }

  public CoordinatorProcess coordinator() {
    return coordinator;
  }

  /** Names that train, inference and the nodes may use. */
  public List<String> queues() {
    return options.feed().queues() == null ? Defaults.QUEUES : options.feed().queues();
  }

  /** The file system before relative paths of nodes. */
  public String defaultFs() {
    return defaultFs;
  }

  /** The RDD of the tasks that hold the nodes. */
  public JavaRDD<String> nodeRdd() {
    return stage.rdd();
  }

  private int[] fedNodes() {
    return slots.stream().filter(NodeSlot::isFed).mapToInt(slot -> slot.executorId).toArray();
  }

  /** What a node that is to be started needs, and what Spark has. */
  public String nodeNeeds() {
    return stage.need();
  }

  /** What the tasks of a training need to know. */
  public FeedPlan trainPlan(
      String feed, String queue, long feedTimeoutMillis, int partitions, boolean determinate) {
    return FeedPlan.train(
        coordinator.clusterId(), coordinator.address(), feed, queue, feedTimeoutMillis, partitions, determinate,
        options.feed().sharedMemory(), options.feed().budgetBytes(), fedNodes(),
        mayRestart() ? stage.reviver() : null);
  }

  /** What the tasks of an inference need to know. */
  public FeedPlan inferencePlan(String feed, String queue, long feedTimeoutMillis, int partitions) {
    return FeedPlan.inference(
        coordinator.clusterId(), coordinator.address(), feed, queue, feedTimeoutMillis, partitions,
        options.feed().sharedMemory(), options.feed().budgetBytes(), mayRestart() ? stage.reviver() : null);
  }

  private boolean mayRestart() {
    FailureOptions failure = options.failure();
    return mayRestart(failure.restart())
        || (failure.restartByJob() != null
            && failure.restartByJob().values().stream().anyMatch(ClusterRun::mayRestart));
  }

  private static boolean mayRestart(RestartPolicy policy) {
    return policy != null && OptionChecks.orZero(policy.maxRestarts()) > 0;
  }

  public ExecutorWatch executors() {
    return executors;
  }

  /** The tag of the jobs that feed the cluster: they are cancelled when it fails. */
  public String feedTag() {
    return "millrace-" + coordinator.clusterId() + "-feed";
  }

  // ------------------------------------------------------------------------------------------- ending

  /**
   * Ends the queues, waits for the workers, then for all others.
   *
   * @param graceMillis for fed workers to end by themselves, and then for the evaluator; -1: without end
   *     (none for an evaluator)
   * @param timeoutMillis of all of it; -1: without end
   * @throws MillraceException the first failure of any node, however late; DEADLINE_EXCEEDED naming the
   *     workers that had to be stopped, or who had to be killed
   */
  public void shutdown(long graceMillis, long timeoutMillis) {
    long began = System.nanoTime();
    MillraceException error = null;
    try {
      end(graceMillis, timeoutMillis, began);
    } catch (MillraceException e) {
      error = e;
    }
    MillraceException cause = coordinator.firstCause();
    close();
    if (cause != null) {
      throw JobErrors.again(cause);
    }
    if (error != null) {
      throw error;
    }
  }

  private void end(long graceMillis, long timeoutMillis, long began) {
    coordinator.call("end_feed", new Params());
    boolean isFed = options.inputMode() == InputMode.FEED;
    long left = left(timeoutMillis, began);
    // A worker that is not fed ends when its own work is done, so the grace after the end of the feed is not for it.
    String stuck = awaitEnded("fed", isFed ? least(graceMillis, left) : left);
    String whyNow = "the cluster is shut down";
    if (stuck != null) {
      coordinator.call("stop", Params.of("filter", "fed").and("reason", "the time of the shutdown is over"));
    } else if (options.evalNode() && graceMillis > 0) {
      // The last evaluation. To be stopped is an evaluator's normal end.
      long time = least(graceMillis, left(timeoutMillis, began));
      if (awaitEnded("evaluator", time) != null) {
        whyNow =
            time == graceMillis
                ? "the evaluator's grace of " + graceMillis / 1000.0 + " s is over"
                : "the timeout of " + timeoutMillis / 1000.0 + " s is over";
        LOG.warn("evaluator:0 had not ended by itself and is asked to stop: {}", whyNow);
      }
    }
    coordinator.call("stop", Params.of("filter", "all").and("reason", whyNow));
    // What was asked to stop has its stop_grace, also where the timeout is shorter.
    long rest = left(timeoutMillis, began);
    if (rest >= 0) {
      Duration grace = options.failure().stopGrace();
      rest = Math.max(rest, Math.min(Durations.millis(grace == null ? Defaults.STOP_GRACE : grace), timeoutMillis));
    }
    String late = awaitEnded("all", rest);
    if (late != null) {
      coordinator.call("stop", Params.of("filter", "all").and("reason", "its time is over").and("now", true));
      awaitEnded("all", TimeUnit.SECONDS.toMillis(10));
    }
    if (stuck != null || late != null) {
      boolean graceIsOver = isFed && graceMillis >= 0 && (timeoutMillis < 0 || graceMillis < timeoutMillis);
      throw new MillraceException(
          StatusCode.DEADLINE_EXCEEDED,
          (stuck == null
                  ? ""
                  : "stopped programs that had not ended by themselves when the shutdown's "
                      + (graceIsOver ? "grace of " + graceMillis / 1000.0 : "timeout of " + timeoutMillis / 1000.0)
                      + " s was over: " + stuck)
              + (stuck == null || late == null ? "" : "; ")
              + (late == null ? "" : "killed when its timeout of " + timeoutMillis / 1000.0 + " s was over: " + late));
    }
  }

  /** Of two times the one that ends first; negative: without end. */
  private static long least(long a, long b) {
    return a < 0 ? b : b < 0 ? a : Math.min(a, b);
  }

  private static long left(long timeoutMillis, long began) {
    return timeoutMillis < 0
        ? -1
        : Math.max(0, timeoutMillis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
  }

  /** Null: they have ended; otherwise who has not. */
  private String awaitEnded(String filter, long millis) {
    try {
      coordinator.call("wait_ended", Params.of("filter", filter).and("timeout_ms", millis));
      return null;
    } catch (MillraceException e) {
      if (e.code() == StatusCode.DEADLINE_EXCEEDED) {
        return e.getMessage();
      }
      throw e;
    }
  }

  /** Ends everything at once. Idempotent. */
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    coordinator.close();
    stage.stop();
    synchronized (driverNodes) {
      for (NodeAgent agent : driverNodes) {
        agent.close();
      }
    }
    if (!spark.sc().isStopped()) {
      spark.sc().removeSparkListener(executors);
    }
    reactions.shutdown();
  }
}
