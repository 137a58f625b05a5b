package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.feed.FeedTarget;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts a lost node again in a task that feeds. The job that is to start the node (see {@link NodeStage}) may lack a
 * core for long: Spark gives free ones to the tasks of older jobs first, until all of a training's have begun; and a
 * task of inference keeps its core while it waits for a node, as its job is not ours to end. The task has what that
 * job lacks: a core, on an executor that has a place. The job finds the node started when its turn comes. Immutable;
 * travels with the tasks.
 */
final class NodeReviver implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(NodeReviver.class);
  /** Nodes that one look asks the coordinator about. */
  private static final int MAX_ASKED = 16;
  /**
   * So long a node is lost before its agent is started, and twice as long each time: half of what the coordinator waits
   * by default, and time for the executor that had the node and can replace an agent that was killed.
   */
  private static final long PATIENCE_MILLIS = 500;
  private static final long MAX_PATIENCE_MILLIS = 15_000;

  private final NodePlan plan;
  private final List<NodeSlot> fed;

  /**
   * For the fed nodes of a cluster.
   *
   * @param fed chief, master and workers
   */
  NodeReviver(NodePlan plan, List<NodeSlot> fed) {
    this.plan = plan;
    this.fed = fed;
  }

  /**
   * Starts the agent of one node that is to be started again, if this executor has a place; does not wait for it. The
   * coordinator lets it wait until the node's restart is due.
   */
  void look(FeedPlan feed, ExecutorSite site, TaskContext task, int partition) {
    if (!site.places().mayLookForLost(plan.nodesPerExecutor)) {
      return;
    }
    for (int i = 0; i < Math.min(MAX_ASKED, fed.size()); i++) {
      // Tasks that wait together look at different nodes first.
      NodeSlot slot = fed.get((int) ((partition + (long) i) % fed.size()));
      FeedTarget target = site.directory().lookup(feed.feed, partition, slot.executorId);
      boolean lost = target.state == FeedTarget.State.RESTARTING && site.directory().hasFailed(slot.executorId);
      if (site.places().lostForMillis(slot.executorId, lost) < patienceMillis(target.attempt)) {
        continue;
      }
      if (site.places().claim(slot.executorId, plan.nodesPerExecutor)) {
        LOG.info("{} is started again by a task that waits for it", slot.node);
        // Should this agent not be taken, another try comes as late again.
        site.places().lostForMillis(slot.executorId, false);
        plan.startAgent(site, slot, task);
        return;
      }
    }
  }

  private static long patienceMillis(int attempt) {
    return Math.min(PATIENCE_MILLIS << Math.min(attempt, 10), MAX_PATIENCE_MILLIS);
  }
}
