package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InferenceOptions;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.NodeState;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.JobExecutionStatus;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * What a cluster does that has lost a node, has failed, is asked for the impossible, or whose jobs somebody cancels;
 * two executors of one core each.
 */
final class RecoveryChecks extends LossChecks {
  private static final long ROWS = 4_000;
  /**
   * A second is the restart's delay, 0.1 s the start of an agent and its node; the rest is for a machine that does much
   * else. Who waits for no good reason waits for a feedTimeout: a minute.
   */
  private static final long MAX_NODE_MILLIS = 15_000;
  /** After an executor's first task: the others of a job that find no node, then the job that starts one. */
  private static final long MAX_EXECUTOR_MILLIS = 12_000;
  /** After a new executor came: its first task, which is to start the node too. */
  private static final long MAX_COLD_MILLIS = 30_000;

  RecoveryChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("failedStaysFailed", this::failedStaysFailed);
    check("trainAfterEnd", this::trainAfterEnd);
    check("inferenceTooEarly", this::inferenceTooEarly);
    check("noFeed", this::noFeed);
    check("brokenProgram", this::brokenProgram);
    check("afterShutdown", this::afterShutdown);
    check("jobsCancelled", this::jobsCancelled);
    check("groupCancelled", this::groupCancelled);
    check("nodeKilled", this::nodeKilled);
    check("programFailed", this::programFailed);
    check("agentKilled", this::agentKilled);
    check("agentKilledWithoutAFreeCore", this::agentKilledWithoutAFreeCore);
    check("noPlace", this::noPlace);
    check("allExecutorsKilled", this::allExecutorsKilled);
    check("onlyAgentKilledInInference", this::onlyAgentKilledInInference);
    check("allAgentsKilledInInference", this::allAgentsKilledInInference);
    check("allExecutorsKilledInInference", this::allExecutorsKilledInInference);
  }

  /** The node that is left answers no more. */
  private void failedStaysFailed() throws Exception {
    MillraceCluster cluster = run(feed(2), "square");
    Dataset<Row> before = cluster.inference(numbers(100, 4), RESULT);
    requireEqual(100L, before.count());
    kill("-9", cluster.clusterInfo().get(1).pid());
    Eventually.await("the cluster's failure", () -> cluster.failure() != null);
    for (Check call :
        new Check[] {
          () -> cluster.inference(numbers(10, 1), RESULT),
          () -> cluster.train(numbers(10, 1)),
          () -> cluster.trainBatches(TrainOptions.defaults()),
          () -> cluster.endFeed("input"),
        }) {
      requireEqual("worker:1", requireError(StatusCode.ABORTED, call).node());
    }
    // What was asked for before, and is computed now.
    requireContains(requireActionError(StatusCode.ABORTED, before::count).getMessage(), "SIGKILL");
    requireError(StatusCode.ABORTED, cluster::shutdown);
  }

  private void trainAfterEnd() {
    MillraceCluster cluster = run(feed(2), "sum");
    cluster.train(numbers(100, 4), TrainOptions.builder().endOfFeed(true).build());
    MillraceException e = requireError(StatusCode.FAILED_PRECONDITION, () -> cluster.train(numbers(100, 4)));
    requireContains(e.getMessage(), "training on queue 'input' has ended");
    requireEqual(100L, cluster.inference(numbers(100, 4), RESULT).count());
    cluster.shutdown();
  }

  /** Its time is waited for once, though Spark tries four times. */
  private void inferenceTooEarly() throws Exception {
    long timeoutMillis = 20_000; // more than an attempt takes that waits for nothing
    List<Long> failed = new CopyOnWriteArrayList<>();
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onTaskEnd(SparkListenerTaskEnd task) {
            if (task.taskInfo().failed()) {
              failed.add(task.taskInfo().duration());
            }
          }
        };
    MillraceCluster cluster = run(feed(1), "sum");
    cluster.train(numbers(100, 2));
    sc.sc().addSparkListener(listener);
    InferenceOptions options = InferenceOptions.builder().feedTimeout(Duration.ofMillis(timeoutMillis)).build();
    MillraceException e =
        requireActionError(
            StatusCode.DEADLINE_EXCEEDED, () -> cluster.inference(numbers(10, 1), RESULT, options).count());
    requireContains(e.getMessage(), "endFeed");
    Eventually.await("all attempts", () -> failed.size() == 4);
    sc.sc().removeSparkListener(listener);
    long waited = failed.stream().filter(millis -> millis >= timeoutMillis).count();
    require(waited == 1, "attempts took " + failed + " ms");
    cluster.endFeed("input");
    requireEqual(10L, cluster.inference(numbers(10, 1), RESULT).count());
    cluster.shutdown();
  }

  /** Programs that were not written for a feed, and one that has ended. */
  private void noFeed() {
    MillraceCluster sleeps = MillraceCluster.run(sc, NodeProgram.path("/bin/sleep", "600"), feed(2).build());
    long timeoutMillis = 4_000;
    TrainOptions soon = TrainOptions.builder().feedTimeout(Duration.ofMillis(timeoutMillis)).build();
    long began = System.nanoTime();
    MillraceException e = requireError(StatusCode.DEADLINE_EXCEEDED, () -> sleeps.train(numbers(100, 16), soon));
    long took = millisSince(began);
    require(took >= timeoutMillis && took < 3 * timeoutMillis, "it took " + took + " ms");
    requireContains(e.getMessage(), "worker:0, worker:1 published no feed endpoint");
    sleeps.close();
    requireError(
        StatusCode.FAILED_PRECONDITION,
        () -> {
          try (MillraceCluster ends = MillraceCluster.run(sc, NodeProgram.path("/bin/true"), feed(2).build())) {
            ends.train(numbers(100, 4));
          }
        });
    MillraceCluster stopped = run(feed(1), "stop_reading_at", "0");
    require(stopped.train(numbers(100, 1)).terminated(), "it goes on reading");
    stopped.shutdown();
  }

  /** A program that cannot begin, for want of a library say, is told by the call that starts it. */
  private void brokenProgram() throws Exception {
    Path program = Paths.get(folder, "broken");
    Files.write(program, "#!/bin/sh\nsleep 0.2; echo no such library >&2; exit 127\n".getBytes(StandardCharsets.UTF_8));
    require(program.toFile().setExecutable(true), "not executable");
    MillraceException e =
        requireError(
            StatusCode.ABORTED,
            () -> MillraceCluster.run(sc, NodeProgram.file(program.toString()), feed(2).build()));
    requireContains(e.getMessage(), "exited with code 127");
    requireContains(e.stderrLines().toString(), "no such library");
  }

  private void afterShutdown() {
    MillraceCluster cluster = run(feed(1), "square");
    Dataset<Row> lazy = cluster.inference(numbers(10, 1), RESULT);
    cluster.shutdown();
    MillraceException e = requireActionError(StatusCode.UNAVAILABLE, lazy::count);
    requireContains(e.getMessage(), "cluster " + cluster.clusterId() + " has ended");
  }

  /** As PySpark does at Ctrl-C. */
  private void jobsCancelled() throws Exception {
    ClusterOptions.Builder options = feed(2).inputMode(io.millrace.spark.InputMode.DIRECT);
    MillraceCluster cluster = run(options, "wait");
    Eventually.await("the job of the nodes", () -> sc.statusTracker().getActiveJobIds().length > 0);
    List<NodeInfo> before = cluster.clusterInfo();
    sc.sc().cancelAllJobs();
    Eventually.await("its end", () -> sc.statusTracker().getActiveJobIds().length == 0);
    requireEqual(10L, numbers(10, 4).count()); // in the slots of the nodes: what would end these has come
    require(cluster.failure() == null, "it failed: " + cluster.failure());
    for (int i = 0; i < 2; i++) {
      requireEqual(NodeState.RUNNING, cluster.clusterInfo().get(i).state());
      requireEqual(before.get(i).pid(), cluster.clusterInfo().get(i).pid());
    }
    cluster.close();
  }

  /** Somebody cancels the caller's job group while train feeds: the call ends, and nothing is left of it. */
  private void groupCancelled() throws Exception {
    String group = "the caller's";
    MillraceCluster cluster = run(feed(2), "sum");
    List<NodeInfo> before = cluster.clusterInfo();
    // Four rows make a batch. Of each partition two batches are sent; then its task stands still.
    JavaRDD<byte[]> data =
        sc.parallelize(new ArrayList<>(Collections.nCopies(80, 1)), 4).mapPartitions(RecoveryChecks::standingStill);
    AtomicReference<MillraceException> error = new AtomicReference<>();
    AtomicReference<String> groupAfter = new AtomicReference<>();
    Thread training =
        new Thread(
            () -> {
              sc.setJobGroup(group, "what it trains on");
              error.set(requireError(StatusCode.CANCELLED, () -> cluster.train(data)));
              groupAfter.set(sc.getLocalProperty("spark.jobGroup.id"));
            });
    training.start();
    Eventually.await("rows that are used", () -> acknowledged(cluster) > 0);
    Eventually.await("a task on each core", () -> runningTasks() == 2);
    sc.cancelJobGroup(group);
    long cancelled = System.nanoTime();
    Eventually.await("the end of train", () -> !training.isAlive());
    System.out.println("INFO train ended " + millisSince(cancelled) + " ms after its cancel: " + error.get());
    require(error.get() != null, "no such error");
    requireContains(error.get().getMessage(), "cancelled");
    requireEqual(group, groupAfter.get());
    Eventually.await(
        "the end of its tasks", () -> runningTasks() == 0 && sc.statusTracker().getActiveJobIds().length == 0);
    Eventually.await("the end of its sessions", () -> openSessions(session -> true) == 0);
    require(cluster.failure() == null, "it failed: " + cluster.failure());
    for (int i = 0; i < 2; i++) {
      requireEqual(NodeState.RUNNING, cluster.clusterInfo().get(i).state());
      requireEqual(before.get(i).pid(), cluster.clusterInfo().get(i).pid());
    }
    TrainResult next = cluster.train(numbers(100, 4));
    requireEqual(100L, next.rows());
    require(next.exactlyOnce(), next.toString());
    cluster.shutdown();
  }

  /** Large rows; the twelfth comes when the task is cancelled. */
  private static Iterator<byte[]> standingStill(Iterator<Integer> rows) {
    AtomicInteger at = new AtomicInteger();
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return rows.hasNext();
      }

      @Override
      public byte[] next() {
        rows.next();
        try {
          Eventually.await("the end of the task", () -> at.get() < 11 || TaskContext.get().isInterrupted());
        } catch (Exception e) { // Spark interrupts it
          throw new IllegalStateException(e);
        }
        at.incrementAndGet();
        return new byte[300_000];
      }
    };
  }

  private void nodeKilled() throws Exception {
    Loss loss = killed("node", ROWS, cluster -> kill("-9", cluster.clusterInfo().get(0).pid()));
    requireWithin(MAX_NODE_MILLIS, "rows were used again", loss.flowsMillis);
  }

  /** A program that ends with an error of its own while it is fed is fed again where it is started again. */
  private void programFailed() {
    MillraceCluster cluster = run(feed(1).failure(restarts(1)), "fail_once", "5");
    TrainResult result = cluster.train(numbers(100, 4));
    requireEqual(100L, result.rows());
    requireEqual(1, cluster.clusterInfo().get(0).attempt());
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    cluster.shutdown();
  }

  private void agentKilled() throws Exception {
    Loss loss = killed("agent", ROWS, cluster -> kill("-9", parentOf(cluster.clusterInfo().get(0).pid())));
    requireWithin(MAX_NODE_MILLIS, "rows were used again", loss.flowsMillis);
  }

  /** Waits until all rows of train are with the only node; then others have every core. */
  private JavaFutureAction<Void> takeEveryCore(MillraceCluster cluster, long rows) throws Exception {
    Eventually.await("all rows with the node", () -> ledger(cluster, "rows_received") == rows);
    Eventually.await("the end of the jobs", () -> sc.statusTracker().getActiveJobIds().length == 0);
    JavaFutureAction<Void> others =
        sc.parallelize(Arrays.asList(1, 2), 2)
            .foreachAsync(i -> Eventually.await("their job's end", () -> TaskContext.get().isInterrupted()));
    Eventually.await("a task on each core", () -> runningTasks() == 2);
    return others;
  }

  /** Its executor starts another one in its place, which is no task of Spark's. */
  private void agentKilledWithoutAFreeCore() throws Exception {
    MillraceCluster cluster = run(feed(1).failure(restarts(3)), "slow", "50");
    long rows = 200;
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Thread training = new Thread(() -> result.set(cluster.train(numbers(rows, 2))));
    training.start();
    JavaFutureAction<Void> others = takeEveryCore(cluster, rows);
    long executor = executorOf(cluster.clusterInfo().get(0));
    kill("-9", parentOf(cluster.clusterInfo().get(0).pid()));
    Eventually.await("the node's next attempt", () -> isBack(cluster.clusterInfo().get(0)));
    requireEqual(2, runningTasks());
    requireEqual(executor, executorOf(cluster.clusterInfo().get(0)));
    others.cancel(true); // the rows are fed again by a job
    training.join();
    require(result.get() != null, "train failed");
    requireEqual(rows, result.get().rows());
    cluster.shutdown();
  }

  /** The only node is lost, and others have every core: train ends in its time, and goes on with a core. */
  private void noPlace() throws Exception {
    MillraceCluster cluster = run(feed(1).failure(restarts(3)), "slow", "50");
    long timeoutMillis = 4_000;
    TrainOptions soon = TrainOptions.builder().feedTimeout(Duration.ofMillis(timeoutMillis)).build();
    AtomicReference<MillraceException> error = new AtomicReference<>();
    Thread training =
        new Thread(
            () -> error.set(requireError(StatusCode.DEADLINE_EXCEEDED, () -> cluster.train(numbers(2000, 2), soon))));
    training.start();
    JavaFutureAction<Void> others = takeEveryCore(cluster, 2000);
    // With its executor: one whose agent alone is killed needs no core. That Spark starts another one changes nothing.
    kill("-9", executorOf(cluster.clusterInfo().get(0)));
    long killed = System.nanoTime();
    training.join();
    long took = millisSince(killed);
    System.out.println("INFO no place: train ended " + took + " ms after the kill: " + error.get());
    require(error.get() != null, "no such error");
    requireContains(error.get().getMessage(), "to be started again: worker:0, each needs");
    require(took >= timeoutMillis && took < 3 * timeoutMillis, "it took " + took + " ms");
    String tag = "millrace-" + cluster.clusterId() + "-feed";
    for (int job : sc.sc().statusTracker().getJobIdsForTag(tag)) {
      require(!sc.statusTracker().getJobInfo(job).status().equals(JobExecutionStatus.RUNNING), "a job is left");
    }
    others.cancel(true);
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    requireEqual(1, cluster.clusterInfo().get(0).attempt());
    cluster.shutdown();
  }

  /** No node is left, and the tasks that feed must not hold the cores that the nodes need. */
  private void allExecutorsKilled() throws Exception {
    Loss loss = killed("executors", ROWS, RecoveryChecks::killExecutors);
    long flows = loss.flowsMillis - millisToWarmExecutor(loss.killed);
    requireWithin(MAX_EXECUTOR_MILLIS, "after a new executor's first task rows were used again", flows);
  }

  /** x; the first attempts of the tasks stand still at their first row, each with a core, until they may go on. */
  private static final class Gate implements UDF1<Long, Long> {
    private static final long serialVersionUID = 1L;
    private final String files;

    Gate(Path files) {
      this.files = files.toString();
    }

    @Override
    public Long call(Long x) throws Exception {
      TaskContext task = TaskContext.get();
      if (task.attemptNumber() == 0 && !Files.exists(Paths.get(files, "go"))) {
        Files.write(Paths.get(files, "waits-" + task.partitionId()), new byte[0]);
        Eventually.await("the word to go on", () -> Files.exists(Paths.get(files, "go")));
      }
      return x;
    }
  }

  private void onlyAgentKilledInInference() throws Exception {
    Loss loss =
        killedInInference("only agent", 1, cluster -> kill("-9", parentOf(cluster.clusterInfo().get(0).pid())));
    requireWithin(MAX_NODE_MILLIS, "inference ended", loss.flowsMillis);
  }

  private void allAgentsKilledInInference() throws Exception {
    Loss loss =
        killedInInference(
            "agents",
            2,
            cluster -> {
              for (NodeInfo node : cluster.clusterInfo()) {
                kill("-9", parentOf(node.pid()));
              }
            });
    requireWithin(MAX_NODE_MILLIS, "inference ended", loss.flowsMillis);
  }

  private void allExecutorsKilledInInference() throws Exception {
    Loss loss = killedInInference("executors", 2, RecoveryChecks::killExecutors);
    long ended = loss.flowsMillis - millisToNewExecutor(loss.killed);
    requireWithin(MAX_COLD_MILLIS, "with a new executor inference ended", ended);
  }

  private static void killExecutors(MillraceCluster cluster) throws Exception {
    long[] pids = {executorOf(cluster.clusterInfo().get(0)), executorOf(cluster.clusterInfo().get(1))};
    kill("-9", pids[0]);
    kill("-9", pids[1]);
  }

  private static boolean wasLost(NodeInfo node) {
    return node.attempt() > 0 || node.state() == NodeState.LOST || node.state() == NodeState.FAILED;
  }

  /** No node is left, and tasks of inference hold every core: they start what they wait for. */
  private Loss killedInInference(String what, int nodes, Killer killer) throws Exception {
    MillraceCluster cluster = run(feed(nodes).failure(restarts(3)), "square");
    Path files = Files.createTempDirectory(Paths.get(folder), "gate");
    UserDefinedFunction gate = functions.udf(new Gate(files), DataTypes.LongType);
    Dataset<Row> data = numbers(1000, 6).select(gate.apply(functions.col("x")).as("x"));
    InferenceOptions options = InferenceOptions.builder().feedTimeout(Duration.ofMillis(60_000)).build();
    AtomicReference<List<Row>> result = new AtomicReference<>();
    Thread inferring =
        new Thread(() -> result.set(cluster.inference(data, RESULT, options).select("y").collectAsList()));
    inferring.start();
    Eventually.await(
        "a task on each core", () -> files.toFile().list((dir, name) -> name.startsWith("waits-")).length == 2);
    killer.kill(cluster);
    long killed = System.nanoTime();
    Eventually.await("their loss", () -> cluster.clusterInfo().stream().allMatch(RecoveryChecks::wasLost));
    long lost = millisSince(killed);
    Files.createFile(files.resolve("go"));
    Eventually.await("a next attempt", () -> cluster.clusterInfo().stream().anyMatch(RecoveryChecks::isBack));
    long back = millisSince(killed);
    inferring.join();
    long ended = millisSince(killed);
    System.out.println(
        "INFO " + what + " killed in inference: the loss was known after " + lost + " ms, a node was back after "
            + back + " ms, all ended after " + ended + " ms");
    require(result.get() != null, "inference failed");
    requireEqual(1000, result.get().size());
    for (int i = 0; i < 1000; i++) {
      requireEqual((long) i * i, result.get().get(i).getLong(0));
    }
    // The first node that is back may have served all; then the other one's own job has the cores.
    Eventually.await("the next attempts", () -> cluster.clusterInfo().stream().allMatch(node -> node.attempt() > 0));
    // The job that was to start a node finds it started, wherever its task comes to run.
    Eventually.await("the end of all jobs for nodes", () -> sc.statusTracker().getActiveJobIds().length == 0);
    requireEqual(100L, cluster.inference(numbers(100, 4), RESULT, options).count());
    cluster.shutdown();
    return new Loss(killed, ended);
  }
}
