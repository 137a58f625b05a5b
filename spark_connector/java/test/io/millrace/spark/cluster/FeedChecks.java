package io.millrace.spark.cluster;

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
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Tuple2;

/** Clusters that are fed, two executors of one core each. */
final class FeedChecks extends Checks {
  FeedChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("squares", this::squares);
    check("trains", this::trains);
    check("killed", this::killed);
    check("exceptionDuringFeed", this::exceptionDuringFeed);
    check("exceptionAfterFeed", this::exceptionAfterFeed);
    check("elements", this::elements);
    check("emptyPartitions", this::emptyPartitions);
    check("lostResults", this::lostResults);
    check("stopsReading", this::stopsReading);
    check("manyPartitions", this::manyPartitions);
    check("restarts", this::restarts);
    check("unanswered", this::unanswered);
    check("interrupted", this::interrupted);
    check("interruptedWaits", this::interruptedWaits);
    check("interruptedBatch", this::interruptedBatch);
    check("stoppedQuery", this::stoppedQuery);
    check("badColumns", this::badColumns);
    check("badRow", this::badRow);
    check("twoClusters", this::twoClusters);
    check("progress", this::progress);
    check("wrongUse", this::wrongUse);
  }

  private void squares() {
    MillraceCluster cluster = run(feed(2), "square");
    Dataset<Row> out = cluster.inference(numbers(1000, 10), RESULT);
    for (int round = 0; round < 2; round++) { // lazy: each action feeds anew
      List<Row> rows = out.collectAsList();
      requireEqual(1000, rows.size());
      for (int i = 0; i < 1000; i++) {
        requireEqual((long) i * i, rows.get(i).getLong(0));
      }
    }
    cluster.shutdown();
  }

  private void trains() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    for (NodeInfo info : cluster.clusterInfo()) {
      requireEqual(NodeState.RUNNING, info.state());
    }
    TrainResult result = cluster.train(numbers(1000, 5), TrainOptions.builder().numEpochs(3).build());
    requireEqual(3000L, result.rows());
    requireEqual(2, cluster.nodeRdd().getNumPartitions());
    requireEqual(sc.sc(), cluster.sparkContext().sc());
    require(result.exactlyOnce() && !result.terminated(), result.toString());
    require(!result.elapsed().isZero(), "it took no time");
    cluster.endFeed("input");
    requireEqual(3L * 1000 * 999 / 2, sumOfNodes(cluster, 2));
    cluster.shutdown();
  }

  private void killed() {
    MillraceCluster cluster = run(feed(2), "die_at", "700");
    long began = System.nanoTime();
    MillraceException e = requireError(StatusCode.ABORTED, () -> cluster.train(numbers(1000, 5)));
    System.out.println("INFO failure seen after " + (System.nanoTime() - began) / 1_000_000 + " ms: " + e);
    requireContains(e.node(), "worker:");
    requireContains(e.exitStatus(), "signal 9");
    requireContains(requireError(StatusCode.ABORTED, cluster::shutdown).getMessage(), "SIGKILL");
  }

  private void exceptionDuringFeed() {
    MillraceCluster cluster = run(feed(2), "fail_at", "5");
    MillraceException e = requireError(StatusCode.INTERNAL, () -> cluster.train(numbers(100, 2)));
    requireContains(e.getMessage(), "row 5 is too much");
    requireEqual("exit code 1", e.exitStatus());
    requireContains(e.stderrLines().toString(), "cannot bear row 5");
    requireError(StatusCode.INTERNAL, cluster::shutdown);
    requireError(StatusCode.INTERNAL, cluster::shutdown); // as before
    requireError(StatusCode.FAILED_PRECONDITION, () -> cluster.train(numbers(1, 1)));
  }

  private void exceptionAfterFeed() {
    MillraceCluster cluster = run(feed(2), "fail_late", "1");
    cluster.train(numbers(100, 2));
    MillraceException e = requireError(StatusCode.INTERNAL, cluster::shutdown);
    requireContains(e.getMessage(), "could not save the model");
    requireEqual("worker:1", e.node());
  }

  /** What an RDD may hold. */
  private void elements() {
    MillraceCluster cluster = run(feed(1), "sum");
    requireEqual(3L, cluster.train(sc.parallelize(Arrays.asList(1L, 2L, 3L), 2)).rows());
    requireEqual(2L, cluster.train(sc.parallelize(Arrays.asList("a", "b"), 1)).rows());
    requireEqual(2L, cluster.train(sc.parallelize(Arrays.asList(new byte[3], new byte[0]), 1)).rows());
    JavaPairRDD<String, Double> pairs =
        sc.parallelizePairs(Arrays.asList(new Tuple2<>("a", 1.5), new Tuple2<>("b", 2.5)), 1);
    requireEqual(2L, cluster.train(pairs, TrainOptions.defaults()).rows());
    requireEqual(5L, cluster.train(numbers(5, 1).toJavaRDD()).rows());
    MillraceException e =
        requireError(
            StatusCode.INVALID_ARGUMENT, () -> cluster.train(spark.range(3).selectExpr("map(id, id) AS m")));
    requireContains(e.getMessage(), "\"m\"");
    cluster.endFeed("input");
    JavaRDD<Row> out =
        cluster.inference(
            sc.parallelize(Arrays.asList(4L, 5L), 1), RESULT, InferenceOptions.defaults());
    requireEqual(25L, out.collect().get(1).getLong(0));
    cluster.shutdown();
  }

  private void emptyPartitions() {
    MillraceCluster cluster = run(feed(2), "sum");
    Dataset<Row> few = numbers(1000, 20).where("x % 100 = 7");
    requireEqual(10L, cluster.train(few).rows());
    requireEqual(0L, cluster.train(numbers(10, 3).where("x < 0")).rows());
    requireEqual(0L, cluster.train(sc.<Long>emptyRDD()).rows());
    cluster.endFeed("input");
    requireEqual(10, cluster.inference(few, RESULT).collectAsList().size());
    requireEqual(3, cluster.inference(few, RESULT).limit(3).collectAsList().size());
    cluster.shutdown();
  }

  private void lostResults() {
    MillraceCluster cluster = run(feed(1), "lose_results");
    cluster.endFeed("input");
    requireActionError(
        StatusCode.FAILED_PRECONDITION, () -> cluster.inference(numbers(10, 1), RESULT).collectAsList());
    cluster.close();
  }

  private void stopsReading() {
    MillraceCluster cluster = run(feed(2), "stop_reading_at", "-5");
    requireEqual(10L, cluster.train(numbers(10, 2)).rows());
    Dataset<Row> all = spark.sql("SELECT explode(array(-5L, -5L, 1L)) AS x").repartition(6);
    TrainResult result = cluster.train(all.union(all).union(all), TrainOptions.builder().numEpochs(4).build());
    require(result.terminated() && !result.exactlyOnce(), "not terminated: " + result);
    cluster.shutdown();
  }

  /** A task feeds several partitions where there are very many, none of them twice and none not at all. */
  private void manyPartitions() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Map<Integer, Integer> tasks = new ConcurrentHashMap<>(); // by stage
    SparkListener counter =
        new SparkListener() {
          @Override
          public void onTaskStart(SparkListenerTaskStart event) {
            tasks.merge(event.stageId(), 1, Integer::sum);
          }
        };
    sc.sc().addSparkListener(counter);
    TrainResult result = cluster.train(numbers(5000, 2500));
    Eventually.await("the listener", () -> tasks.values().stream().anyMatch(count -> count >= 256)); // it is told later
    sc.sc().removeSparkListener(counter);
    requireEqual(5000L, result.rows());
    require(result.exactlyOnce(), result.toString());
    requireEqual(256, Collections.max(tasks.values()));
    cluster.endFeed("input");
    requireEqual(5000L * 4999 / 2, sumOfNodes(cluster, 2));
    cluster.shutdown();
  }

  /** A node that is killed is started again, and what it had not used is fed to it again. */
  private void restarts() throws Exception {
    MillraceCluster cluster = run(feed(2).failure(restarts(1)), "slow", "20");
    AtomicReference<TrainResult> result = new AtomicReference<>();
    Thread training = new Thread(() -> result.set(cluster.train(numbers(2000, 4))));
    training.start();
    Eventually.await("rows that are used", () -> acknowledged(cluster) > 0);
    kill("-9", cluster.clusterInfo().get(0).pid());
    training.join();
    require(result.get() != null, "train failed");
    requireEqual(2000L, result.get().rows());
    requireEqual(1, cluster.clusterInfo().get(0).attempt());
    cluster.shutdown();
  }

  /** Nodes that stand still for longer than a first answer may take, and then go on. */
  private void unanswered() throws Exception {
    Duration patience = Duration.ofMinutes(5);
    MillraceCluster sum = run(feed(1).failure(failure().stopTimeout(patience).build()), "sum");
    MillraceCluster square = run(feed(1).failure(failure().stopTimeout(patience).build()), "square");
    long[] pids = {sum.clusterInfo().get(0).pid(), square.clusterInfo().get(0).pid()};
    for (long pid : pids) {
      kill("-STOP", pid);
    }
    AtomicReference<TrainResult> trained = new AtomicReference<>();
    AtomicReference<List<Row>> inferred = new AtomicReference<>();
    Thread training = new Thread(() -> trained.set(sum.train(numbers(100, 1))));
    Thread inferring = new Thread(() -> inferred.set(square.inference(numbers(100, 1), RESULT).collectAsList()));
    training.start();
    inferring.start();
    for (long pid : pids) {
      Set<String> peers = new HashSet<>();
      Eventually.await(
          "another connection, since nothing came over the first",
          () -> {
            peers.addAll(peersOf(pid));
            return peers.size() > 1;
          });
    }
    for (long pid : pids) {
      kill("-CONT", pid);
    }
    training.join();
    inferring.join();
    require(trained.get() != null && inferred.get() != null, "an error for a node that lives");
    requireEqual(100L, trained.get().rows());
    require(trained.get().exactlyOnce(), trained.get().toString());
    requireEqual(100, inferred.get().size());
    sum.shutdown();
    square.shutdown();
  }

  /** Who is connected to a process where it listens, address and port, as /proc/net/tcp has them. */
  private static Set<String> peersOf(long pid) throws IOException {
    Set<String> inodes = new HashSet<>();
    try (DirectoryStream<Path> open = Files.newDirectoryStream(Paths.get("/proc/" + pid + "/fd"))) {
      for (Path one : open) {
        inodes.add(Files.readSymbolicLink(one).toString().replaceAll("socket:\\[(\\d+)]", "$1"));
      }
    }
    Set<String> listeners = new HashSet<>();
    Map<String, String> peers = new HashMap<>();
    for (String line : Files.readAllLines(Paths.get("/proc/" + pid + "/net/tcp"))) {
      String[] words = line.trim().split(" +"); // number, local and remote address, state, ..., inode
      String port = words[1].substring(words[1].indexOf(':') + 1);
      if (words[3].equals("0A") && inodes.contains(words[9])) {
        listeners.add(port);
      } else if (words[3].equals("01")) {
        peers.put(words[2], port);
      }
    }
    peers.values().retainAll(listeners);
    return peers.keySet();
  }

  /** The thread that trains is interrupted: the call ends, and its job with it; the cluster goes on. */
  private void interrupted() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    JavaRDD<Long> slow =
        sc.parallelize(Arrays.asList(1L, 2L, 3L, 4L), 4)
            .map(
                x -> {
                  Thread.sleep(30_000);
                  return x;
                });
    AtomicReference<MillraceException> error = new AtomicReference<>();
    AtomicReference<Boolean> kept = new AtomicReference<>();
    Thread training =
        new Thread(
            () -> {
              error.set(requireError(StatusCode.CANCELLED, () -> cluster.train(slow)));
              kept.set(Thread.interrupted());
            });
    Eventually.await("the end of the nodes' job", () -> sc.statusTracker().getActiveJobIds().length == 0);
    training.start();
    Eventually.await("its tasks", () -> runningTasks() == 2);
    training.interrupt();
    training.join();
    require(error.get() != null, "no such error");
    requireContains(error.get().getMessage(), "interrupted");
    require(kept.get(), "the interrupt is lost");
    long began = System.nanoTime();
    Eventually.await("the end of its job", () -> sc.statusTracker().getActiveJobIds().length == 0);
    require(System.nanoTime() - began < 20_000_000_000L, "its tasks were not killed");
    requireEqual(10L, cluster.train(numbers(10, 2)).rows());
    cluster.shutdown();
  }

  /** Interrupts a call once that holds; it must end soon, with CANCELLED. */
  private static void interruptIn(String what, Eventually.Condition holds, Check call) throws Exception {
    AtomicReference<MillraceException> error = new AtomicReference<>();
    AtomicReference<Boolean> kept = new AtomicReference<>(false);
    Thread thread =
        new Thread(
            () -> {
              error.set(requireError(StatusCode.CANCELLED, call));
              kept.set(Thread.interrupted());
            });
    thread.start();
    Eventually.await(what, holds);
    long began = System.nanoTime();
    thread.interrupt();
    thread.join();
    require(error.get() != null, "no such error in " + what);
    require(kept.get(), "the interrupt is lost in " + what);
    require(System.nanoTime() - began < 10_000_000_000L, "late in " + what);
  }

  private boolean hasNoJob() {
    return sc.statusTracker().getActiveJobIds().length == 0;
  }

  /** The driver waits, and no job of Spark's runs that could be cancelled. */
  private void interruptedWaits() throws Exception {
    MillraceCluster silent = MillraceCluster.run(sc, NodeProgram.path("/bin/sleep", "600"), feed(2).build());
    Eventually.await("the end of the nodes' job", this::hasNoJob);
    interruptIn("the wait for nodes", () -> waitingIn("awaitNodes") == 1, () -> silent.train(numbers(10, 2)));
    require(silent.failure() == null, "it failed: " + silent.failure());
    silent.close();
    MillraceCluster cluster = run(feed(2), "slow", "500");
    interruptIn(
        "the wait for acknowledgements",
        () -> ledger(cluster, "rows_received") == 2000 && hasNoJob() && waitingIn("awaitAcknowledged") == 1,
        () -> cluster.train(numbers(2000, 2)));
    Thread first = new Thread(() -> requireError(StatusCode.CANCELLED, () -> cluster.train(numbers(2000, 2))));
    first.start();
    Eventually.await("the first call's wait", () -> waitingIn("awaitAcknowledged") == 1);
    interruptIn("the wait for another call", () -> waitingIn("lockTraining") == 1, () -> cluster.train(numbers(10, 2)));
    first.interrupt();
    first.join();
    requireEqual(10L, cluster.train(numbers(10, 2)).rows());
    cluster.close();
    JavaFutureAction<Void> other =
        sc.parallelize(Arrays.asList(1), 1)
            .foreachAsync(i -> Eventually.await("its job's end", () -> TaskContext.get().isInterrupted()));
    Eventually.await("a task in one of two slots", () -> runningTasks() == 1);
    interruptIn("the start", () -> waitingIn("awaitRunning") == 1, () -> run(feed(2), "sum"));
    other.cancel(true);
    Eventually.await("the end of all jobs", this::hasNoJob);
    MillraceCluster next = run(feed(2), "sum");
    requireEqual(10L, next.train(numbers(10, 2)).rows());
    next.shutdown();
  }

  /** How many threads are in a method of this name. */
  private static long waitingIn(String method) {
    return Thread.getAllStackTraces().values().stream()
        .filter(stack -> Arrays.stream(stack).anyMatch(frame -> frame.getMethodName().equals(method)))
        .count();
  }

  /** As a stream's thread is: it drops what it does to itself while the interrupt() of another has not returned. */
  private static final class StreamThread extends Thread {
    StreamThread(Runnable body) {
      super(body);
    }

    @Override
    public void interrupt() {
      if (Thread.currentThread() != this) {
        super.interrupt();
      }
    }
  }

  /** A stream's thread that is interrupted in its batch hears of that, whatever became of its flag. */
  private void interruptedBatch() throws Exception {
    MillraceCluster cluster = run(feed(2), "slow", "500");
    VoidFunction2<Dataset<Row>, Long> batches = cluster.trainBatches(TrainOptions.defaults());
    Dataset<Row> batch = numbers(2000, 2);
    AtomicReference<Exception> error = new AtomicReference<>();
    Thread stream =
        new StreamThread(
            () -> {
              try {
                batches.call(batch, 0L);
              } catch (Exception e) {
                error.set(e);
              }
            });
    stream.start();
    String tag = "millrace-" + cluster.clusterId() + "-feed";
    Eventually.await("the feed of a batch", () -> sc.sc().statusTracker().getJobIdsForTag(tag).length > 0);
    stream.interrupt();
    stream.join();
    require(error.get() instanceof InterruptedException, "its error: " + error.get());
    cluster.close();
  }

  /** A streaming query that is stopped while it feeds a batch has ended well. */
  private void stoppedQuery() throws Exception {
    MillraceCluster cluster = run(feed(2), "slow", "500");
    spark.conf().set("spark.sql.streaming.checkpointLocation", Paths.get(folder, "stopped").toString());
    String in = Paths.get(folder, "batches").toString();
    numbers(2000, 2).write().parquet(in);
    StreamingQuery query =
        spark
            .readStream()
            .schema("x bigint")
            .parquet(in)
            .writeStream()
            .foreachBatch(cluster.trainBatches(TrainOptions.defaults()))
            .start();
    String tag = "millrace-" + cluster.clusterId() + "-feed";
    Eventually.await("the feed of a batch", () -> sc.sc().statusTracker().getJobIdsForTag(tag).length > 0);
    query.stop();
    require(query.exception().isEmpty(), "its error: " + query.exception());
    cluster.close();
  }

  /** A task that ends before its first row leaves nothing that others wait for. */
  private void badColumns() {
    MillraceCluster cluster = run(feed(1), "square");
    Dataset<Row> bad = spark.range(3).selectExpr("CAST(id AS decimal(9, 2)) AS x");
    requireActionError(StatusCode.INVALID_ARGUMENT, () -> cluster.inference(bad, RESULT).collectAsList());
    InferenceOptions soon = InferenceOptions.builder().feedTimeout(Duration.ofMillis(20_000)).build();
    requireEqual(10, cluster.inference(numbers(10, 1), RESULT, soon).collectAsList().size());
    cluster.shutdown();
  }

  /** A row that no attempt could send is met by one of them, though Spark tries four times. */
  private void badRow() throws Exception {
    MillraceCluster cluster = run(feed(1), "square");
    String met = Files.createTempDirectory(Paths.get(folder), "met").toString();
    JavaRDD<Object> rows =
        sc.parallelize(Arrays.<Object>asList(1L, 2L, "three"), 1)
            .map(
                row -> {
                  if (row instanceof String) {
                    Files.createFile(Paths.get(met, "attempt " + TaskContext.get().attemptNumber()));
                  }
                  return row;
                });
    MillraceException e =
        requireActionError(
            StatusCode.INVALID_ARGUMENT,
            () -> cluster.inference(rows, RESULT, InferenceOptions.defaults()).collect());
    requireContains(e.getMessage(), "row 2: ");
    requireEqual(1, Paths.get(met).toFile().list().length);
    requireEqual(10, cluster.inference(numbers(10, 1), RESULT).collectAsList().size());
    cluster.shutdown();
  }

  private void twoClusters() {
    MillraceCluster one = run(feed(2), "sum");
    MillraceCluster two = run(feed(2), "square");
    require(!one.clusterId().equals(two.clusterId()), one.clusterId());
    requireEqual(100L, one.train(numbers(100, 4)).rows());
    requireEqual(81L, two.inference(numbers(10, 2), RESULT).collectAsList().get(9).getLong(0));
    two.shutdown();
    requireEqual(100L, one.train(numbers(100, 4)).rows());
    one.shutdown();
  }

  /** What Spark's UI shows: descriptions of jobs, and rows as they are fed and returned. */
  private void progress() throws Exception {
    Map<String, Long> counts = new ConcurrentHashMap<>();
    Set<String> descriptions = ConcurrentHashMap.newKeySet();
    sc.sc()
        .addSparkListener(
            new SparkListener() {
              @Override
              public void onJobStart(SparkListenerJobStart job) {
                descriptions.add(String.valueOf(job.properties().get("spark.job.description")));
              }

              @Override
              public void onTaskEnd(SparkListenerTaskEnd task) {
                scala.collection.Iterator<AccumulableInfo> all = accumulables(task.taskInfo()).iterator();
                while (all.hasNext()) {
                  AccumulableInfo one = all.next();
                  if (one.name().isDefined() && one.name().get().startsWith("Millrace rows")) {
                    counts.merge(one.name().get(), (Long) one.update().get(), Long::sum);
                  }
                }
              }
            });
    MillraceCluster cluster = run(feed(2), "sum");
    cluster.train(numbers(100, 4), TrainOptions.builder().numEpochs(2).endOfFeed(true).build());
    requireEqual(100, cluster.inference(numbers(100, 4), RESULT).collectAsList().size());
    String prefix = "Millrace cluster " + cluster.clusterId() + ": ";
    cluster.shutdown();
    Eventually.await("200 rows fed", () -> counts.getOrDefault("Millrace rows fed", 0L) == 200);
    Eventually.await("100 rows returned", () -> counts.getOrDefault("Millrace rows returned", 0L) == 100);
    require(descriptions.contains(prefix + "2 nodes"), descriptions.toString());
    require(descriptions.contains(prefix + "train, 2 epochs, queue 'input'"), descriptions.toString());
  }

  /** By reflection: what it returns is another type with Scala 2.12 than with 2.13. */
  @SuppressWarnings("unchecked")
  private static scala.collection.Iterable<AccumulableInfo> accumulables(TaskInfo info) {
    try {
      return (scala.collection.Iterable<AccumulableInfo>) TaskInfo.class.getMethod("accumulables").invoke(info);
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private void wrongUse() throws Exception {
    requireError(StatusCode.INVALID_ARGUMENT, () -> run(feed(0), "sum"));
    requireError(StatusCode.INVALID_ARGUMENT, () -> run(feed(2).masterNode("boss"), "sum"));
    MillraceException missing =
        requireError(
            StatusCode.NOT_FOUND, () -> MillraceCluster.run(sc, NodeProgram.file("/nowhere/n"), feed(1).build()));
    requireContains(missing.getMessage(), "/nowhere/n");
    MillraceException absent =
        requireError(
            StatusCode.NOT_FOUND, () -> MillraceCluster.run(sc, NodeProgram.path("/nowhere/n"), feed(1).build()));
    requireContains(absent.getMessage(), "/nowhere/n");
    MillraceException few = requireError(StatusCode.FAILED_PRECONDITION, () -> run(feed(3), "sum"));
    requireContains(few.getMessage(), "3 nodes need a task slot each");
    // To Spark a task that is cancelled has ended, also while it still runs.
    JavaFutureAction<Void> other =
        sc.parallelize(Arrays.asList(1), 1)
            .foreachAsync(i -> Eventually.await("its job's end", () -> TaskContext.get().isInterrupted()));
    Eventually.await("a task in one of two slots", () -> runningTasks() == 1);
    MillraceException taken =
        requireError(
            StatusCode.DEADLINE_EXCEEDED, () -> run(feed(2).reservationTimeout(Duration.ofSeconds(5)), "sum"));
    requireContains(taken.getMessage(), "have 1 of 2 slots");
    other.cancel(true);
    Eventually.await("its end", () -> runningTasks() == 0);
    MillraceCluster cluster = run(feed(1), "sum");
    requireError(StatusCode.NOT_FOUND, () -> cluster.train(numbers(1, 1), TrainOptions.builder().queue("q").build()));
    requireError(
        StatusCode.INVALID_ARGUMENT,
        () -> cluster.train(numbers(1, 1), TrainOptions.builder().numEpochs(0).build()));
    cluster.shutdown();
    requireError(StatusCode.FAILED_PRECONDITION, () -> cluster.train(numbers(1, 1)));
  }
}
