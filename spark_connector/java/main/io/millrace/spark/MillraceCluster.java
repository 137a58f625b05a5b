package io.millrace.spark;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Durations;
import io.millrace.spark.internal.base.Interrupts;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.base.Text;
import io.millrace.spark.internal.cluster.FeedSummary;
import io.millrace.spark.internal.cluster.Params;
import io.millrace.spark.internal.cluster.Slot;
import io.millrace.spark.internal.rows.ColumnSlice;
import io.millrace.spark.internal.rows.ColumnSlices;
import io.millrace.spark.internal.spark.ClusterRun;
import io.millrace.spark.internal.spark.EncoderFactory;
import io.millrace.spark.internal.spark.Encoders;
import io.millrace.spark.internal.spark.FeedPlan;
import io.millrace.spark.internal.spark.InferenceFeeds;
import io.millrace.spark.internal.spark.SourceLevel;
import io.millrace.spark.internal.spark.StreamEnd;
import io.millrace.spark.internal.spark.TrainRun;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.streaming.api.java.JavaDStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A cluster of node programs on the executors of a Spark application.
 *
 * <pre>{@code
 * MillraceCluster cluster = MillraceCluster.run(spark, NodeProgram.file("digits_node", "--epochs=5"),
 *     ClusterOptions.builder().numExecutors(4).numPs(1).masterNode("chief").inputMode(InputMode.FEED).build());
 * cluster.train(df, TrainOptions.builder().numEpochs(5).build());
 * Dataset<Row> out = cluster.inference(df, resultSchema);     // lazy
 * cluster.shutdown();
 * }</pre>
 *
 * <p>Every call that fails throws a {@link MillraceException}: the cluster's first cause, with its node, how
 * it ended and what it wrote last, within a second of its death. So does every call after it, until shutdown.
 * The SparkContext is never stopped, and is as
 * good as before after a cluster that has failed: another one can be started.
 *
 * <p>Thread-safe; train calls on one queue run one after another. The cluster ends with its driver.
 */
