package io.millrace.spark.internal.cluster;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.ChangeSignal;
import io.millrace.spark.internal.base.JsonObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The coordinator of one cluster: a child of the driver's JVM (docs/control_protocol.md, section 5).
 * Thread-safe. Errors are {@link MillraceException}s.
 */
public final class CoordinatorProcess implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(CoordinatorProcess.class);
  private static final long END_MILLIS = 10_000;

  private final ControlChild child;
  private final IntConsumer onRelaunch;
  private final Consumer<MillraceException> onFailure;
  // Null: nobody listens.
  private final Observations observations;
  private final ChangeSignal changes = new ChangeSignal();
  // Guarded by this.
  private final TreeMap<Integer, Slot> slots = new TreeMap<>();
  private MillraceException firstCause;
  private boolean closing;

  private CoordinatorAddress address;
  private String clusterId;
  private List<String> roles;

  /**
   * Starts one.
   *
   * @param params of "start"
   * @param onFailure called once, with the cluster's first cause; must not block
   * @param onRelaunch called with the number of a slot whose agent is to be started anew; must not block
   * @param observer of what nodes write and measure, and how they are; null: nobody listens
   */
  public static CoordinatorProcess start(
      Params params, Consumer<MillraceException> onFailure, IntConsumer onRelaunch, ClusterObserver observer) {
    ControlChild.setInDriver();
    CoordinatorProcess coordinator = new CoordinatorProcess(onFailure, onRelaunch, observer);
    try {
      coordinator.readStart(coordinator.child.call("start", params));
      return coordinator;
    } catch (RuntimeException e) {
      coordinator.close();
      throw e;
    }
  }

  private CoordinatorProcess(
      Consumer<MillraceException> onFailure, IntConsumer onRelaunch, ClusterObserver observer) {
    this.onFailure = onFailure;
    this.onRelaunch = onRelaunch;
    this.observations = observer == null ? null : new Observations(observer);
    child =
        ControlChild.start(
            "coordinator",
            "coordinator",
            new ControlChild.Listener() {
              @Override
              public void onEvent(String event, JsonObject members) throws BadInputException {
                CoordinatorProcess.this.onEvent(event, members);
              }

              @Override
              public void onExit(int exitCode) {
                CoordinatorProcess.this.onExit(exitCode);
              }
            });
  }

  private void readStart(JsonObject result) {
    try {
      clusterId = result.string("cluster_id");
      address =
          new CoordinatorAddress(
              result.string("address"),
              result.string("ca_pem"),
              result.string("identity_pem"),
              result.object("tokens").string("agent"));
      roles = new ArrayList<>();
      for (Object role : result.list("roles")) {
        roles.add((String) role);
      }
    } catch (BadInputException e) {
      throw nonsense("start", e);
    }
  }

  private static MillraceException nonsense(String method, BadInputException e) {
    return new MillraceException(
        StatusCode.INTERNAL, "the coordinator's answer to " + method + " makes no sense: " + e.getMessage());
  }

  public String clusterId() {
    return clusterId;
  }

  public CoordinatorAddress address() {
    return address;
  }

  /** "ps:0", "worker:0", ... by executor id. */
  public List<String> roles() {
    return Collections.unmodifiableList(roles);
  }

  // ------------------------------------------------------------------------------------------ events

  private void onEvent(String event, JsonObject members) throws BadInputException {
    switch (event) {
      case "slot":
        Slot slot = new Slot(members);
        synchronized (this) {
          slots.put(slot.executorId, slot);
        }
        if (observations != null) {
          observations.takeSlot(slot);
        }
        changes.raise();
        break;
      case "failure":
        fail(readFailure(members));
        break;
      case "relaunch":
        onRelaunch.accept((int) members.integer("executor_id"));
        break;
      case "output":
      case "metric":
        if (observations != null) {
          observations.take(event, members);
        }
        break;
      case "error":
        LOG.warn("the coordinator cannot go on: {}", members.string("message"));
        break;
      default: // later versions may have more
    }
  }

  private static MillraceException readFailure(JsonObject failure) throws BadInputException {
    String exit = "";
    if (failure.has("exit_code")) {
      exit = "exit code " + failure.integer("exit_code");
    } else if (failure.has("signal")) {
      exit = "killed by signal " + failure.integer("signal");
    }
    List<String> stderr = new ArrayList<>();
    if (failure.has("stderr_tail")) {
      for (Object line : failure.list("stderr_tail")) {
        stderr.add((String) line);
      }
    }
    return new MillraceException(
        StatusCode.fromName(failure.string("code")), failure.string("message"), failure.string("node"), exit, stderr,
        null);
  }

  private void onExit(int exitCode) {
    boolean expected;
    synchronized (this) {
      expected = closing;
    }
    if (!expected) {
      fail(
          new MillraceException(
              StatusCode.UNAVAILABLE,
              "the cluster's coordinator on the driver ended with code " + exitCode + "; nodes end with it"));
    }
  }

  /** Makes this the first cause if there is none: what only the driver knows of. */
  public void fail(MillraceException cause) {
    synchronized (this) {
      if (firstCause != null) {
        return;
      }
      firstCause = cause;
      notifyAll();
    }
    changes.raise();
    onFailure.accept(cause);
  }

  /** Why the cluster has failed; null while it has not. */
  public synchronized MillraceException firstCause() {
    return firstCause;
  }

  /** As {@link #firstCause}, which may take a moment longer to come than the errors that follow from it. */
  public synchronized MillraceException awaitFirstCause(long millis) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    for (long left = millis; firstCause == null && left > 0; ) {
      wait(left);
      left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
    }
    return firstCause;
  }

  /** Raised when a slot has changed, when the cluster has failed, and by whoever has something to tell its waits. */
  public ChangeSignal changes() {
    return changes;
  }

  /** Starts the agent of a node as a child of the driver's JVM, whose death is told. */
  public NodeAgent startAgent(int executorId, Params params, PythonFunction function) {
    NodeAgent agent = NodeAgent.start(address, executorId, params, function, this::onAgentExit);
    if (!agent.child().isAlive()) { // before it could be told
      onAgentExit(agent);
    }
    return agent;
  }

  private void onAgentExit(NodeAgent agent) {
    if (agent.takeDeath()) {
      send("agent_gone", agent.death());
    }
  }

  /** What is known of a node; null before its agent has come. */
  public synchronized Slot slot(int executorId) {
    return slots.get(executorId);
  }

  /** The number of a node's last attempt; -1 before its first agent has come. */
  public int attempt(int executorId) {
    Slot slot = slot(executorId);
    return slot == null ? -1 : slot.attempt;
  }

  /** Whether this slot's node is yet to be started, or to be started again. */
  public boolean needsAgent(int executorId) {
    Slot slot = slot(executorId);
    return slot == null || !slot.isHeld() && !slot.hasFinished();
  }

  /** Whether some node can be fed, as far as it was told of: without asking. */
  public synchronized boolean anyCanBeFed() {
    return slots.values().stream().anyMatch(Slot::canBeFed);
  }

  /** Whether every chief, master and worker has ended by itself. */
  public synchronized boolean workersHaveFinished() {
    for (int i = 0; i < roles.size(); i++) {
      Slot slot = slots.get(i);
      if (slot == null || slot.isFed() && !slot.hasFinished()) {
        return false;
      }
    }
    return true;
  }

  /** How many slots from number {@code first} on an agent has come for. */
  public synchronized int slotsWithAgent(int first) {
    int count = 0;
    for (Slot slot : slots.tailMap(first).values()) {
      if (slot.hasAgent()) {
        count++;
      }
    }
    return count;
  }

  // ----------------------------------------------------------------------------------------- methods

  public JsonObject call(String method, Params params) {
    return child.call(method, params);
  }

  public CompletableFuture<JsonObject> send(String method, Params params) {
    return child.send(method, params);
  }

  /** The state of every node, by executor id. */
  public List<Slot> status() {
    List<Slot> all = new ArrayList<>();
    long first = 0;
    while (true) {
      JsonObject reply = call("status", Params.of("first", first));
      try {
        for (Object slot : reply.list("slots")) {
          all.add(new Slot((JsonObject) slot));
        }
        if (!reply.has("next")) {
          return all;
        }
        first = reply.integer("next");
      } catch (BadInputException e) {
        throw nonsense("status", e);
      }
    }
  }

  public void openFeed(String feed, String queue, long partitions) {
    call("open_feed", Params.of("feed", feed).and("queue", queue).and("partitions", partitions));
  }

  public void feedEnd(String feed, boolean aborted) {
    call("feed_end", Params.of("feed", feed).and("aborted", aborted));
  }

  public void closeFeed(String feed) {
    call("close_feed", Params.of("feed", feed));
  }

  /** Ends {@code openFeed} early and closes {@code feed}; does not wait, for threads that are interrupted. */
  public void abortFeed(String openFeed, String feed) {
    send("feed_end", Params.of("feed", openFeed).and("aborted", true));
    send("close_feed", Params.of("feed", feed));
  }

  /** The ledger's counts of an open feed. */
  public FeedSummary feedSummary(String feed) {
    try {
      return new FeedSummary((JsonObject) call("feed_summary", Params.of("feed", feed)).list("feeds").get(0));
    } catch (BadInputException e) {
      throw nonsense("feed_summary", e);
    }
  }

  /**
   * Ends, and raises {@link #changes}, once so many partitions of an open feed are done, another number of them has
   * failed, or the time is over; exceptionally when the cluster has failed.
   */
  public CompletableFuture<JsonObject> waitFeed(String feed, long done, long failed, long millis) {
    CompletableFuture<JsonObject> reply =
        send("wait_feed", Params.of("feed", feed).and("done", done).and("failed", failed).and("timeout_ms", millis));
    reply.whenComplete((answer, error) -> changes.raise());
    return reply;
  }

  /** Partitions that are not done and were last fed to this attempt of a node. */
  public List<Long> unfinishedPartitions(String feed, int executorId, int attempt) {
    JsonObject reply =
        call(
            "unfinished_partitions",
            Params.of("feed", feed).and("executor_id", executorId).and("attempt", attempt));
    try {
      List<Long> partitions = new ArrayList<>();
      for (Object partition : reply.list("partitions")) {
        partitions.add((Long) partition);
      }
      return partitions;
    } catch (BadInputException e) {
      throw nonsense("unfinished_partitions", e);
    }
  }

  /** Ends the process, and what is left of the cluster with it. Idempotent. */
  @Override
  public void close() {
    synchronized (this) {
      closing = true;
    }
    child.close();
    if (observations != null) {
      observations.close();
    }
    if (!child.awaitExit(END_MILLIS)) {
      child.kill();
    }
  }
}
