package io.millrace.spark.internal.spark;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.StatusCode;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What can be known to go wrong before anything is started. */
final class OptionChecks {
  private static final Logger LOG = LoggerFactory.getLogger(OptionChecks.class);

  private OptionChecks() {}

  static void check(JavaSparkContext spark, NodeProgram program, ClusterOptions options) {
    if (spark.sc().isStopped()) {
      throw new MillraceException(StatusCode.FAILED_PRECONDITION, "the SparkContext is stopped");
    }
    positive("numExecutors", options.numExecutors());
    positive("reservationTimeout", options.reservationTimeout());
    positive("failure.stopGrace", options.failure().stopGrace());
    positive("failure.stopTimeout", options.failure().stopTimeout());
    NodeOptions node = options.node();
    int mostGpus = orZero(node.gpusPerNode());
    if (options.numPs() < 0 || mostGpus < 0 || options.nodesPerExecutor() < 0) {
      throw bad("numPs, node.gpusPerNode and nodesPerExecutor must not be negative");
    }
    if (!options.masterNode().isEmpty()
        && !options.masterNode().equals("chief")
        && !options.masterNode().equals("master")) {
      throw bad("masterNode is \"" + options.masterNode() + "\": must be \"chief\", \"master\" or \"\"");
    }
    int others = options.numPs() + (options.masterNode().isEmpty() ? 0 : 1) + (options.evalNode() ? 1 : 0);
    if (others > options.numExecutors()) {
      throw bad(
          options.numPs() + " ps, master and evaluator are " + others + " nodes, more than numExecutors "
              + options.numExecutors());
    }
    List<String> queues = options.feed().queues();
    if (queues != null && queues.isEmpty() && options.inputMode() == InputMode.FEED) {
      throw bad("feed.queues is empty: without a queue nothing can be fed");
    }
    if (program.isShipped()) {
      checkFile(program.program());
    }
    if (node.gpusByJob() != null) {
      for (int gpus : node.gpusByJob().values()) {
        mostGpus = Math.max(mostGpus, gpus);
      }
    }
    checkGpus(spark.getConf(), mostGpus);
    int ofSpark = options.numExecutors() - (options.driverPsNodes() ? options.numPs() : 0);
    Capacity capacity = Capacity.of(spark.getConf());
    capacity.check(ofSpark, options.nodesPerExecutor());
    checkAllocation(
        spark.getConf(), ofSpark, capacity.nodesPerExecutor(ofSpark, options.nodesPerExecutor()));
    warnOfPlainTasks(spark);
  }

  /** What a number is that was not set, where C++ has 0 for it. */
  static int orZero(Integer value) {
    return value == null ? 0 : value;
  }

  private static void positive(String name, long value) {
    if (value < 1) {
      throw bad(name + " is " + value + ": must be at least 1");
    }
  }

  private static void positive(String name, Duration value) {
    if (value != null && (value.isNegative() || value.isZero())) {
      throw bad(name + " is " + value + ": must be above 0");
    }
  }

  private static MillraceException bad(String message) {
    return new MillraceException(StatusCode.INVALID_ARGUMENT, message);
  }

  private static void checkFile(String program) {
    try {
      if (Files.isRegularFile(Paths.get(program))) {
        return;
      }
    } catch (InvalidPathException e) {
      throw bad(
          "the node program " + program + " cannot be named by this JVM, whose locale has the charset "
              + System.getProperty("sun.jnu.encoding") + ": run the driver with LC_ALL=C.UTF-8");
    }
    throw new MillraceException(
        StatusCode.NOT_FOUND,
        "the node program " + program + " is no file of the driver's host; NodeProgram.path names one that is on "
            + "every executor's");
  }

  /**
   * GPUs that Spark gives come before those that a node claims on its host. A pod may see GPUs of its host that
   * are not its own: there only Spark's count.
   */
  static void checkGpus(SparkConf conf, int gpusPerNode) {
    if (gpusPerNode == 0) {
      return;
    }
    double ofSpark = conf.getDouble("spark.task.resource.gpu.amount", 0);
    if (ofSpark == 0 && conf.get("spark.master", "").startsWith("k8s://")) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          "node.gpusPerNode is " + gpusPerNode + ", and pods have only the GPUs that Spark asks for: set "
              + "spark.executor.resource.gpu.amount and spark.task.resource.gpu.amount");
    }
    if (ofSpark > 0 && Math.ceil(ofSpark) < gpusPerNode) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          "node.gpusPerNode is " + gpusPerNode + ", and Spark gives each task " + ofSpark
              + " (spark.task.resource.gpu.amount)");
    }
  }

  /** Executors that have nodes are kept (NodeStage), but Spark must have that many in the first place. */
  static void checkAllocation(SparkConf conf, int nodes, int nodesPerExecutor) {
    if (!conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      return;
    }
    int needed = (nodes + nodesPerExecutor - 1) / nodesPerExecutor;
    int min = conf.getInt("spark.dynamicAllocation.minExecutors", 0);
    if (min < needed) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          "spark.dynamicAllocation may take away executors that are needed: set "
              + "spark.dynamicAllocation.minExecutors to at least " + needed + " (it is " + min
              + "), or spark.dynamicAllocation.enabled=false");
    }
    // What keeps them is a block of an RDD, for as long as this says; without end by default.
    String cached = "spark.dynamicAllocation.cachedExecutorIdleTimeout";
    if (conf.contains(cached) && conf.getInt("spark.dynamicAllocation.maxExecutors", Integer.MAX_VALUE) > needed) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          cached + "=" + conf.get(cached) + " may take away executors that have nodes: leave it unset, or set "
              + "spark.dynamicAllocation.maxExecutors to " + needed);
    }
  }

  /** The cluster's token and the endpoints' keys travel in Spark's tasks. */
  private static void warnOfPlainTasks(JavaSparkContext spark) {
    SparkConf conf = spark.getConf();
    boolean loopback = conf.get("spark.driver.host", "").startsWith("127.");
    if (!loopback && !spark.isLocal() && !conf.getBoolean("spark.authenticate", false)) {
      LOG.warn(
          "spark.authenticate is off: whoever can read Spark's connections can read the cluster's token "
              + "(docs/security.md)");
    }
  }
}
