package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.feed.FeedTarget;
import io.millrace.spark.internal.feed.PartitionState;
import io.millrace.spark.internal.feed.SessionState;

/** What the ledger is told of one partition. Immutable. */
public final class PartitionReport {
  private final String feed;
  private final long partition;
  private final FeedTarget target;
  private final long feederAttempt;
  private final long firstRow;
  private final String refedReason;
  private final long rowsBefore;
  private final Movable movable;

  /**
   * What all reports of one session have in common.
   *
   * @param feed of the ledger
   * @param target null if no node was found
   * @param partition of the ledger
   * @param feederAttempt grows with each session of the partition
   * @param firstRow of the session: rows before it were acknowledged to earlier ones
   * @param refedReason why the partition is fed again; "" if it is not
   * @param rowsBefore how far the node of the session before may have used the rows, as its task said: the ledger may
   *     not have heard of it
   * @param movable what another node can have
   */
  public PartitionReport(
      String feed,
      long partition,
      FeedTarget target,
      long feederAttempt,
      long firstRow,
      String refedReason,
      long rowsBefore,
      Movable movable) {
    this.feed = feed;
    this.partition = partition;
    this.target = target;
    this.feederAttempt = feederAttempt;
    this.firstRow = firstRow;
    this.refedReason = refedReason;
    this.rowsBefore = rowsBefore;
    this.movable = movable;
  }

  boolean isOf(String whichFeed, long whichPartition, long whichAttempt) {
    return partition == whichPartition && feederAttempt == whichAttempt && feed.equals(whichFeed);
  }

  /** -1 if no node was found. */
  int executorId() {
    return target == null ? -1 : target.executorId;
  }

  int nodeAttempt() {
    return target == null ? 0 : target.attempt;
  }

  long firstRow() {
    return firstRow;
  }

  /** For REVOKE: rows that may have been used already. */
  long maxRow() {
    return movable == Movable.ANY_ROW ? Long.MAX_VALUE : firstRow;
  }

  boolean isMovable() {
    return movable != Movable.NO;
  }

  /** The parameters of "report"; {@code session} is null if none was opened. */
  Params params(PartitionState state, SessionState session) {
    Params params =
        Params.of("feed", feed)
            .and("partition", partition)
            .and("state", state.toString())
            .and("executor_id", executorId())
            .and("node_attempt", nodeAttempt())
            .and("feeder_attempt", feederAttempt)
            .and("first_row", firstRow)
            .and("refed_reason", refedReason)
            .and("rows_before", rowsBefore)
            .and("movable", movable.wireName);
    if (session == null) {
      return params;
    }
    return params
        .and("rows_received", session.rowsInDoubt())
        .and("rows_acked", session.ackedRows)
        .and("rows_returned", session.returnedRows)
        .and("source_us", session.sourceNanos / 1000)
        .and("encode_us", session.encodeNanos / 1000)
        .and("credit_us", session.creditNanos / 1000)
        .and("wire_us", session.wireNanos / 1000);
  }
}
