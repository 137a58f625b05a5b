package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.util.ArrayList;
import java.util.List;

/** The ledger's counts of one feed. Immutable. */
public final class FeedSummary {
  public final long done;
  public final long rowsReceived;
  public final long rowsAcked;
  public final long rowsRefed;
  /** No partition was fed again that a node had a part of, or may have had. */
  public final boolean exactlyOnce;
  /** At most 100, lowest first. */
  public final List<Integer> failedPartitions = new ArrayList<>();

  FeedSummary(JsonObject json) throws BadInputException {
    done = json.integer("done");
    rowsReceived = json.integer("rows_received");
    rowsAcked = json.integer("rows_acked");
    rowsRefed = json.integer("rows_refed");
    exactlyOnce = json.bool("exactly_once");
    for (Object partition : json.list("failed_partitions")) {
      failedPartitions.add(((Long) partition).intValue());
    }
  }

  /** Grows with everything that moves. */
  public long progress() {
    return done + rowsReceived + rowsAcked;
  }
}
