package io.millrace.spark.cluster;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.MillraceCluster;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.NodeOutput;
import io.millrace.spark.NodeState;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.ShutdownOptions;
import io.millrace.spark.Sidecar;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.Row;

/** Nodes that read their own data, all roles, and GPUs claimed on the host; four executors of one core each. */
final class DirectChecks extends Checks {
  private int runs;

  DirectChecks(String[] args) {
    super(args);
  }

  @Override
  void runAll() {
    check("basic", this::basic);
    check("ports", this::ports);
    check("psAndEvaluator", this::psAndEvaluator);
    check("driverPs", this::driverPs);
    check("driverPsKilled", this::driverPsKilled);
    check("graceCutsNoWork", this::graceCutsNoWork);
    check("evaluatorsGrace", this::evaluatorsGrace);
    check("stuckNodeIsNamed", this::stuckNodeIsNamed);
    check("paths", this::paths);
    check("fails", this::fails);
    check("gpus", this::gpus);
    check("observed", this::observed);
    check("contextStopped", this::contextStopped); // the last: there is no context after it
  }

  private static ClusterOptions.Builder direct(int executors) {
    return feed(executors).inputMode(InputMode.DIRECT);
  }

  private Path newFolder() throws IOException {
    return Files.createDirectory(Paths.get(folder, "run " + ++runs));
  }

  private static String told(Path of, String node) throws IOException {
    return new String(Files.readAllBytes(of.resolve(node)), StandardCharsets.UTF_8);
  }

  private void basic() throws Exception {
    Path out = newFolder();
    NodeOptions onHdfs = NodeOptions.builder().defaultFs("hdfs://namenode:8020").build();
    MillraceCluster cluster =
        run(direct(4).numPs(1).masterNode("chief").evalNode(true).node(onHdfs), "describe", out.toString());
    requireEqual(4, cluster.clusterInfo().size());
    requireEqual("hdfs://namenode:8020", cluster.defaultFs());
    requireError(StatusCode.FAILED_PRECONDITION, () -> cluster.train(numbers(1, 1)));
    // These are stopped when chief and workers have ended, whatever they do.
    requireContains(awaitFile(out.resolve("ps-0")), "executor=0 workers=2 rank=-1");
    requireContains(awaitFile(out.resolve("evaluator-0")), "executor=2 workers=2 rank=-1");
    cluster.shutdown();
    requireContains(told(out, "chief-0"), "executor=1 workers=2 rank=0");
    requireContains(told(out, "worker-0"), "executor=3 workers=2 rank=1");
    requireContains(told(out, "worker-0"), "path=hdfs://namenode:8020/user/");
  }

  private void ports() throws IOException {
    Path out = newFolder();
    run(direct(2), "describe", out.toString()).shutdown();
    requireContains(told(out, "worker-1"), "fd=0");
    requireContains(told(out, "worker-1"), "fs=file:// ");
    out = newFolder();
    run(direct(2).node(NodeOptions.builder().releasePort(false).build()), "describe", out.toString()).shutdown();
    requireContains(told(out, "worker-1"), "fd=1");
  }

  /** ps and evaluator keep their slots and are never fed; the others' slots feed. */
  private void psAndEvaluator() {
    MillraceCluster cluster = run(feed(4).numPs(1).masterNode("chief").evalNode(true), "sum");
    requireEqual(100L, cluster.train(numbers(100, 4)).rows());
    cluster.endFeed("input");
    Set<Long> ranks = new HashSet<>();
    for (Row row : cluster.inference(numbers(100, 8), RESULT).collectAsList()) {
      ranks.add(row.getLong(2));
    }
    require(ranks.size() <= 2 && !ranks.contains(-1L), ranks.toString());
    cluster.shutdown();
  }

  /** Five nodes where Spark has four executors: the ps is the driver's. */
  private void driverPs() throws Exception {
    Path out = newFolder();
    MillraceCluster cluster =
        run(direct(5).numPs(1).driverPsNodes(true), "describe_and_wait", out.toString());
    NodeInfo ps = cluster.clusterInfo().get(0);
    requireEqual("ps", ps.jobName());
    String agent = awaitFile(out.resolve("ps-0")).replaceAll("(?s).*ppid=(\\d+).*", "$1");
    String stat = new String(Files.readAllBytes(Paths.get("/proc/" + agent + "/stat")), StandardCharsets.UTF_8);
    String parent = stat.substring(stat.lastIndexOf(')') + 4).split(" ")[0];
    requireEqual(Paths.get("/proc/self").toRealPath().getFileName().toString(), parent);
    requireError(
        StatusCode.DEADLINE_EXCEEDED,
        () -> cluster.shutdown(ShutdownOptions.builder().timeout(Duration.ofMillis(1)).build()));
    requireEqual(false, Files.exists(Paths.get("/proc/" + ps.pid())));
  }

