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

  SessionState(
      boolean accepted,
      long sentRows,
      long receivedRows,
      long ackedRows,
      long returnedRows,
      long waitPosition,
      SessionEnd end,
      MillraceException error) {
    this.accepted = accepted;
    this.sentRows = sentRows;
    this.receivedRows = receivedRows;
    this.ackedRows = ackedRows;
    this.returnedRows = returnedRows;
    this.waitPosition = waitPosition;
    this.end = end;
    this.error = error;
  }
}
