package io.millrace.spark.cluster;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.NodeState;
import io.millrace.spark.StatusCode;
import io.millrace.spark.TrainResult;
import io.millrace.spark.internal.base.Eventually;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * Which node runs where: two hosts with an executor of two cores each, and speculation that is eager to start
 * copies of tasks, which Spark never does on the host of the first.
 */
final class LayoutChecks extends Checks {
  private final Copies copies = new Copies();

  LayoutChecks(String[] args) {
    super(args);
    sc.sc().addSparkListener(copies);
  }

  @Override
  void runAll() {
    if (sc.getConf().contains("spark.speculation.task.duration.threshold")) {
      check("copyOfNodeAfterThreshold", this::copyOfNodeAfterThreshold);
    } else {
      check("onePerExecutor", this::onePerExecutor);
      check("twoPerExecutor", this::twoPerExecutor);
      check("copyOfNode", this::copyOfNode);
      check("copyOfFeed", this::copyOfFeed);
      check("programMissing", this::programMissing);
    }
  }

  /** Counts the copies of tasks, by stage. */
  private static final class Copies extends SparkListener {
    private final Map<Integer, AtomicInteger> byStage = new ConcurrentHashMap<>();

    @Override
    public void onTaskStart(SparkListenerTaskStart event) {
      if (event.taskInfo().speculative()) {
        byStage.computeIfAbsent(event.stageId(), id -> new AtomicInteger()).incrementAndGet();
      }
    }

    int of(int stage) {
      AtomicInteger count = byStage.get(stage);
      return count == null ? 0 : count.get();
    }

    int count() {
      int all = 0;
      for (AtomicInteger one : byStage.values()) {
        all += one.get();
      }
      return all;
    }
  }

  /** How many nodes each executor has. */
  private static Map<Long, Integer> places(MillraceCluster cluster) throws Exception {
    Map<Long, Integer> places = new HashMap<>();
    for (NodeInfo node : cluster.clusterInfo()) {
      places.merge(executorOf(node), 1, Integer::sum);
    }
    return places;
  }