  /** The driver, whose child it is, knows at once of the death of an agent, and starts another. */
  private void driverPsKilled() throws Exception {
    MillraceCluster cluster = run(direct(2).numPs(1).driverPsNodes(true).failure(restarts(1)), "wait");
    kill("-9", parentOf(cluster.clusterInfo().get(0).pid()));
    Eventually.await("its next attempt", () -> isBack(cluster.clusterInfo().get(0)));
    kill("-9", parentOf(cluster.clusterInfo().get(0).pid()));
    Eventually.await("the cluster's failure", () -> cluster.failure() != null);
    requireContains(cluster.failure().getMessage(), "its agent was killed by SIGKILL");
    // The worker waits to be stopped.
    requireError(
        StatusCode.UNAVAILABLE,
        () -> cluster.shutdown(ShutdownOptions.builder().timeout(Duration.ofMillis(1)).build()));
  }

  /** Nodes work for seconds under a grace of none: they end their work. */
  private void graceCutsNoWork() throws Exception {
    Path out = newFolder();
    MillraceCluster cluster = run(direct(2), "describe_late", out.toString());
    cluster.shutdown(ShutdownOptions.builder().grace(Duration.ZERO).build());
    requireContains(told(out, "worker-0"), "rank=0");
    requireContains(told(out, "worker-1"), "rank=1");
  }

  /** An evaluator has it after the workers, in both modes; then it is stopped, which is its normal end. */
  private void evaluatorsGrace() throws Exception {
    for (InputMode mode : InputMode.values()) {
      Path out = newFolder();
      run(feed(2).inputMode(mode).evalNode(true), "evaluate", out.toString())
          .shutdown(ShutdownOptions.builder().grace(Duration.ofMinutes(5)).build());
      requireContains(told(out, "evaluator-0"), "rank=-1");
      // In FEED mode the worker is to end by itself in this time, before the evaluator has it.
      Duration grace = Duration.ofMillis(mode == InputMode.FEED ? 3000 : 50);
      run(feed(2).inputMode(mode).evalNode(true), "wait_as_evaluator")
          .shutdown(ShutdownOptions.builder().grace(grace).build());
    }
  }

  private void stuckNodeIsNamed() {
    MillraceCluster cluster = run(direct(2), "wait");
    MillraceException e =
        requireError(
            StatusCode.DEADLINE_EXCEEDED,
            () ->
                cluster.shutdown(
                    ShutdownOptions.builder().grace(Duration.ZERO).timeout(Duration.ofMillis(1500)).build()));
    requireContains(e.getMessage(), "timeout of 1.5 s was over");
    requireContains(e.getMessage(), "worker:0");
    requireContains(e.getMessage(), "worker:1");
  }

  /** Spaces and Unicode, in all paths that there are; that of the program has them anyway. */
  private void paths() throws IOException {
    Path out = newFolder();
    Path work = Files.createDirectory(out.resolve("wörk ✓ dir"));
    Path logs = out.resolve("lögs of nodes");
    NodeOptions there = NodeOptions.builder().workingDir(work.toString()).build();
    run(direct(2).node(there).logDir(logs.toString()), "describe", out.toString()).shutdown();
    requireContains(told(out, "worker-1"), "path=file://" + work + "/model ");
    require(Files.exists(logs.resolve("worker-1.0.log")), "there is no log in " + logs);
  }

  private void fails() {
    MillraceException e =
        requireError(
            StatusCode.NOT_FOUND,
            () -> {
              MillraceCluster cluster = run(direct(2), "describe", "/no/such/folder");
              cluster.shutdown();
            });
    requireContains(e.getMessage(), "/no/such/folder");
  }

