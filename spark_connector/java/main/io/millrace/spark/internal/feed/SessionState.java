package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;

/** Where a session stands. Rows are indexes within the partition: all before the number. Immutable. */
public final class SessionState {
  public final boolean accepted;
  public final long sentRows;
  public final long receivedRows;
  public final long ackedRows;
  public final long returnedRows;
  public final long waitPosition;
  public final SessionEnd end;
  /** Why it ended; null for OPEN and DONE. */
  public final MillraceException error;
  /** Where the time went that was spent on sending: section "report" of docs/control_protocol.md. */
  public final long sourceNanos;
  public final long encodeNanos;
  public final long creditNanos;
  public final long wireNanos;

  SessionState(
      boolean accepted,
      long sentRows,
      long receivedRows,
      long ackedRows,
      long returnedRows,
      long waitPosition,
      SessionEnd end,
      MillraceException error,
      long sourceNanos,
      long encodeNanos,
      long creditNanos,
      long wireNanos) {
    this.accepted = accepted;
    this.sentRows = sentRows;
    this.receivedRows = receivedRows;
    this.ackedRows = ackedRows;
    this.returnedRows = returnedRows;
    this.waitPosition = waitPosition;
    this.end = end;
    this.error = error;
    this.sourceNanos = sourceNanos;
    this.encodeNanos = encodeNanos;
    this.creditNanos = creditNanos;
    this.wireNanos = wireNanos;
  }

  public boolean isOpen() {
    return end == SessionEnd.OPEN;
  }

  /**
   * The rows that the node may have used: where a session ended early these are all that were sent, since the
   * last acknowledgements of a lost connection never came. After TERMINATED these are what the program was given, and
   * after REVOKED the node's word is the last one.
   */
  public long rowsInDoubt() {
    switch (end) {
      case OPEN:
      case DONE:
        return receivedRows;
      case REVOKED:
        return ackedRows;
      default:
        return sentRows;
    }
  }
}
