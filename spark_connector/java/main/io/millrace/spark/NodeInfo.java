package io.millrace.spark;

/** One node of a cluster, as it was at that moment. Immutable. */
public final class NodeInfo {
  private final int executorId;
  private final String jobName;
  private final int taskIndex;
  private final NodeState state;
  private final int attempt;
  private final String host;
  private final String address;
  private final long pid;

  public NodeInfo(
      int executorId,
      String jobName,
      int taskIndex,
      NodeState state,
      int attempt,
      String host,
      String address,
      long pid) {
    this.executorId = executorId;
    this.jobName = jobName;
    this.taskIndex = taskIndex;
    this.state = state;
    this.attempt = attempt;
    this.host = host;
    this.address = address;
    this.pid = pid;
  }

  /** The node's number in the cluster (not Spark's executor id). */
  public int executorId() {
    return executorId;
  }

  /** "ps", "chief", "master", "evaluator" or "worker". */
  public String jobName() {
    return jobName;
  }

  public int taskIndex() {
    return taskIndex;
  }

  public NodeState state() {
    return state;
  }

  /** How often it was started before. */
  public int attempt() {
    return attempt;
  }

  /** "" before its agent has come, as is the address. */
  public String host() {
    return host;
  }

  /** "host:port", its reserved port. */
  public String address() {
    return address;
  }

  /** Of its process; 0 if it does not run. */
  public long pid() {
    return pid;
  }

  @Override
  public String toString() {
    return jobName + ":" + taskIndex + " on " + host + ", " + state;
  }
}
