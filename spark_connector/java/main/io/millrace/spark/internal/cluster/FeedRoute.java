package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedTarget;

/** What a lookup answered: where a partition is to go. Immutable. */
public final class FeedRoute {
  // For tests on one host: every node is taken for one of another host.
  private static final boolean CURVE_ONLY = Boolean.getBoolean("millrace.feed.curve");

  /** "starting", "running", "restarting", "finished" or "failed". */
  public final String state;
  /** -1 while no node reads. */
  public final int executorId;
  public final String node;
  public final int attempt;
  /** Rows of the partition before this one are acknowledged by this attempt of the node, as far as the ledger knows. */
  public final long resumeRow;
  /** "pending", "feeding", "received", "done" or "failed". */
  public final String partitionState;
  /** Null unless the state is "running". */
  public final FeedTarget target;

  FeedRoute(JsonObject json) throws BadInputException {
    state = json.string("state");
    executorId = (int) json.integer("executor_id");
    node = json.stringOrEmpty("node");
    attempt = json.has("attempt") ? (int) json.integer("attempt") : 0;
    resumeRow = json.integer("resume_row");
    partitionState = json.string("partition_state");
    target = state.equals("running") ? readTarget(json) : null;
  }

  private FeedTarget readTarget(JsonObject json) throws BadInputException {
    JsonObject endpoint = json.object("endpoint");
    String curve = endpoint.stringOrEmpty("curve");
    boolean here = !CURVE_ONLY && json.stringOrEmpty("host").equals(Hosts.local());
    if (!here && !curve.isEmpty()) {
      return FeedTarget.remote(node, json.string("nonce"), curve, endpoint.string("curve_key"));
    }
    return new FeedTarget(node, json.string("nonce"), endpoint.string("tcp"), endpoint.string("key"));
  }
}
