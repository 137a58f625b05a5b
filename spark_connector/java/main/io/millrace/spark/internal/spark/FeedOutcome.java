package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import java.io.Serializable;

/** What became of a partition that a task fed for training. Immutable. */
final class FeedOutcome implements Serializable {
  private static final long serialVersionUID = 1L;

  enum Kind {
    /** A node holds every row. */
    RECEIVED,
    /** To be fed again, to whatever node reads then. */
    AGAIN,
    /** No node reads now, and one will: nothing was fed. */
    LATER,
    /** No node reads the queue any more. */
    TERMINATED,
    /** The cluster cannot go on. */
    FAILED
  }

  final int partition;
  final Kind kind;
  /** How far the node may have used the partition's rows, whatever the ledger has heard. */
  final long rows;
  /** Spark's id of the executor that fed it. */
  final String feeder;
  /** Why, for AGAIN; for LATER why it is fed again already, "" if it is not. */
  final String reason;
  /** For FAILED. */
  final MillraceException error;

  private FeedOutcome(
      int partition, Kind kind, long rows, String feeder, String reason, MillraceException error) {
    this.partition = partition;
    this.kind = kind;
    this.rows = rows;
    this.feeder = feeder;
    this.reason = reason;
    this.error = error;
  }

  static FeedOutcome received(int partition, long rows, String feeder) {
    return new FeedOutcome(partition, Kind.RECEIVED, rows, feeder, "", null);
  }

  static FeedOutcome again(int partition, long rows, String feeder, String reason) {
    return new FeedOutcome(partition, Kind.AGAIN, rows, feeder, reason, null);
  }

  static FeedOutcome later(int partition, long rows, String feeder, String reason) {
    return new FeedOutcome(partition, Kind.LATER, rows, feeder, reason, null);
  }

  static FeedOutcome terminated(int partition, String feeder) {
    return new FeedOutcome(partition, Kind.TERMINATED, 0, feeder, "", null);
  }

  static FeedOutcome failed(int partition, String feeder, MillraceException error) {
    return new FeedOutcome(partition, Kind.FAILED, 0, feeder, "", error);
  }
}
