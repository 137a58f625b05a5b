package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The places for nodes of one cluster in this JVM, and the agents of those that run here. Thread-safe. */
public final class NodePlaces {
  private static final Logger LOG = LoggerFactory.getLogger(NodePlaces.class);
  private static final long LOOK_FOR_LOST_NANOS = TimeUnit.MILLISECONDS.toNanos(300);

  private final CoordinatorAddress coordinator;
  private final Runnable onDeath;
  // Guarded by this.
  private final TreeMap<Integer, NodeAgent> agents = new TreeMap<>();
  private final Set<Integer> claimed = new HashSet<>();
  private final Set<String> doneReading = new HashSet<>(); // queue and executor id
  private final Map<Integer, Long> lostSince = new HashMap<>(); // nodes that are to be started again, when seen first
  private long lookedForLostNanos = System.nanoTime() - LOOK_FOR_LOST_NANOS;
  private final List<NodeAgent> deaths = new ArrayList<>(); // killed, which is not told yet
  private final Set<NodeAgent> held = new HashSet<>(); // killed; their places are not given up yet

  /** {@code onDeath} is called when there is something for {@link #takeDeaths}. */
  NodePlaces(CoordinatorAddress coordinator, Runnable onDeath) {
    this.coordinator = coordinator;
    this.onDeath = onDeath;
  }

  /**
   * Takes a place for a node.
   *
   * @return false if the executor has as many nodes as it may, or this one runs here already
   */
  public synchronized boolean claim(int executorId, int nodesPerExecutor) {
    return claimed.size() < nodesPerExecutor && claimed.add(executorId);
  }

  /** Gives the place of {@link #claim} back. */
  public synchronized void unclaim(int executorId) {
    claimed.remove(executorId);
  }

  synchronized boolean areFree() {
    return claimed.isEmpty();
  }

  /** Whether there is a place, and no task has looked for a lost node for a moment. */
  public synchronized boolean mayLookForLost(int nodesPerExecutor) {
    if (claimed.size() >= nodesPerExecutor || System.nanoTime() - lookedForLostNanos < LOOK_FOR_LOST_NANOS) {
      return false;
    }
    lookedForLostNanos = System.nanoTime();
    return true;
  }

  /**
   * Notes whether a node is lost now.
   *
   * @return for how long it has been, as far as this executor has looked; -1 if it is not
   */
  public synchronized long lostForMillis(int executorId, boolean lost) {
    if (!lost) {
      lostSince.remove(executorId);
      return -1;
    }
    long now = System.nanoTime();
    return TimeUnit.NANOSECONDS.toMillis(now - lostSince.computeIfAbsent(executorId, id -> now));
  }

  /**
   * Starts the agent of a node whose place was claimed. When it has ended, the place is free again, unless another
   * agent is started there ({@link #succeed}).
   *
   * @param function that the node runs; null if its program is enough
   */
  public NodeAgent startAgent(int executorId, Params params, PythonFunction function) {
    NodeAgent agent;
    try {
      agent = NodeAgent.start(coordinator, executorId, params, function, this::onAgentExit);
    } catch (RuntimeException e) {
      unclaim(executorId);
      throw e;
    }
    boolean gone;
    synchronized (this) {
      agents.put(executorId, agent);
      agent.placed = true;
      gone = agent.gone;
    }
    if (gone) { // its exit was told too early
      onAgentExit(agent);
    }
    return agent;
  }

  /** Gives a place to an agent that none was claimed for, whatever else is here; nothing if it has ended. */
  public synchronized void keep(NodeAgent agent) {
    if (agents.get(agent.executorId()) == agent) {
      claimed.add(agent.executorId());
    }
  }

  private void onAgentExit(NodeAgent agent) {
    synchronized (this) {
      if (!agent.placed) {
        agent.gone = true; // whoever starts it looks then
        return;
      }
      // One that was not taken for the node's has no place: that is the next attempt's, maybe.
      boolean hasPlace = agents.remove(agent.executorId(), agent);
      if (!agent.takeDeath()) {
        if (hasPlace) {
          claimed.remove(agent.executorId());
        }
        return;
      }
      deaths.add(agent);
      if (hasPlace) {
        held.add(agent);
      }
    }
    onDeath.run();
  }

  /** Agents that were killed and that the coordinator has not been told of; they count as told now. */
  synchronized List<NodeAgent> takeDeaths() {
    List<NodeAgent> taken = new ArrayList<>(deaths);
    deaths.clear();
    return taken;
  }

  /**
   * After the death of an agent was told: starts another in its place, in a thread of its own, or gives the place up.
   *
   * @param awaited whether the node is to be started again
   */
  void succeed(NodeAgent dead, boolean awaited) {
    boolean placed;
    synchronized (this) {
      placed = held.remove(dead) && claimed.contains(dead.executorId());
      if (placed && !awaited) {
        claimed.remove(dead.executorId());
      }
    }
    if (!placed || !awaited) {
      dead.setSuccessor(null);
      return;
    }
    Thread starter = new Thread(() -> dead.setSuccessor(startAnother(dead)), "millrace-again");
    starter.setDaemon(true);
    starter.start();
  }

  private NodeAgent startAnother(NodeAgent dead) {
    try {
      LOG.info("the agent of node {} is started again", dead.executorId());
      return startAgent(dead.executorId(), dead.params(), dead.function());
    } catch (MillraceException e) {
      LOG.warn("node {}: no agent could be started here again: {}", dead.executorId(), e.getMessage());
      return null; // the driver asks Spark for a place
    }
  }

  synchronized boolean hasDeaths() {
    return !deaths.isEmpty();
  }

  /** The agent of a node, null if none runs here. */
  synchronized NodeAgent agent(int executorId) {
    return agents.get(executorId);
  }

  /** An agent that can be asked, null if there is none. */
  synchronized ControlChild runningAgent() {
    for (NodeAgent agent : agents.values()) {
      if (agent.isRunning() && agent.child().isAlive()) {
        return agent.child();
      }
    }
    return null;
  }

  /** The nodes that run here and read this queue, as far as is known. */
  synchronized List<Integer> reading(String queue) {
    List<Integer> reading = new ArrayList<>();
    for (NodeAgent agent : agents.values()) {
      boolean fed = !agent.node().startsWith("ps:") && !agent.node().startsWith("evaluator:");
      if (fed && agent.isRunning() && !doneReading.contains(queue + "/" + agent.executorId())) {
        reading.add(agent.executorId());
      }
    }
    return reading;
  }

  /** A node's program reads this queue no more. */
  public synchronized void stopPreferring(int executorId, String queue) {
    doneReading.add(queue + "/" + executorId);
  }
}
