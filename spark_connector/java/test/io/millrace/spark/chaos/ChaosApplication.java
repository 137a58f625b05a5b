package io.millrace.spark.chaos;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.FailureOptions;
import io.millrace.spark.InferenceOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.QuarantinePolicy;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.ShutdownOptions;
import io.millrace.spark.TrainOptions;
import io.millrace.spark.TrainResult;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The driver of a cluster under faults (//testing/chaos): does what it reads, a command a line with tabs between its
 * words, and says what came of it, a line that begins with "chaos ok" or "chaos error CODE".
 *
 * <pre>
 * run NODES HEALS LOG_DIR PROGRAM RECORD NAME=VALUE...   starts the cluster
 * train FIRST ROWS PARTITIONS LAST                       ok ROWS FED_AGAIN EXACTLY_ONCE
 * infer ROWS PARTITIONS                                  ok RESULTS RIGHT
 * heaps                                                  ok driver=BYTES 0=BYTES ...
 * shutdown MILLISECONDS
 * end                                                    no reply
 * </pre>
 */
public final class ChaosApplication {
  private static final StructType DOUBLED = new StructType().add("doubled", "bigint", false);
  /** Nothing waits so long unless it is broken. */
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  private final SparkSession spark;
  private final JavaSparkContext sc;
  private MillraceCluster cluster;

  private ChaosApplication(SparkSession spark) {
    this.spark = spark;
    this.sc = JavaSparkContext.fromSparkContext(spark.sparkContext());
  }

  /** Argument: the file of the commands. */
  public static void main(String[] args) throws IOException {
    SparkSession spark = SparkSession.builder().appName("chaos").getOrCreate();
    try (BufferedReader commands =
        new BufferedReader(new InputStreamReader(new FileInputStream(args[0]), StandardCharsets.UTF_8))) {
      String pid = Paths.get("/proc/self").toRealPath().getFileName().toString();
      new ChaosApplication(spark).obey(commands, pid);
    } finally {
      spark.stop();
    }
  }

  private void obey(BufferedReader commands, String pid) throws IOException {
    warmUp();
    say("ready " + pid);
    for (String line = commands.readLine(); line != null && !line.equals("end"); line = commands.readLine()) {
      try {
        say("ok " + answer(line.split("\t")));
      } catch (Exception e) {
        e.printStackTrace();
        say("error " + error(e));
      }
    }
    if (cluster != null) {
      cluster.close();
    }
  }

  /** Every executor is there and has loaded Spark's classes, which takes it longer than a cluster's start. */
  private void warmUp() {
    int cores = sc.getConf().getInt("spark.cores.max", 1);
    while (sc.sc().statusTracker().getExecutorInfos().length <= cores) { // the driver is one of them
      sc.parallelize(Arrays.asList(1, 2, 3, 4), 4).count();
    }
    rows(0, 1000, 4 * cores).collectAsList();
  }

  private static void say(String what) {
    System.out.println("chaos " + what);
    System.out.flush();
  }

  /** An action's error has Millrace's for a cause. */
  private static String error(Exception e) {
    for (Throwable at = e; at != null; at = at.getCause()) {
      if (at instanceof MillraceException) {
        return ((MillraceException) at).code() + " " + at.getMessage().split("\n")[0];
      }
    }
    return "UNKNOWN " + e.toString().replace('\n', ' ');
  }

  private String answer(String[] words) {
    switch (words[0]) {
      case "run":
        return run(words);
      case "train":
        return train(number(words[1]), number(words[2]), (int) number(words[3]), words[4].equals("1"));
      case "infer":
        return infer(number(words[1]), (int) number(words[2]));
      case "heaps":
        return heaps();
      case "shutdown":
        cluster.shutdown(ShutdownOptions.builder().timeout(Duration.ofMillis(number(words[1]))).build());
        return "";
      default:
        throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  private static long number(String word) {
    return Long.parseLong(word);
  }

  private String run(String[] words) {
    NodeProgram program = NodeProgram.path(words[4], "--pause_ms=5", "--record=" + words[5]);
    for (String variable : Arrays.asList(words).subList(6, words.length)) {
      program = program.env(variable.split("=", 2)[0], variable.split("=", 2)[1]);
    }
    FailureOptions.Builder failure =
        FailureOptions.builder()
            .stopTimeout(Duration.ofSeconds(3))
            .quarantine(QuarantinePolicy.builder().failures(1_000_000).build());
    if (words[2].equals("1")) {
      failure.restart(
          RestartPolicy.builder()
              .maxRestarts(1_000_000)
              .initialBackoff(Duration.ofMillis(20))
              .maxBackoff(Duration.ofMillis(200))
              .build());
    }
    cluster =
        MillraceCluster.run(
            sc,
            program,
            ClusterOptions.builder()
                .numExecutors((int) number(words[1]))
                .inputMode(InputMode.FEED)
                .logDir(words[3])
                .reservationTimeout(PATIENCE)
                .failure(failure.build())
                .build());
    return cluster.clusterId();
  }

  private Dataset<Row> rows(long first, long count, int partitions) {
    return spark.range(first, first + count, 1, partitions).toDF("id");
  }

  private String train(long first, long count, int partitions, boolean last) {
    TrainOptions options = TrainOptions.builder().feedTimeout(PATIENCE).endOfFeed(last).build();
    TrainResult result = cluster.train(rows(first, count, partitions), options);
    return result.rows() + " " + result.rowsRefed() + " " + (result.exactlyOnce() ? 1 : 0);
  }

  private String infer(long count, int partitions) {
    InferenceOptions options = InferenceOptions.builder().feedTimeout(PATIENCE).build();
    long results = 0;
    boolean right = true;
    for (Iterator<Row> rows =
            cluster.inference(rows(0, count, partitions), DOUBLED, options).collectAsList().iterator();
        rows.hasNext();
        results++) {
      right &= rows.next().getLong(0) == 2 * results;
    }
    return results + " " + (right ? 1 : 0);
  }

  /** What lives, without garbage. */
  private String heaps() {
    int executors = cluster.options().numExecutors();
    Map<String, Long> heaps = new TreeMap<>();
    heaps.put("driver", liveBytes());
    for (Tuple2<String, Long> heap :
        sc.parallelize(Arrays.asList(new Integer[executors]), executors)
            .map(i -> new Tuple2<>(SparkEnv.get().executorId(), liveBytes()))
            .collect()) {
      heaps.put(heap._1(), heap._2());
    }
    StringBuilder text = new StringBuilder();
    heaps.forEach((who, bytes) -> text.append(text.length() == 0 ? "" : " ").append(who).append('=').append(bytes));
    return text.toString();
  }

  private static long liveBytes() {
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }
}
