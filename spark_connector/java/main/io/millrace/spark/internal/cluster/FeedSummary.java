package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.util.ArrayList;
import java.util.List;

/** The ledger's counts of one feed. Immutable. */
public final class FeedSummary {
  public final long done;
  public final long failed;
  public final long rowsReceived;
  public final long rowsAcked;
  public final long rowsRefed;
  /** No partition was fed again that a node had a part of, or may have had. */
  public final boolean exactlyOnce;
  /** At most 100, lowest first. */
  public final List<Integer> failedPartitions = new ArrayList<>();
  /** What nodes that read in equally many batches have dropped and repeated; empty if they do not. */
  public final List<EqualRows> equalRows = new ArrayList<>();
  /** All of them have said so. */
  public final boolean equalSettled;
  /** No process of theirs ended in the call that could have dropped or repeated others without a word. */
  public final boolean equalComplete;

  /** Rows of one node. */
  public static final class EqualRows {
    public final String node;
    public final long dropped;
    public final long repeated;

    EqualRows(JsonObject json) throws BadInputException {
      node = json.string("node");
      dropped = json.integer("dropped_rows");
      repeated = json.integer("repeated_rows");
    }
  }

  FeedSummary(JsonObject json) throws BadInputException {
    done = json.integer("done");
    failed = json.integer("failed");
    rowsReceived = json.integer("rows_received");
    rowsAcked = json.integer("rows_acked");
    rowsRefed = json.integer("rows_refed");
    exactlyOnce = json.bool("exactly_once");
    for (Object partition : json.list("failed_partitions")) {
      failedPartitions.add(((Long) partition).intValue());
    }
    boolean settled = true;
    boolean complete = true;
    if (json.has("equal")) {
      JsonObject equal = json.object("equal");
      settled = equal.bool("settled");
      for (Object node : equal.list("nodes")) {
        equalRows.add(new EqualRows((JsonObject) node));
        complete = complete && ((JsonObject) node).bool("complete");
      }
    }
    equalSettled = settled;
    equalComplete = complete;
  }

  /** Grows with everything that moves. */
  public long progress() {
    return done + rowsReceived + rowsAcked;
  }
}
