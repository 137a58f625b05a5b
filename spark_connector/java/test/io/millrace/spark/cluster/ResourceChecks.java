package io.millrace.spark.cluster;

import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.ShutdownOptions;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainOptions;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.streaming.Milliseconds;
import org.apache.spark.streaming.api.java.JavaDStream;

/**
 * GPUs that Spark gives, dynamic allocation, speculation, and streams; two executors of one core and one GPU
 * each.
 */
public final class ResourceChecks extends Checks {
  private ResourceChecks(String[] args) {
    super(args);
  }

  /** Runs the checks. */
  public static void main(String[] args) {
    ResourceChecks checks = new ResourceChecks(args);
    checks.check("gpusOfSpark", checks::gpusOfSpark);
    checks.check("dynamicAllocation", checks::dynamicAllocation);
    checks.check("dstream", checks::dstream);
    checks.check("foreachBatch", checks::foreachBatch);
    checks.end();
  }

  private void gpusOfSpark() throws Exception {
    Path out = Files.createDirectory(Paths.get(folder, "gpus"));
    run(feed(2).inputMode(InputMode.DIRECT), "describe", out.toString()).shutdown();
    Set<String> gpus = new HashSet<>();
    for (String node : new String[] {"worker-0", "worker-1"}) {
      String text = new String(Files.readAllBytes(out.resolve(node)), StandardCharsets.UTF_8);
      gpus.add(text.replaceAll("(?s).*gpus=(\\S*).*", "$1"));
    }
    requireEqual(2, gpus.size());
    requireContains(gpus.toString(), "GPU-0-");
    requireContains(gpus.toString(), "GPU-1-");
  }

  /** Two executors stay; a third node's might be taken away. */
  private void dynamicAllocation() {
    MillraceException e = requireError(StatusCode.FAILED_PRECONDITION, () -> run(feed(3), "sum"));
    requireContains(e.getMessage(), "spark.dynamicAllocation.minExecutors");
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

  private void foreachBatch() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    spark.conf().set("spark.sql.shuffle.partitions", "2");
    Path in = Files.createDirectory(Paths.get(folder, "stream"));
    numbers(50, 2).write().mode("append").parquet(in.toString());
    Dataset<Row> stream = spark.readStream().schema("x bigint").parquet(in.toString());
    StreamingQuery query =
        stream
            .writeStream()
            .foreachBatch(cluster.trainBatches(TrainOptions.defaults()))
            .option("checkpointLocation", Paths.get(folder, "checkpoint").toString())
            .start();
    query.processAllAvailable();
    query.stop();
    cluster.endFeed("input");
    long sum = 0;
    Set<Long> ranks = new HashSet<>();
    for (Row row : cluster.inference(numbers(20, 4), RESULT).collectAsList()) {
      sum += ranks.add(row.getLong(2)) ? row.getLong(1) : 0;
    }
    requireEqual(50L * 49 / 2, sum);
    cluster.shutdown();
  }
}
