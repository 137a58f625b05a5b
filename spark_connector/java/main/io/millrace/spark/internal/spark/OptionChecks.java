package io.millrace.spark.internal.spark;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.StatusCode;
import java.nio.file.Files;
import java.nio.file.Paths;
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
    positive("nodesPerExecutor", options.nodesPerExecutor());
    positive("reservationTimeoutMillis", options.reservationTimeoutMillis());
    if (options.numPs() < 0 || options.maxRestarts() < 0 || options.gpusPerNode() < 0) {
      throw bad("numPs, maxRestarts and gpusPerNode must not be negative");
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
    if (options.queues().isEmpty() && options.inputMode() == InputMode.FEED) {
      throw bad("queues is empty: without a queue nothing can be fed");
    }
    if (program.isShipped() && !Files.isRegularFile(Paths.get(program.program()))) {
      throw new MillraceException(
          StatusCode.NOT_FOUND,
          "the node program " + program.program() + " is no file of the driver's host; NodeProgram.path names "
              + "one that is on every executor's");
    }
    int ofSpark = options.numExecutors() - (options.driverPsNodes() ? options.numPs() : 0);
    checkAllocation(spark.getConf(), ofSpark, options.nodesPerExecutor());
    warnOfPlainTasks(spark);
  }

  private static void positive(String name, long value) {
    if (value < 1) {
      throw bad(name + " is " + value + ": must be at least 1");
    }
  }

  private static MillraceException bad(String message) {
    return new MillraceException(StatusCode.INVALID_ARGUMENT, message);
  }

  /** Executors that have nodes are kept (NodeStage), but Spark must have that many in the first place. */
  private static void checkAllocation(SparkConf conf, int nodes, int nodesPerExecutor) {
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
