package io.millrace.spark.cluster;

import io.millrace.spark.FeedOptions;
import io.millrace.spark.InferenceOptions;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/** Rows of every kind and size, two executors of one core each. */
final class DataChecks extends Checks {
  private static final int BIG = 100 << 20;

  DataChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("bigRows", this::bigRows);
    check("hugePartition", () -> hugePartition(false));
    check("hugePartitionShared", () -> hugePartition(true));
    check("nullsAndNesting", this::nullsAndNesting);
    check("actionsAtOnce", this::actionsAtOnce);
    check("unorderedSource", this::unorderedSource);
    check("lazyInference", this::lazyInference);
  }

  /** Rows of 100 MB, of which a node may hold a quarter at most. */
  private void bigRows() {
    MillraceCluster cluster = run(feed(1).feed(budget(25 << 20)), "measure");
    JavaRDD<Row> rows =
        sc.parallelize(Arrays.asList(1, 2), 2)
            .map(
                i -> {
                  byte[] data = new byte[BIG + i];
                  Arrays.fill(data, BIG, data.length, (byte) 3);
                  return RowFactory.create(data);
                });
    Dataset<Row> big = spark.createDataFrame(rows, new StructType().add("data", "binary", false));
    requireEqual(2L, cluster.train(big).rows());
    cluster.endFeed("input");
    List<Row> measured = cluster.inference(big, RESULT).collectAsList();
    for (int i = 1; i <= 2; i++) {
      requireEqual(RowFactory.create((long) BIG + i, 3L * i, 2L * BIG + 3), measured.get(i - 1));
    }
    cluster.shutdown();
  }

  /** One partition of 100 MB, far more than a node may hold, and another with a row; through shared memory too. */
  private void hugePartition(boolean shared) {
    FeedOptions little = FeedOptions.builder().budgetBytes(4 << 20).sharedMemory(shared).build();
    MillraceCluster cluster = run(feed(2).feed(little), "sum");
    long count = 400_000;
    Dataset<Row> skewed =
        numbers(count, 1).union(numbers(1, 1)).selectExpr("x", "array_repeat(CAST(x AS FLOAT), 64) AS image");
    TrainResult result = cluster.train(skewed);
    requireEqual(count + 1, result.rows());
    require(result.exactlyOnce(), result.toString());
    long sharing = sc.parallelize(Arrays.asList(1, 2, 3, 4), 4).filter(i -> mapsMemoryOfNode()).count();
    requireEqual(shared, sharing > 0);
    cluster.endFeed("input");
    Row sums = cluster.inference(skewed, RESULT).selectExpr("count(*)", "sum(y % 1000)").first();
    Row wanted = skewed.selectExpr("count(*)", "sum(x * x % 1000)").first();
    requireEqual(wanted, sums);
    cluster.shutdown();
  }

  private static boolean mapsMemoryOfNode() throws IOException {
    for (String line : Files.readAllLines(Paths.get("/proc/self/maps"))) {
      if (line.contains("memfd:millrace-feed")) {
        return true;
      }
    }
    return false;
  }

  /** Every type that a feed carries comes back as it went, in DataFrames and in RDDs. */
  private void nullsAndNesting() {
    MillraceCluster cluster = run(feed(2), "echo");
    Dataset<Row> all =
        spark
            .range(0, 41, 1, 3)
            .selectExpr(
                "id",
                "IF(id % 3 = 0, NULL, CAST(id AS TINYINT)) AS i8",
                "IF(id % 4 = 0, NULL, CAST(id AS SMALLINT)) AS i16",
                "IF(id % 5 = 0, NULL, CAST(id AS INT)) AS i32",
                "IF(id % 2 = 0, NULL, id % 3 = 0) AS flag",
                "IF(id % 7 = 0, NULL, CAST(id / 3 AS FLOAT)) AS f32",
                "IF(id % 3 = 1, NULL, id / 7) AS f64",
                "IF(id % 4 = 1, NULL, concat('zäh ', repeat('✓', CAST(id % 5 AS INT)))) AS text",
                "IF(id % 4 = 2, NULL, CAST(repeat('\\u0001', CAST(id % 6 AS INT)) AS BINARY)) AS bytes",
                "IF(id % 5 = 1, NULL, date_add(DATE'1969-12-20', CAST(id AS INT))) AS day",
                "IF(id % 5 = 2, NULL, timestamp_micros(id * 1000001 - 7000000)) AS moment",
                "CAST(NULL AS STRING) AS never",
                "IF(id % 3 = 2, NULL, array(id, NULL, id + 1)) AS list",
                "IF(id % 4 = 3, NULL, array(array(CAST(id AS FLOAT)), NULL, array())) AS lists",
                "IF(id % 2 = 1, NULL, named_struct('a', id, 'b', IF(id % 4 = 0, NULL, 'b'),"
                    + " 'c', named_struct('d', array(CAST(NULL AS INT), 1)))) AS nested",
                "array(named_struct('k', id, 'v', IF(id % 3 = 0, NULL, 'v')), NULL) AS entries");
    requireEqual(all.collectAsList(), cluster.inference(all, all.schema()).collectAsList());
    requireEqual(
        all.collectAsList(),
        cluster.inference(all.toJavaRDD(), all.schema(), InferenceOptions.defaults()).collect());
    cluster.shutdown();
  }

  /** Several actions, one after the other and at once, on what one call has returned. */
  private void actionsAtOnce() throws Exception {
    MillraceCluster cluster = run(feed(2), "square");
    Dataset<Row> out = cluster.inference(numbers(500, 5), RESULT);
    ExecutorService threads = Executors.newFixedThreadPool(3);
    try {
      List<Future<List<Row>>> actions = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        actions.add(threads.submit(() -> out.select("y").collectAsList()));
      }
      for (Future<List<Row>> action : actions) {
        requireSquares(action.get(), 500);
      }
    } finally {
      threads.shutdownNow();
    }
    requireEqual(1000L, out.union(out).count());
    requireSquares(out.select("y").collectAsList(), 500);
    cluster.shutdown();
  }

  private static void requireSquares(List<Row> rows, int count) {
    requireEqual(count, rows.size());
    for (int i = 0; i < count; i++) {
      requireEqual((long) i * i, rows.get(i).getLong(0));
    }
  }

  /** A shuffle's order is another one each time: whatever the epoch, every row comes once. */
  private void unorderedSource() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    TrainResult result =
        cluster.train(numbers(1000, 4).repartition(6), TrainOptions.builder().numEpochs(2).endOfFeed(true).build());
    requireEqual(2000L, result.rows());
    require(result.exactlyOnce(), result.toString());
    requireEqual(2L * 1000 * 999 / 2, sumOfNodes(cluster, 2));
    cluster.shutdown();
  }

  /**
   * The call runs nothing, whatever has to run before the number of partitions is known: shuffles, the sample of a
   * sort, a broadcast, a cache. What an action runs later is there for the next one.
   */
  private void lazyInference() throws Exception {
    AtomicInteger jobs = new AtomicInteger();
    SparkListener counter =
        new SparkListener() {
          @Override
          public void onJobStart(SparkListenerJobStart job) {
            jobs.incrementAndGet();
          }
        };
    MillraceCluster cluster = run(feed(2), "square");
    Dataset<Row> numbers = numbers(500, 4);
    Map<String, Dataset<Row>> frames = new LinkedHashMap<>();
    frames.put("shuffled", numbers.repartition(3, numbers.col("x")));
    frames.put("sorted", numbers.selectExpr("499 - x AS x").orderBy("x"));
    frames.put("grouped", numbers.groupBy("x").count().selectExpr("x", "count"));
    frames.put("joined", numbers.join(functions.broadcast(numbers(500, 2).toDF("z")), functions.expr("x = z")));
    frames.put("cached", numbers.repartition(5).cache());
    sc.sc().addSparkListener(counter);
    for (Map.Entry<String, Dataset<Row>> frame : frames.entrySet()) {
      int before = jobsSoFar(jobs);
      Dataset<Row> out = cluster.inference(frame.getValue(), RESULT);
      out.queryExecution().executedPlan();
      requireEqual(frame.getKey() + " " + before, frame.getKey() + " " + (jobsSoFar(jobs) - 1));
      for (int action = 0; action < 2; action++) {
        before = jobsSoFar(jobs);
        List<Row> rows = new ArrayList<>(out.select("y").collectAsList());
        if (!frame.getKey().equals("sorted")) {
          rows.sort(Comparator.comparingLong(row -> row.getLong(0)));
        }
        requireSquares(rows, 500);
      }
      requireEqual(frame.getKey() + " " + (before + 1), frame.getKey() + " " + (jobsSoFar(jobs) - 1));
    }
    sc.sc().removeSparkListener(counter);
    cluster.shutdown();
    MillraceException e =
        requireActionError(
            StatusCode.UNAVAILABLE,
            () -> {
              MillraceCluster other = run(feed(1), "square");
              Dataset<Row> late = other.inference(numbers, RESULT);
              other.shutdown();
              late.count();
            });
    requireContains(e.getMessage(), "has ended");
  }

  /** How many jobs have started, one of this call included: listeners hear of them later, in their order. */
  private int jobsSoFar(AtomicInteger jobs) throws Exception {
    String group = "marker-" + System.nanoTime();
    AtomicInteger heard = new AtomicInteger(-1);
    SparkListener marker =
        new SparkListener() {
          @Override
          public void onJobStart(SparkListenerJobStart job) {
            if (group.equals(job.properties().get("spark.jobGroup.id"))) {
              heard.set(jobs.get());
            }
          }
        };
    sc.sc().addSparkListener(marker); // after the one that counts, and told after it
    sc.setJobGroup(group, "marker", false);
    sc.parallelize(Arrays.asList(1), 1).count();
    sc.clearJobGroup();
    Eventually.await("the marker", () -> heard.get() >= 0);
    sc.sc().removeSparkListener(marker);
    return heard.get();
  }
}
