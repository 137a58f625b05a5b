package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.feed.FeedTarget;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts a lost node again in a task that serves inference. Such a task keeps its core while it waits for a node, as
 * its job is not ours to end; were all cores kept so, the job that is to start the node (see {@link NodeStage}) would
 * never have one. The task has what that job lacks: a core, on an executor that has a place. The job finds the node
 * started when its turn comes. Immutable; travels with the tasks.
 */
final class NodeReviver implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(NodeReviver.class);
  /** Nodes that one look asks the coordinator about. */
  private static final int MAX_ASKED = 16;
  // The coordinator's restart policy: a second after the first loss, doubled each time, and up to a fifth more.
  private static final long BACKOFF_MILLIS = 1_200;
  private static final long MAX_BACKOFF_MILLIS = 36_000;

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

  /** Starts the agent of one node that is to be started again, if this executor has a place; does not wait for it. */
  void look(FeedPlan feed, ExecutorSite site, TaskContext task, int partition) {
    if (!site.places().mayLookForLost(plan.nodesPerExecutor)) {
      return;
    }
    for (int i = 0; i < Math.min(MAX_ASKED, fed.size()); i++) {
      // Tasks that wait together look at different nodes first.
      NodeSlot slot = fed.get((int) ((partition + (long) i) % fed.size()));
      FeedTarget target = site.directory().lookup(feed.feed, partition, slot.executorId);
      boolean lost = target.state == FeedTarget.State.RESTARTING && site.directory().hasFailed(slot.executorId);
      if (site.places().lostForMillis(slot.executorId, lost) < backoffMillis(target.attempt)) {
        continue;
      }
      if (site.places().claim(slot.executorId, plan.nodesPerExecutor)) {
        LOG.info("{} is started again by a task that waits for it", slot.node);
        // Should this agent not be taken, another try comes as late again.
        site.places().lostForMillis(slot.executorId, false);
        site.places().startAgent(slot.executorId, plan.agentParams(slot, task));
        return;
      }
    }
  }

  /** How long the coordinator may wait, at most, before it asks for another agent of a node with so many restarts. */
  private static long backoffMillis(int attempt) {
    return Math.min(BACKOFF_MILLIS << Math.min(attempt, 10), MAX_BACKOFF_MILLIS);
  }
}
