package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;

/** How many nodes an application's executors can have, as far as its configuration tells. Immutable. */
final class Capacity {
  private static final Pattern LOCAL = Pattern.compile("local(?:\\[(\\d+|\\*)(?:,.*)?\\])?");
  private static final Pattern LOCAL_CLUSTER = Pattern.compile("local-cluster\\[ *(\\d+) *, *(\\d+) *,.*\\]");
  private static final int UNKNOWN = Integer.MAX_VALUE;

  private final String master;
  private final int cpusPerTask;
  /** At most. */
  private final int executors;
  /** Of each. */
  private final int cores;

  private Capacity(String master, int cpusPerTask, int executors, int cores) {
    this.master = master;
    this.cpusPerTask = cpusPerTask;
    this.executors = executors;
    this.cores = cores;
  }

  static Capacity of(SparkConf conf) {
    String master = conf.get("spark.master", "");
    int cpus = Math.max(1, conf.getInt("spark.task.cpus", 1));
    Matcher local = LOCAL.matcher(master);
    if (local.matches()) {
      String threads = local.group(1) == null ? "1" : local.group(1);
      int all = threads.equals("*") ? Runtime.getRuntime().availableProcessors() : Integer.parseInt(threads);
      return new Capacity(master, cpus, 1, all);
    }
    Matcher localCluster = LOCAL_CLUSTER.matcher(master);
    if (localCluster.matches()) {
      return new Capacity(
          master, cpus, Integer.parseInt(localCluster.group(1)), Integer.parseInt(localCluster.group(2)));
    }
    boolean managed = master.startsWith("yarn") || master.startsWith("k8s://");
    int cores = conf.getInt("spark.executor.cores", managed ? 1 : UNKNOWN);
    int executors = UNKNOWN;
    if (conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      executors = conf.getInt("spark.dynamicAllocation.maxExecutors", UNKNOWN);
    } else if (managed) {
      executors = conf.getInt("spark.executor.instances", 2);
    } else if (conf.contains("spark.cores.max") && cores != UNKNOWN) {
      executors = conf.getInt("spark.cores.max", UNKNOWN) / cores;
    }
    return new Capacity(master, cpus, executors, cores);
  }

  /** Whether it is known how many executors there will be. */
  boolean isKnown() {
    return executors != UNKNOWN;
  }

  private int slots() {
    return cores == UNKNOWN ? UNKNOWN : cores / cpusPerTask;
  }

  /**
   * How many nodes an executor may have.
   *
   * @param nodes in all
   * @param asked by the user; 0: as few as there is room for, and one where that is not known yet
   */
  int nodesPerExecutor(int nodes, int asked) {
    if (asked > 0) {
      return asked;
    }
    return executors == UNKNOWN || executors == 0 ? 1 : Math.max(1, (nodes + executors - 1) / executors);
  }

  /**
   * Refuses what would wait in vain.
   *
   * @param asked as above
   * @throws MillraceException FAILED_PRECONDITION, and what to set
   */
  void check(int nodes, int asked) {
    if (executors == UNKNOWN) {
      return;
    }
    long slots = slots() == UNKNOWN ? UNKNOWN : (long) executors * slots();
    if (slots < nodes) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          nodes + " nodes need a task slot each as they start; " + place() + " has " + slots
              + ": ask for fewer nodes, or " + remedy(nodes));
    }
    if (asked > 0 && (long) executors * asked < nodes) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          nodes + " nodes do not fit into " + place() + " with nodesPerExecutor " + asked + ": set it to "
              + nodesPerExecutor(nodes, 0) + ", or leave it unset");
    }
  }

  private String place() {
    String each = executors == 1 ? "1 executor" : executors + " executors";
    return master + " (" + each + (cores == UNKNOWN ? "" : " of " + cores + (cores == 1 ? " core" : " cores"))
        + (cpusPerTask == 1 ? ")" : ", spark.task.cpus=" + cpusPerTask + ")");
  }

  private String remedy(int nodes) {
    if (master.startsWith("local-cluster")) {
      return "more executors or cores";
    }
    if (master.startsWith("local")) {
      return "local[" + nodes * cpusPerTask + "]";
    }
    if (master.startsWith("spark://")) {
      return "set spark.cores.max to at least " + nodes * cpusPerTask;
    }
    return "more executors (spark.executor.instances, spark.dynamicAllocation.maxExecutors) or spark.executor.cores";
  }
}
