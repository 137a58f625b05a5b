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
  /** The connection is lost; a lookup knows more. */
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
