package io.millrace.spark.internal.cluster;

import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeState;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;

/** One node as the coordinator has told of it. Immutable. */
public final class Slot {
  public final int executorId;
  public final String jobName;
  public final int taskIndex;
  public final NodeState state;
  public final int attempt;
  public final String host;
  public final String address;
  public final long nodePid;
  /** It has said where it is fed. */
  public final boolean hasFeed;

  Slot(JsonObject json) throws BadInputException {
    executorId = (int) json.integer("executor_id");
    jobName = json.string("job_name");
    taskIndex = (int) json.integer("task_index");
    state = json.constant(NodeState.class, "state");
    attempt = (int) json.integer("attempt");
    host = json.string("host");
    address = json.string("address");
    nodePid = json.integer("node_pid");
    hasFeed = json.bool("has_feed");
  }

  /** "worker:1". */
  public String node() {
    return jobName + ":" + taskIndex;
  }

  /** As users see it. */
  public NodeInfo info() {
    return new NodeInfo(executorId, jobName, taskIndex, state, attempt, host, address, nodePid);
  }

  /** Chief, master or worker. */
  public boolean isFed() {
    return !jobName.equals("ps") && !jobName.equals("evaluator");
  }

  /** Whether an agent has come for it. */
  public boolean hasAgent() {
    return state.compareTo(NodeState.CONNECTED) >= 0;
  }

  /** Whether its program has ended with exit code 0, or as it was asked to. */
  public boolean hasFinished() {
    return state == NodeState.FINISHED;
  }

  /** Whether an agent has it now: it has come, and has not ended or been lost. */
  public boolean isHeld() {
    return hasAgent() && state.compareTo(NodeState.FINISHED) < 0;
  }

  /** Whether it is a node that reads what it is fed, and where is known. */
  public boolean canBeFed() {
    return isFed() && isHeld() && hasFeed;
  }
}