  private void onePerExecutor() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    requireEqual(2, places(cluster).size());
    cluster.shutdown();
    MillraceException e =
        requireError(StatusCode.FAILED_PRECONDITION, () -> run(feed(3).nodesPerExecutor(1), "sum"));
    requireContains(e.getMessage(), "(2 executors of 2 cores) with nodesPerExecutor 1: set it to 2");
    MillraceCluster shared = run(feed(3), "sum");
    requireEqual(2, places(shared).size());
    shared.shutdown();
  }

  /** Four nodes on two executors; each executor's tasks feed both of its nodes. */
  private void twoPerExecutor() throws Exception {
    MillraceCluster cluster = run(feed(4).nodesPerExecutor(2), "sum");
    for (int nodes : places(cluster).values()) {
      requireEqual(2, nodes);
    }
    requireEqual(1000L, cluster.train(numbers(1000, 16)).rows());
    cluster.endFeed("input");
    requireEqual(1000L * 999 / 2, sumOfNodes(cluster, 4));
    cluster.shutdown();
  }

  /** The task of a ps stays, long after all others have ended: it is not copied, and holds no other slot. */
  private void copyOfNode() throws Exception {
    int before = copies.count();
    MillraceCluster cluster = run(feed(4).numPs(1).nodesPerExecutor(2), "sum");
    long pid = cluster.clusterInfo().get(0).pid();
    int ofLateTask = copyLateTask();
    requireEqual(before, copies.count() - ofLateTask);
    requireSamePs(cluster, pid);
    cluster.shutdown();
  }

  /** Runs a job until Spark has copied a task of it, and so looked at all that run; returns how many it copied. */
  private int copyLateTask() throws Exception {
    Path copied = Files.createTempDirectory(Paths.get(folder), "copied").resolve("there is a copy");
    String wanted = copied.toString();
    createOnceCopied(copied, 0);
    String group = "a late task";
    sc.setJobGroup(group, group);
    sc.parallelize(Arrays.asList(1, 2, 3, 4), 4)
        .foreach(
            x -> {
              if (x == 4) {
                Eventually.await("a copy of this task", () -> Files.exists(Paths.get(wanted)));
              }
            });
    sc.clearJobGroup();
    int count = 0;
    for (int job : sc.statusTracker().getJobIdsForGroup(group)) {
      for (int stage : sc.statusTracker().getJobInfo(job).stageIds()) {
        count += copies.of(stage);
      }
    }
    return count;
  }

  /** Creates the file so long after Spark has copied one more task than until now. */
  private Thread createOnceCopied(Path file, long millis) {
    int before = copies.count();
    Thread watch =
        new Thread(
            () -> {
              try {
                Eventually.await("a copy of the task", () -> copies.count() > before);
                Thread.sleep(millis);
                Files.createFile(file);
              } catch (Exception e) {
                throw new AssertionError(e);
              }
            });
    watch.start();
    return watch;
  }

  private void requireSamePs(MillraceCluster cluster, long pid) {
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    NodeInfo ps = cluster.clusterInfo().get(0);
    requireEqual(NodeState.RUNNING, ps.state());
    requireEqual(0, ps.attempt());
    requireEqual(pid, ps.pid());
  }

  /**
   * With a threshold Spark copies a task that is alone too. The copy is refused by the coordinator, and waits;
   * the first one lives.
   */
  private void copyOfNodeAfterThreshold() throws Exception {
    int before = copies.count();
    MillraceCluster cluster = run(feed(2).numPs(1), "sum");
    long pid = cluster.clusterInfo().get(0).pid();
    Eventually.await("a copy of the ps's task", () -> copies.count() > before);
    Thread.sleep(6_000); // so that it has asked for the node's slot, which it does after 3 s, and done what it must not
    requireSamePs(cluster, pid);
    cluster.shutdown();
  }

  /** A copy of a task that feeds waits for the first one, and nothing is fed twice. */
  private void copyOfFeed() throws Exception {
    MillraceCluster cluster = run(feed(2), "sum");
    Path copied = Paths.get(folder, "there is a copy");
    String wanted = copied.toString();
    JavaRDD<Long> slow =
        sc.parallelize(Arrays.asList(1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L), 8)
            .map(
                x -> {
                  if (x == 8) {
                    Eventually.await("a copy of this task", () -> Files.exists(Paths.get(wanted)));
                  }
                  return x;
                });
    Thread watch = createOnceCopied(copied, 1_000); // time for the copy to do what it must not
    TrainResult result = cluster.train(slow);
    watch.join();
    requireEqual(8L, result.rows());
    require(result.exactlyOnce(), result.toString());
    cluster.endFeed("input");
    requireEqual(36L, sumOfNodes(cluster, 2));
    cluster.shutdown();
  }

  /** A program that one host has and the other has not. */
  private void programMissing() throws Exception {
    String target = node;
    String tasks = Files.createTempDirectory(Paths.get(folder), "tasks").toString();
    sc.parallelize(Arrays.asList(1, 2, 3, 4), 4)
        .foreach(
            i -> {
              meet(tasks, 4); // one for each slot: so both executors have some
              if (SparkEnv.get().executorId().equals("0")) {
                try {
                  Files.createSymbolicLink(Paths.get("node here"), Paths.get(target));
                } catch (java.nio.file.FileAlreadyExistsException e) {
                  return; // by the task beside this one
                }
              }
            });
    ClusterOptions options = feed(2).inputMode(InputMode.DIRECT).build();
    MillraceException e =
        requireError(
            StatusCode.NOT_FOUND,
            () -> MillraceCluster.run(sc, NodeProgram.path("./node here", "wait"), options));
    System.out.println("INFO program missing: " + e);
    requireContains(e.getMessage(), "./node here");
    requireContains(e.getMessage(), "install it on every host");
    requireContains(e.node(), "worker:");
  }
}
