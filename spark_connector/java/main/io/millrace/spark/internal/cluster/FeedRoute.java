package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedTarget;
import java.util.Locale;
import java.util.function.Predicate;

/** What a lookup answered: where a partition is to go. Immutable. */
public final class FeedRoute {
  // For tests on one host: every node is taken for one of another host.
  private static final boolean CURVE_ONLY = Boolean.getBoolean("millrace.feed.curve");

  /** What a node is doing; {@link #BUSY} is told to who is patient. */
  public enum State {
    STARTING,
    RUNNING,
    RESTARTING,
    FINISHED,
    FAILED,
    /** Nodes read, and have enough to do. */
    BUSY;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  public final State state;
  /** -1 while no node reads. */
  public final int executorId;
  public final String node;
  public final int attempt;
  /** Rows of the partition before this one are acknowledged by this attempt of the node, as far as the ledger knows. */
  public final long resumeRow;
  public final PartitionState partitionState;
  /** With what the last session of the partition has ended, where it was reported; otherwise null. */
  public final MillraceException partitionError;
  /** Null unless the node is running. */
  public final FeedTarget target;

  /**
   * @param metAnother whether somebody else was met at the local address of the node with a nonce
   */
  FeedRoute(JsonObject json, Predicate<String> metAnother) throws BadInputException {
    state = json.constant(State.class, "state");
    executorId = (int) json.integer("executor_id");
    node = json.stringOrEmpty("node");
    attempt = json.has("attempt") ? (int) json.integer("attempt") : 0;
    resumeRow = json.integer("resume_row");
    partitionState = json.constant(PartitionState.class, "partition_state");
    JsonObject error = json.members().get("partition_error") == null ? null : json.object("partition_error");
    partitionError =
        error == null
            ? null
            : new MillraceException(StatusCode.fromName(error.string("code")), error.string("message"));
    target = state == State.RUNNING ? readTarget(json, metAnother) : null;
  }

  private FeedTarget readTarget(JsonObject json, Predicate<String> metAnother) throws BadInputException {
    JsonObject endpoint = json.object("endpoint");
    String curve = endpoint.stringOrEmpty("curve");
    String nonce = json.string("nonce");
    LocalPlace place = LocalPlace.of(endpoint.stringOrEmpty("ipc"));
    boolean here = !CURVE_ONLY && place == LocalPlace.HERE && !metAnother.test(nonce);
    if (!here && !curve.isEmpty()) {
      return FeedTarget.remote(node, nonce, curve, endpoint.string("curve_key"));
    }
    if (place == LocalPlace.ELSEWHERE) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE,
          node + " listens on another host, or in another network namespace, on loopback alone");
    }
    return new FeedTarget(node, nonce, endpoint.string("tcp"), endpoint.string("key"));
  }
}
