package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.NodeAgent;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.util.CollectionAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A task of the node stage: starts the agent of a node on its executor and stays as long as the node is to
 * hold its Spark slot.
 *
 * <p>An executor that has a node already is not given another: the task waits a moment, so that its slot is
 * taken while others are looked for, and ends; the driver starts another for the node. A copy of a task whose
 * first attempt lives (speculation) is refused the node's slot by the coordinator, and waits: were it to end
 * well, Spark would end the first one, and the node with it.
 */
final class NodeTask implements FlatMapFunction<Iterator<NodeSlot>, String> {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(NodeTask.class);
  /** So long a task without a place keeps its slot from being offered again; Spark does not say when it would be. */
  private static final long PARK_MILLIS = 1_000;
  /** Of tasks that Spark has offered to all executors together. */
  private static final long BRIEF_PARK_MILLIS = 200;
  private static final long COPY_WAITS_MILLIS = 3 * PARK_MILLIS;
  /** So, and then ever less often, an agent asks for a slot that was refused: it has no stream to be told by then. */
  private static final long ASK_AGAIN_MILLIS = 200;
  private static final long MAX_ASK_AGAIN_MILLIS = 5_000;

  private final NodePlan plan;
  private final CollectionAccumulator<Integer> displaced;
  private final long parkMillis;

  /**
   * The tasks of one wave.
   *
   * @param displaced where tasks that found no place on their executor leave their nodes' numbers; null if
   *     that they tell nothing says it
   */
  NodeTask(NodePlan plan, CollectionAccumulator<Integer> displaced) {
    this(plan, displaced, PARK_MILLIS);
  }

  private NodeTask(NodePlan plan, CollectionAccumulator<Integer> displaced, long parkMillis) {
    this.plan = plan;
    this.displaced = displaced;
    this.parkMillis = parkMillis;
  }

  /** Tasks that look for a place for one node on as many executors. */
  static NodeTask oneOfMany(NodePlan plan) {
    return new NodeTask(plan, null, BRIEF_PARK_MILLIS);
  }

  @Override
  public Iterator<String> call(Iterator<NodeSlot> slots) throws Exception {
    List<String> told = new ArrayList<>();
    while (slots.hasNext()) {
      String outcome = run(slots.next());
      if (outcome != null) {
        told.add(outcome);
      }
    }
    return told.iterator();
  }

  private String run(NodeSlot slot) throws InterruptedException {
    ExecutorSite site = ExecutorSite.enter(plan.clusterId, plan.coordinator);
    try {
      return run(site, slot, isCopy());
    } finally {
      site.leave();
    }
  }

  private String run(ExecutorSite site, NodeSlot slot, boolean copy) throws InterruptedException {
    if (copy) {
      // The first one may have found no place: then Spark ends this one with it, and a node would be lost that had
      // just begun.
      Thread.sleep(COPY_WAITS_MILLIS);
    }
    for (long pause = ASK_AGAIN_MILLIS; ; pause = Math.min(2 * pause, MAX_ASK_AGAIN_MILLIS)) {
      if (!copy && !site.places().claim(slot.executorId, plan.nodesPerExecutor)) {
        Thread.sleep(parkMillis);
        if (displaced != null) {
          displaced.add(slot.executorId);
        }
        return null;
      }
      NodeAgent agent = plan.startAgent(site, slot, TaskContext.get());
      boolean running = false;
      boolean keep = false;
      try {
        NodeAgent next = agent;
        while (next != null) {
          agent = next;
          boolean runs = agent.awaitRunning();
          if (runs && copy) { // it takes the first one's part
            site.places().keep(agent);
          }
          running |= runs;
          keep = runs && plan.freesFedSlots && slot.isFed();
          if (keep) {
            break;
          }
          agent.awaitEnd();
          next = agent.awaitSuccessor();
        }
      } catch (InterruptedException e) {
        // Its job was cancelled: with the cluster, whose end ends the node, or by somebody who cancelled all jobs, as
        // PySpark does at Ctrl-C. That is for calls under way.
        keep = running;
        throw e;
      } finally {
        // Killed as it began, or something unforeseen: the node goes with its task.
        if (!keep) {
          agent.close();
        }
      }
      // A node that holds no slot once it runs: whoever has started it has done what this task was to do.
      boolean done = !copy && isElsewhere(agent) && plan.freesFedSlots && slot.isFed();
      if (running || done || !isHeld(agent)) {
        return outcome(slot, agent);
      }
      LOG.info("{}; waiting for it", agent.error().getMessage());
      Thread.sleep(pause);
    }
  }

  /** Whether the node's slot was refused to an agent, since another one has it, or may come back to it. */
  private static boolean isHeld(NodeAgent agent) {
    MillraceException error = agent.error();
    return isElsewhere(agent)
        || error != null
            && error.code() == StatusCode.UNAVAILABLE
            && error.getMessage().contains("is held for its agent");
  }

  private static boolean isElsewhere(NodeAgent agent) {
    MillraceException error = agent.error();
    return error != null
        && error.code() == StatusCode.ALREADY_EXISTS
        && error.getMessage().contains("has a live agent");
  }

  /** Whether the task's first attempt may still run. */
  private static boolean isCopy() {
    return TaskContext.get().attemptNumber() > 0
        && SparkEnv.get().conf().getBoolean("spark.speculation", false);
  }

  /** What the driver's log says of the task; why a node failed it knows from the coordinator. */
  private static String outcome(NodeSlot slot, NodeAgent agent) {
    MillraceException error = agent.error();
    return slot.node + ": " + (error == null ? agent.state() : error.getMessage());
  }
}