  /** Without GPUs of Spark's nodes claim what their host has: three there, made up. */
  private void gpus() throws Exception {
    Path out = newFolder();
    MillraceCluster cluster = run(direct(3).numPs(1).node(gpusPerNode(1)), "describe", out.toString());
    requireContains(awaitFile(out.resolve("ps-0")), "gpus= ");
    cluster.shutdown();
    Set<String> claimed = new HashSet<>();
    for (String node : new String[] {"worker-0", "worker-1"}) {
      String gpu = told(out, node).replaceAll("(?s).*gpus=(\\S*).*", "$1");
      requireContains(gpu, "GPU-");
      claimed.add(gpu);
    }
    requireEqual(2, claimed.size());
    MillraceException e =
        requireError(StatusCode.RESOURCE_EXHAUSTED, () -> run(direct(2).node(gpusPerNode(9)), "wait"));
    requireContains(e.getMessage(), "9");
    out = newFolder();
    run(direct(1), "describe", out.toString()).shutdown();
    requireContains(told(out, "worker-0"), "gpus=unset");
  }

  /** What nodes write, how they are and the sidecar beside one reach the driver, and the spec is what nodes have. */
  private void observed() throws Exception {
    Path out = newFolder();
    Set<String> heard = Collections.synchronizedSet(new HashSet<>());
    ClusterObserver observer =
        new ClusterObserver() {
          @Override
          public void onOutput(NodeOutput output) {
            for (String line : output.lines()) {
              heard.add(output.node() + " " + output.source() + " " + line);
            }
          }

          @Override
          public void onMetric(String node, String name, long step, double value) {
            heard.add(node + " " + name + " " + step + " " + value);
          }

          @Override
          public void onSlot(NodeInfo node) {
            boolean isRunning = node.state() == NodeState.RUNNING && node.pid() != 0 && node.address().contains(":");
            heard.add(node.jobName() + ":" + node.taskIndex() + (isRunning ? " runs" : " is " + node.state()));
          }
        };
    Sidecar witness =
        Sidecar.of("witness", "/bin/sh", "-c", "echo beside $TAG > '" + out.resolve("witness") + "'")
            .beside("worker:1")
            .env("TAG", "it");
    MillraceCluster cluster =
        run(
            direct(3)
                .masterNode("chief")
                .observer(observer)
                .failure(
                    failure()
                        .restart(RestartPolicy.atMost(1))
                        .restartByJob(Collections.singletonMap("chief", RestartPolicy.never()))
                        .build())
                .node(NodeOptions.builder().sidecars(witness).build()),
            "talk");
    requireEqual(new TreeSet<>(Arrays.asList("chief", "worker")), cluster.clusterSpec().keySet());
    requireEqual(1, cluster.clusterSpec().get("chief").size());
    List<String> workers = new ArrayList<>();
    for (NodeInfo node : cluster.clusterInfo()) {
      if (node.jobName().equals("worker")) {
        workers.add(node.address());
      }
    }
    requireEqual(workers, cluster.clusterSpec().get("worker"));
    requireEqual("beside it\n", awaitFile(out.resolve("witness")));
    for (String said :
        new String[] {"chief:0 STDOUT hello", "worker:1 STDERR oh", "worker:0 loss 7 0.5", "worker:1 is registered",
            "worker:1 runs"}) {
      Eventually.await(said + " among " + heard, () -> heard.contains(said));
    }
    cluster.close(); // its programs wait to be stopped
  }

  /** Somebody stops the SparkContext and forgets the cluster: its coordinator ends too. */
  private void contextStopped() throws Exception {
    run(direct(2), "wait");
    require(!children().isEmpty(), "there is no coordinator");
    spark.stop();
    Eventually.await("the coordinator's end", () -> children().isEmpty());
  }

  /**
   * Each child of this process: its pid, state and arguments. Zombies are none: the shell that Spark's launcher
   * was before it became this JVM leaves one if it did not wait for its own child in time.
   */
  private static List<String> children() throws IOException {
    String self = Paths.get("/proc/self").toRealPath().getFileName().toString();
    List<String> children = new ArrayList<>();
    try (DirectoryStream<Path> processes = Files.newDirectoryStream(Paths.get("/proc"), "[0-9]*")) {
      for (Path process : processes) {
        try {
          String stat = new String(Files.readAllBytes(process.resolve("stat")), StandardCharsets.UTF_8);
          String[] state = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
          if (state[1].equals(self) && !state[0].equals("Z")) {
            String arguments = new String(Files.readAllBytes(process.resolve("cmdline")), StandardCharsets.UTF_8);
            children.add(process.getFileName() + " " + state[0] + " " + arguments.replace('\0', ' '));
          }
        } catch (IOException e) {
          continue; // it has ended
        }
      }
    }
    return children;
  }
}
