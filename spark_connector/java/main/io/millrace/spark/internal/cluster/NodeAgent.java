package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeOutput;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Locale;
import java.util.function.Consumer;

/** The agent of one node, a child of this JVM, and the node with it. Thread-safe. */
public final class NodeAgent {
  /** What an agent is doing (docs/control_protocol.md). */
  public enum State {
    IDLE,
    CONNECTING,
    CONNECTED,
    REGISTERED,
    READY,
    RUNNING,
    DRAINING,
    RESTARTING,
    FINISHED,
    FAILED;

    /** "running". */
    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private static final int KILLED = 128; // and the signal, in an exit code of Java's

  private final int executorId;
  private final Params params;
  private final PythonFunction function;
  private final Path functionFile;
  private final ControlChild child;
  private final Consumer<NodeAgent> onExit;
  /** Whether it has been given its place, and whether it had ended before: guarded by that {@link NodePlaces}. */
  boolean placed;
  boolean gone;
  // Guarded by this.
  private String agentId = "";
  private int exitCode;
  private boolean deathTaken;
  private boolean hasSuccessor; // or will never have one
  private NodeAgent successor;
  private boolean closed;
  private State state = State.IDLE;
  private String node = "";
  private int attempt;
  private MillraceException error;
  private boolean ended;

  /**
   * Starts an agent and gives it its slot. Returns once it has accepted; what becomes of it is told by {@link
   * #awaitRunning} and {@link #awaitEnd}.
   *
   * @param params of "start", without the coordinator
   * @param function that the node runs; null if its program is enough
   * @param onExit called when the agent is gone, before {@link #awaitEnd} returns, on a thread of its own; must
   *     not block
   */
  public static NodeAgent start(
      CoordinatorAddress coordinator,
      int executorId,
      Params params,
      PythonFunction function,
      Consumer<NodeAgent> onExit) {
    NodeAgent agent = new NodeAgent(executorId, params, function, onExit);
    try {
      JsonObject started =
          agent.child.call(
              "start",
              params
                  .and("coordinator", coordinator.toJson())
                  .and("executor_id", executorId)
                  .and("output_events", true));
      synchronized (agent) {
        agent.agentId = started.stringOrEmpty("agent_id");
      }
      return agent;
    } catch (BadInputException e) {
      agent.child.kill();
      throw new MillraceException(StatusCode.INTERNAL, "an agent's answer to start makes no sense: " + e.getMessage());
    } catch (RuntimeException e) {
      agent.child.kill();
      throw e;
    }
  }

  private NodeAgent(int executorId, Params params, PythonFunction function, Consumer<NodeAgent> onExit) {
    this.executorId = executorId;
    this.params = params;
    this.function = function;
    this.onExit = onExit;
    functionFile = function == null ? null : function.write();
    try {
      child = startChild();
    } catch (RuntimeException e) {
      deleteFunction();
      throw e;
    }
  }

  private ControlChild startChild() {
    return ControlChild.start(
        "agent of node " + executorId,
        "agent",
        function == null ? Collections.<String, String>emptyMap() : function.environment(functionFile),
        new ControlChild.Listener() {
          @Override
          public void onEvent(String event, JsonObject members) throws BadInputException {
            if (event.equals("output")) {
              print(Observations.outputOf(members));
            } else {
              NodeAgent.this.onEvent(event, members);
            }
          }

          @Override
          public void onExit(int exitCode) {
            onAgentExit(exitCode);
          }
        });
  }

  /** Into the executor's own stdout and stderr, where Spark's pages show what tasks print. */
  private static void print(NodeOutput output) {
    PrintStream to = output.source() == NodeOutput.Source.STDOUT ? System.out : System.err;
    if (output.dropped() > 0) {
      to.println(output.node() + ": (" + output.dropped() + " lines are left out here)");
    }
    for (String line : output.lines()) {
      to.println(output.node() + ": " + line);
    }
  }

  private synchronized void onEvent(String event, JsonObject members) throws BadInputException {
    if (event.equals("state")) {
      state = members.constant(State.class, "state");
      String job = members.stringOrEmpty("job_name");
      if (!job.isEmpty()) {
        node = job + ":" + members.integer("task_index");
      }
      if (members.has("attempt")) { // it has its slot
        attempt = (int) members.integer("attempt");
      }
      if (state == State.FAILED) {
        error =
            new MillraceException(StatusCode.fromName(members.string("code")), members.string("message"));
      }
    } else if (event.equals("error")) {
      error = new MillraceException(StatusCode.fromName(members.string("code")), members.string("message"));
    }
    notifyAll();
  }

  private void deleteFunction() {
    if (functionFile != null) {
      PythonFunction.delete(functionFile);
    }
  }

  private void onAgentExit(int code) {
    synchronized (this) {
      exitCode = code;
    }
    deleteFunction();
    onExit.accept(this); // first: who waits for the end may count on it
    synchronized (this) {
      ended = true;
      if (error == null && code != 0) {
        error =
            new MillraceException(
                StatusCode.UNAVAILABLE, "the agent of node " + executorId + " ended with code " + code);
      }
      notifyAll();
    }
  }

  public int executorId() {
    return executorId;
  }

  /** With what it was started. */
  Params params() {
    return params;
  }

  /** Null if there is none. */
  PythonFunction function() {
    return function;
  }

  /** "worker:1"; "" before it is known. */
  public synchronized String node() {
    return node;
  }

  public synchronized State state() {
    return state;
  }

  public synchronized int attempt() {
    return attempt;
  }

  public synchronized boolean isRunning() {
    return !ended && state == State.RUNNING;
  }

  /** Why it could not do its part or its node failed; null if neither. */
  public synchronized MillraceException error() {
    return error;
  }

  /**
   * Whether the coordinator is to be told of its death, once: false if it lives, has ended by itself and told so, or
   * this was asked before.
   */
  synchronized boolean takeDeath() {
    boolean fresh = wasKilled() && !deathTaken;
    deathTaken |= fresh;
    return fresh;
  }

  private boolean wasKilled() {
    return exitCode > KILLED && !agentId.isEmpty();
  }

  /** What the coordinator is told of an agent that was killed. */
  synchronized Params death() {
    return Params.of("executor_id", executorId).and("agent_id", agentId).and("signal", exitCode - KILLED);
  }

  /** Says which agent takes the place of this one, which was killed; null: none does. */
  void setSuccessor(NodeAgent next) {
    boolean unwanted;
    synchronized (this) {
      hasSuccessor = true;
      successor = next;
      unwanted = closed;
      notifyAll();
    }
    if (unwanted && next != null) {
      next.close();
    }
  }

  /** After its end: the agent that has its place, if it was killed and its node is started again; otherwise null. */
  public synchronized NodeAgent awaitSuccessor() throws InterruptedException {
    while (wasKilled() && !hasSuccessor) {
      wait(1000);
    }
    return successor;
  }

  /** Waits until its node runs or it has ended, which it returns as false. */
  public synchronized boolean awaitRunning() throws InterruptedException {
    while (!ended && state != State.RUNNING) {
      wait(1000);
    }
    return !ended;
  }

  /** Waits until it has ended. */
  public synchronized void awaitEnd() throws InterruptedException {
    while (!ended) {
      wait(1000);
    }
  }

  /** Ends node and agent now, and a successor; they are gone a moment later. */
  public void close() {
    NodeAgent next;
    synchronized (this) {
      closed = true;
      next = successor;
    }
    child.close();
    if (next != null) {
      next.close();
    }
  }

  ControlChild child() {
    return child;
  }
}