public final class MillraceCluster implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(MillraceCluster.class);
  /** Of an epoch: a task feeds several partitions where there are more. */
  private static final int MAX_TASKS = 256;
  private static final int TASKS_PER_CORE = 8;

  private final ClusterRun run;
  private final InferenceFeeds inferenceFeeds;
  private final Map<String, ReentrantLock> trainLocks = new TreeMap<>();
  private final Set<String> trainedQueues = ConcurrentHashMap.newKeySet();
  private final Set<String> endedQueues = ConcurrentHashMap.newKeySet();
  private volatile boolean terminated;
  private volatile boolean shut;
  // Guarded by this.
  private MillraceException shutError;

  private MillraceCluster(ClusterRun run) {
    this.run = run;
    this.inferenceFeeds = new InferenceFeeds(run.coordinator(), this::checkServes);
  }

  /**
   * Starts a cluster and returns when every node runs.
   *
   * @throws MillraceException INVALID_ARGUMENT for options that make no sense; NOT_FOUND if the program is not
   *     there; FAILED_PRECONDITION if dynamic allocation may take nodes away; DEADLINE_EXCEEDED naming the
   *     nodes that did not come in time, and why; or the first failure of a node. Nothing is left behind
   */
  public static MillraceCluster run(JavaSparkContext spark, NodeProgram program, ClusterOptions options) {
    return new MillraceCluster(ClusterRun.start(spark, program, options));
  }

  /** As {@link #run(JavaSparkContext, NodeProgram, ClusterOptions)}. */
  public static MillraceCluster run(SparkContext spark, NodeProgram program, ClusterOptions options) {
    return run(JavaSparkContext.fromSparkContext(spark), program, options);
  }

  /** As {@link #run(JavaSparkContext, NodeProgram, ClusterOptions)}. */
  public static MillraceCluster run(SparkSession spark, NodeProgram program, ClusterOptions options) {
    return run(spark.sparkContext(), program, options);
  }

  // -------------------------------------------------------------------------------------------- train

  /** Feeds every row once, to the queue "input". */
  public TrainResult train(Dataset<Row> data) {
    return train(data, TrainOptions.defaults());
  }

  /**
   * Feeds every row, numEpochs times, and returns when programs have used them all, or stopped reading.
   *
   * @throws MillraceException FAILED_PRECONDITION in InputMode DIRECT or after the queue's end; NOT_FOUND for an
   *     unknown queue; INVALID_ARGUMENT for bad options, or a column that a feed cannot carry;
   *     DEADLINE_EXCEEDED without progress for the feed timeout; CANCELLED if Spark's job is, or this thread is
   *     interrupted (its flag stays set, its job ends); or a node's failure
   */
  public TrainResult train(Dataset<Row> data, TrainOptions options) {
    JavaRDD<ColumnSlice> columns = ColumnSlices.of(data);
    if (columns != null) {
      return train(columns, Encoders.ofColumns(data.schema()), options);
    }
    JavaRDD<InternalRow> rows = data.queryExecution().toRdd().toJavaRDD();
    return train(rows, Encoders.ofInternalRows(data.schema()), options);
  }

  /** Feeds every element once, to the queue "input". */
  public <T> TrainResult train(JavaRDD<T> data) {
    return train(data, TrainOptions.defaults());
  }

  /**
   * As {@link #train(Dataset, TrainOptions)}, for the elements of an RDD: rows, byte arrays, text, numbers,
   * pairs of them.
   */
  public <T> TrainResult train(JavaRDD<T> data, TrainOptions options) {
    return train(data, Encoders.<T>ofObjects(), options);
  }

  /** Feeds the elements of pairs as the columns "_1" and "_2". */
  public <K, V> TrainResult train(JavaPairRDD<K, V> data, TrainOptions options) {
    return train(data.map(pair -> pair), options);
  }

  /**
   * As {@link #train(Dataset, TrainOptions)}, for the elements of PySpark's RDDs: each is pickled by itself, in a row
   * of its own.
   */
  public TrainResult trainPickled(JavaRDD<byte[]> data, TrainOptions options) {
    return train(data, Encoders.ofPickles(), options);
  }

  /**
   * Feeds every batch of a stream as it comes; returns at once. A batch that cannot be fed is the stream's
   * error, unless {@link #programsHaveEnded}: then it goes nowhere. The shutdown that takes the streaming context
   * waits for the end of the stream.
   */
  public <T> void train(JavaDStream<T> stream, TrainOptions options) {
    checkFeed(options.queue(), "train");
    stream.foreachRDD(
        rdd -> {
          try {
            train(rdd, options);
          } catch (MillraceException e) {
            if (e.code() != StatusCode.FAILED_PRECONDITION || !programsHaveEnded()) {
              throw e;
            }
            LOG.warn("cluster {}: a batch of a stream was not fed: {}", clusterId(), e.getMessage());
          }
        });
  }

  /**
   * What Structured Streaming is to do with each batch: feed it.
   *
   * <pre>{@code
   * stream.writeStream().foreachBatch(cluster.trainBatches(options)).start();
   * }</pre>
   */
  public VoidFunction2<Dataset<Row>, Long> trainBatches(TrainOptions options) {
    checkFeed(options.queue(), "trainBatches");
    return (batch, id) -> {
      try {
        train(batch, options);
      } catch (MillraceException e) {
        // stop() of the query interrupts its thread, and takes any other error for the query's.
        if (Interrupts.isCauseOf(e)) {
          Thread.interrupted();
          InterruptedException stopped = new InterruptedException(e.getMessage());
          stopped.initCause(e);
          throw stopped;
        }
        throw e;
      }
    };
  }

  private <T> TrainResult train(JavaRDD<T> data, EncoderFactory<T> encoders, TrainOptions options) {
    if (options.numEpochs() < 1) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT, "numEpochs is " + options.numEpochs() + ": must be at least 1");
    }
    checkFeed(options.queue(), "train");
    ReentrantLock lock = lockTraining(options.queue());
    try {
      if (endedQueues.contains(options.queue())) {
        throw new MillraceException(
            StatusCode.FAILED_PRECONDITION,
            "training on queue '" + options.queue() + "' has ended (endFeed, or endOfFeed of an earlier call), and "
                + "does not come back: run another cluster");
      }
      trainedQueues.add(options.queue());
      TrainResult result = trainOnce(data, encoders, options);
      if (options.endOfFeed()) {
        endFeed(options.queue());
      }
      return result;
    } finally {
      lock.unlock();
    }
  }

  private ReentrantLock lockTraining(String queue) {
    ReentrantLock lock;
    synchronized (trainLocks) {
      lock = trainLocks.computeIfAbsent(queue, name -> new ReentrantLock());
    }
    try {
      lock.lockInterruptibly();
      return lock;
    } catch (InterruptedException e) {
      throw Interrupts.cancelled("interrupted while another call trained on queue '" + queue + "'", e);
    }
  }

  private <T> TrainResult trainOnce(JavaRDD<T> all, EncoderFactory<T> encoders, TrainOptions options) {
    // A task that feeds costs more than one that reads: of many small ones that is the most.
    int most = Math.max(MAX_TASKS, TASKS_PER_CORE * run.spark().defaultParallelism());
    JavaRDD<T> data = all.getNumPartitions() > most ? all.coalesce(most) : all;
    int partitions = data.getNumPartitions();
    if (partitions == 0) {
      return new TrainResult(0, 0, true, false, Duration.ZERO);
    }
    JavaRDD<T> epochs = data;
    if (options.numEpochs() > 1) {
      List<JavaRDD<T>> again = new ArrayList<>(Collections.nCopies(options.numEpochs(), data));
      @SuppressWarnings({"unchecked", "rawtypes"})
      JavaRDD<T>[] each = again.toArray(new JavaRDD[0]);
      epochs = run.spark().union(each);
    }
    FeedPlan plan =
        run.trainPlan(
            "train-" + Text.randomHex(8),
            options.queue(),
            Durations.millis(options.feedTimeout()),
            partitions,
            SourceLevel.isDeterminate(data));
    String description =
        "Millrace cluster " + clusterId() + ": train, " + options.numEpochs()
            + (options.numEpochs() == 1 ? " epoch" : " epochs") + ", queue '" + options.queue() + "'";
    TrainRun<T> job =
        new TrainRun<>(
            run.spark(), run.coordinator(), plan, epochs, encoders, run.feedTag(), description, run.executors(),
            run::nodeNeeds);
    FeedSummary summary = job.run();
    if (job.terminated()) {
      terminated = true;
      run.coordinator().changes().raise();
    }
    return new TrainResult(
        summary.rowsAcked,
        summary.rowsRefed,
        summary.exactlyOnce && summary.equalComplete && !job.terminated(),
        job.terminated(),
        job.elapsed(),
        summary.equalRows.stream()
            .map(rows -> new TrainResult.NodeRows(rows.node, rows.dropped, rows.repeated))
            .collect(Collectors.toList()));
  }

  private void checkFeed(String queue, String what) {
    if (run.options().inputMode() != InputMode.FEED) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION, what + " needs InputMode.FEED; this cluster's nodes read their own data");
    }
    if (!run.queues().contains(queue)) {
      throw new MillraceException(
          StatusCode.NOT_FOUND, "no queue '" + queue + "'; the cluster has " + run.queues());
    }
    if (shut) {
      throw new MillraceException(StatusCode.FAILED_PRECONDITION, what + " after shutdown");
    }
    run.failIfClusterHas();
  }

  /**
   * Ends what nodes do with a queue: ShouldStop() turns true once what was fed is read. A program that has
   * trained may serve inference on it afterwards; training does not come back.
   */
  public void endFeed(String queue) {
    checkFeed(queue, "endFeed");
    endedQueues.add(queue);
    run.coordinator().call("end_feed", Params.of("queue", queue));
  }

  // ---------------------------------------------------------------------------------------- inference

  /** As {@link #inference(Dataset, StructType, InferenceOptions)}, on the queue "input". */
  public Dataset<Row> inference(Dataset<Row> data, StructType resultSchema) {
    return inference(data, resultSchema, InferenceOptions.defaults());
  }

  /**
   * The results of nodes for every row: one for each, in the order of the rows of a partition. Lazy: rows are
   * fed when an action asks for results, and again for each action.
   *
   * <p>An action fails with Spark's exception, whose cause is a {@link MillraceException}: FAILED_PRECONDITION
   * naming the rows if a program's results do not cover them exactly once, INVALID_ARGUMENT if they do not
   * have the columns of {@code resultSchema}, or what {@link #train} says.
   */
  public Dataset<Row> inference(Dataset<Row> data, StructType resultSchema, InferenceOptions options) {
    checkFeed(options.queue(), "inference");
    return inferenceFeeds.results(data, resultSchema, partitions -> inferencePlan(options, partitions));
  }

  /**
   * Results beside a part of their own rows, by a cluster that is not asked for before an action wants them. {@code
   * pairs} has two columns, both structs: of the columns that are fed, and of those that stay. The table that is
   * returned has the latter, and then those of {@code resultSchema}; otherwise as {@link #inference(Dataset,
   * StructType, InferenceOptions)}. What stays waits in the task, 64 MiB at most or twice {@code rowsAtOnce} rows.
   *
   * <pre>{@code
   * Dataset<Row> pairs = df.select(struct(col("image")).as("fed"), struct(col("id")).as("kept"));
   * MillraceCluster.inferenceBeside(() -> cluster, pairs, resultSchema, 64, InferenceOptions.defaults());
   * }</pre>
   *
   * @param cluster called on the driver, once if it does not throw; its owner is who gives it
   * @param rowsAtOnce how many rows the program asks for at once, at most
   * @throws MillraceException INVALID_ARGUMENT if a feed cannot carry a column
   */
  public static Dataset<Row> inferenceBeside(
      Supplier<MillraceCluster> cluster,
      Dataset<Row> pairs,
      StructType resultSchema,
      int rowsAtOnce,
      InferenceOptions options) {
    return InferenceFeeds.beside(
        pairs,
        resultSchema,
        rowsAtOnce,
        () -> {
          MillraceCluster found = cluster.get();
          found.checkFeed(options.queue(), "inference");
          return partitions -> found.inferencePlan(options, partitions);
        });
  }

  /** As {@link #inference(Dataset, StructType, InferenceOptions)}, for the elements of an RDD. */
  public <T> JavaRDD<Row> inference(JavaRDD<T> data, StructType resultSchema, InferenceOptions options) {
    checkFeed(options.queue(), "inference");
    return inferenceFeeds.results(data, resultSchema, partitions -> inferencePlan(options, partitions));
  }

  /**
   * As {@link #inference(Dataset, StructType, InferenceOptions)}, for the elements of PySpark's RDDs, and with results
   * that Python's nodes have pickled, each by itself.
   */
  public JavaRDD<byte[]> inferencePickled(JavaRDD<byte[]> data, InferenceOptions options) {
    checkFeed(options.queue(), "inference");
    return inferenceFeeds.pickledResults(data, partitions -> inferencePlan(options, partitions));
  }

  /** Before the first action on what {@link #inference} has returned. */
  private void checkServes() {
    if (shut) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE, "cluster " + clusterId() + " has ended; an action on inference's result needs it");
    }
    run.failIfClusterHas();
  }

  private FeedPlan inferencePlan(InferenceOptions options, int partitions) {
    String queue = options.queue();
    if (trainedQueues.contains(queue) && !endedQueues.contains(queue) && !terminated) {
      LOG.warn(
          "cluster {}: inference on queue '{}', whose training has not ended: its rows wait for endFeed(\"{}\") or a "
              + "train call with endOfFeed, at most {} s (feed_timeout)",
          clusterId(),
          queue,
          queue,
          Durations.millis(options.feedTimeout()) / 1000.0);
    }
    String feed = inferenceFeeds.open(options.queue(), partitions);
    return run.inferencePlan(feed, queue, Durations.millis(options.feedTimeout()), partitions);
  }

  // ----------------------------------------------------------------------------------------- shutdown

  /** Ends the cluster; waits for the programs as long as {@link ShutdownOptions#defaults} says. */
  public void shutdown() {
    shutdown(ShutdownOptions.defaults());
  }

  /**
   * Ends all queues, waits for chief, master and workers, then stops ps and evaluator. Idempotent: later calls
   * end as the first one did.
   *
   * @throws MillraceException the first failure of any node, however late; DEADLINE_EXCEEDED naming the
   *     workers that had to be stopped as grace or timeout was over, and the nodes that had to be killed
   */
  public synchronized void shutdown(ShutdownOptions options) {
    if (!shut) {
      shut = true;
      try {
        run.shutdown(Durations.millis(options.grace()), Durations.millis(options.timeout()));
      } catch (MillraceException e) {
        shutError = e;
      }
    }
    if (shutError != null) {
      throw shutError;
    }
  }

  /**
   * As {@link #shutdown(ShutdownOptions)}, after the end of a stream: waits until somebody stops it, or the
   * programs read no more or have ended, or the cluster has failed; then it stops the stream, gracefully, and not
   * the SparkContext.
   */
  // Named in full: to Java 8 the import of a deprecated class is a warning that cannot be suppressed.
  @SuppressWarnings("deprecation")
  public void shutdown(
      org.apache.spark.streaming.api.java.JavaStreamingContext stream, ShutdownOptions options) {
    try {
      StreamEnd end = new StreamEnd(run.coordinator().changes(), stream::awaitTermination);
      if (!end.awaitUnless(() -> terminated || readsNoMore() || failure() != null)) {
        stream.stop(false, failure() == null);
      }
    } catch (InterruptedException e) {
      throw Interrupts.cancelled("interrupted while the stream went on", e);
    } catch (RuntimeException e) {
      stream.stop(false, false);
      if (failure() == null) {
        throw e;
      }
    } catch (Exception e) { // Spark's are checked ones, undeclared
      stream.stop(false, false);
      if (failure() == null) {
        throw new MillraceException(
            StatusCode.ABORTED, "the stream failed: " + e.getMessage(), "", "", new ArrayList<>(), e);
      }
    }
    shutdown(options);
  }

  private boolean readsNoMore() {
    return inputMode() == InputMode.FEED && programsHaveEnded();
  }

  /** Ends everything at once, without waiting for programs; nothing after {@link #shutdown}. */
  @Override
  public void close() {
    shut = true;
    run.close();
  }

  // -------------------------------------------------------------------------------------- attributes

  public String clusterId() {
    return run.coordinator().clusterId();
  }

  /** Every node as it is now. */
  public List<NodeInfo> clusterInfo() {
    List<NodeInfo> nodes = new ArrayList<>();
    for (Slot slot : run.coordinator().status()) {
      nodes.add(slot.info());
    }
    return nodes;
  }

  /**
   * The addresses of every job, by task index, as TensorFlow's ClusterSpec has them: {"chief": ["h1:40213"],
   * "worker": ["h2:39114"]}.
   */
  public Map<String, List<String>> clusterSpec() {
    Map<String, List<String>> spec = new TreeMap<>();
    try {
      JsonObject jobs = run.coordinator().call("cluster_spec", new Params()).object("cluster_spec");
      for (String job : jobs.members().keySet()) {
        List<String> addresses = new ArrayList<>();
        for (Object address : jobs.list(job)) {
          addresses.add((String) address);
        }
        spec.put(job, addresses);
      }
      return spec;
    } catch (BadInputException e) {
      throw new MillraceException(StatusCode.INTERNAL, "the cluster's spec makes no sense: " + e.getMessage());
    }
  }

  /** Why the cluster has failed; null while it has not. */
  public MillraceException failure() {
    return run.coordinator().firstCause();
  }

  /**
   * Whether every chief, master and worker has ended by itself, without an error. In InputMode FEED nobody reads rows
   * any more then.
   */
  public boolean programsHaveEnded() {
    return run.coordinator().workersHaveFinished();
  }

  public ClusterOptions options() {
    return run.options();
  }

  /** The default file system of nodes. */
  public String defaultFs() {
    return run.defaultFs();
  }

  /** Where nodes run; "" stands for each executor's own folder. */
  public String workingDir() {
    String folder = run.options().node().workingDir();
    return folder == null ? "" : folder;
  }

  public InputMode inputMode() {
    return run.options().inputMode();
  }

  public int numExecutors() {
    return run.options().numExecutors();
  }

  public List<String> queues() {
    return run.queues();
  }

  /** The RDD whose tasks hold the nodes. */
  public JavaRDD<String> nodeRdd() {
    return run.nodeRdd();
  }

  public JavaSparkContext sparkContext() {
    return run.spark();
  }

  /** "host:port" of the coordinator on the driver. */
  public String serverAddress() {
    return run.coordinator().address().address();
  }

  /** Where TensorBoard is; "" until it takes connections, or where there is none. */
  public String tensorboardUrl() {
    for (NodeInfo node : clusterInfo()) {
      JsonObject reply = run.coordinator().call("endpoints", Params.of("executor_id", node.executorId()));
      try {
        String url = reply.object("endpoints").stringOrEmpty("tensorboard");
        if (!url.isEmpty()) {
          return url;
        }
      } catch (BadInputException e) {
        throw new MillraceException(StatusCode.INTERNAL, "endpoints make no sense: " + e.getMessage());
      }
    }
    return "";
  }
}
