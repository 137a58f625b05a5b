package io.millrace.spark.internal.feed;

/** How a session ended. */
public enum SessionEnd {
  /** It has not. */
  OPEN,
  /** DONE: every row acknowledged, or every result here. */
  DONE,
  /** DONE, for the rows before those that were taken back. */
  REVOKED,
  /** The program reads this queue no more. */
  TERMINATED,
  /** The node's ERROR. */
  ERROR,
  /** The connection is lost, or the program has ended with an error; a lookup knows whether another attempt follows. */
  BROKEN,
  /** The node does not know this feeder's key. */
  REFUSED,
  /** No CREDIT, WAIT or ERROR in time. */
  UNANSWERED,
  /** The node broke the protocol. */
  BAD_PEER,
  /** Ended by this side. */
  ABORTED
}
