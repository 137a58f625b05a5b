package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeState;
import io.millrace.spark.ShutdownOptions;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.internal.base.Eventually;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.streaming.Milliseconds;
import org.apache.spark.streaming.api.java.JavaDStream;

/**
 * GPUs that Spark gives, dynamic allocation, and streams; two or three executors of one core and one GPU
 * each.
 */
final class ResourceChecks extends Checks {
  ResourceChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("gpusOfSpark", this::gpusOfSpark);
    check("gpusOfSparkCut", this::gpusOfSparkCut);
    check("dynamicAllocation", this::dynamicAllocation);
    check("scaledDown", this::scaledDown);
    check("dstream", this::dstream);
    check("dstreamReadToItsEnd", () -> dstreamReadToItsEnd(sc.emptyRDD()));
    check("dstreamAfterItsReader", () -> dstreamReadToItsEnd(sc.parallelize(new ArrayList<Long>(), 1)));
    check("foreachBatch", this::foreachBatch);
  }

  /** CUDA_VISIBLE_DEVICES of the workers of a cluster. */
  private Set<String> gpusOf(String name, ClusterOptions.Builder options) throws Exception {
    Path out = Files.createDirectory(Paths.get(folder, name));
    run(options.inputMode(InputMode.DIRECT), "describe", out.toString()).shutdown();
    Set<String> gpus = new HashSet<>();
    for (String node : new String[] {"worker-0", "worker-1"}) {
      String text = new String(Files.readAllBytes(out.resolve(node)), StandardCharsets.UTF_8);
      gpus.add(text.replaceAll("(?s).*gpus=(\\S*).*", "$1"));
    }
    return gpus;
  }

  /** Indices, UUIDs or MIG ids, as the workers were given them. */
  private void gpusOfSpark() throws Exception {
    Set<String> gpus = gpusOf("gpus", feed(2));
    requireEqual(2, gpus.size());
    for (String gpu : gpus) {
      require(gpu.matches("(GPU-[012]|MIG-0)-\\S*") && !gpu.contains(","), gpus.toString());
    }
    System.out.println("INFO GPUs of Spark: " + gpus);
  }

  /** What a node asks for is what it gets of Spark's, or an error before anything starts. */
  private void gpusOfSparkCut() throws Exception {
    requireEqual(2, gpusOf("gpus cut", feed(2).node(gpusPerNode(1))).size());
    MillraceException e = requireError(StatusCode.FAILED_PRECONDITION, () -> run(feed(2).node(gpusPerNode(2)), "sum"));
    requireContains(e.getMessage(), "spark.task.resource.gpu.amount");
  }

  /** Two executors stay; a third node's might be taken away. */
  private void dynamicAllocation() {
    MillraceException e = requireError(StatusCode.FAILED_PRECONDITION, () -> run(feed(3), "sum"));
    requireContains(e.getMessage(), "spark.dynamicAllocation.minExecutors");
  }

  private int executors() {
    return sc.sc().statusTracker().getExecutorInfos().length - 1; // without the driver
  }

  /** Spark takes the executor that has no node when it is idle; the others stay, though idle too. */
  private void scaledDown() throws Exception {
    String tasks = Files.createTempDirectory(Paths.get(folder), "tasks").toString();
    sc.parallelize(Arrays.asList(1, 2, 3), 3).foreach(i -> meet(tasks, 3));
    Eventually.await("three executors", () -> executors() == 3);
    // Of nodes that have ended nothing keeps an executor.
    for (int i = 0; i < 10; i++) {
      run(feed(2).inputMode(InputMode.DIRECT), "describe", folder).shutdown();
    }
    MillraceCluster cluster = run(feed(2), "sum");
    Eventually.await("two executors", () -> executors() == 2);
    Thread.sleep(3_000); // longer than any executor may be idle
    requireEqual(2, executors());
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    for (NodeInfo node : cluster.clusterInfo()) {
      requireEqual(NodeState.RUNNING, node.state());
      requireEqual(0, node.attempt());
    }
    cluster.shutdown();
  }

  // Spark has no other way to make a stream from batches than what it has deprecated.
  @SuppressWarnings("deprecation")
  private void dstream() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    org.apache.spark.streaming.api.java.JavaStreamingContext streaming =
        new org.apache.spark.streaming.api.java.JavaStreamingContext(sc, Milliseconds.apply(500));
    Queue<JavaRDD<Long>> batches = new LinkedList<>();
    for (int i = 0; i < 3; i++) {
      batches.add(sc.parallelize(Arrays.asList(1L, 2L, 3L, 4L), 2));
    }
    JavaDStream<Long> stream = streaming.queueStream(batches, true);
    cluster.train(stream, TrainOptions.defaults());
    CountDownLatch fed = new CountDownLatch(batches.size());
    stream.foreachRDD(rdd -> fed.countDown()); // after train, batch by batch
    Thread stopper =
        new Thread(
            () -> {
              try {
                fed.await();
              } catch (InterruptedException e) {
                throw new AssertionError(e);
              } finally {
                streaming.stop(false, true);
              }
            });
    streaming.start();
    stopper.start();
    cluster.shutdown(streaming, ShutdownOptions.defaults());
    stopper.join();
    require(!sc.sc().isStopped(), "the SparkContext was stopped");
  }

  /** The program ends when it has used every row, so that no row is left that tells of its end. */
  @SuppressWarnings("deprecation")
  private void dstreamReadToItsEnd(JavaRDD<Long> laterBatch) throws Exception {
    MillraceCluster cluster = run(feed(1), "stop_reading_at", "4");
    org.apache.spark.streaming.api.java.JavaStreamingContext streaming =
        new org.apache.spark.streaming.api.java.JavaStreamingContext(sc, Milliseconds.apply(500));
    Queue<JavaRDD<Long>> batches = new LinkedList<>();
    batches.add(sc.parallelize(Arrays.asList(1L, 2L, 3L, 4L), 1));
    cluster.train(streaming.queueStream(batches, true, laterBatch), TrainOptions.defaults());
    streaming.start();
    CountDownLatch over = new CountDownLatch(1);
    AtomicBoolean late = new AtomicBoolean();
    Thread watch =
        new Thread(
            () -> {
              try {
                late.set(!over.await(120, TimeUnit.SECONDS));
              } catch (InterruptedException e) {
                throw new AssertionError(e);
              } finally {
                streaming.stop(false, false);
              }
            });
    watch.start();
    cluster.shutdown(streaming, ShutdownOptions.defaults());
    over.countDown();
    watch.join();
    require(!late.get(), "the stream went on after the program's end");
  }

  private void foreachBatch() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    spark.conf().set("spark.sql.shuffle.partitions", "2");
    // Not by option(), whose result is another type in Spark 4.
    spark.conf().set("spark.sql.streaming.checkpointLocation", Paths.get(folder, "checkpoint").toString());
    Path in = Files.createDirectory(Paths.get(folder, "stream"));
    numbers(50, 2).write().mode("append").parquet(in.toString());
    Dataset<Row> stream = spark.readStream().schema("x bigint").parquet(in.toString());
    StreamingQuery query =
        stream
            .writeStream()
            .foreachBatch(cluster.trainBatches(TrainOptions.defaults()))
            .start();
    query.processAllAvailable();
    query.stop();
    cluster.endFeed("input");
    requireEqual(50L * 49 / 2, sumOfNodes(cluster, 2));
    cluster.shutdown();
  }
}
