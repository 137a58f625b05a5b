package io.millrace.spark;

/** What became of a train call. Immutable. */
public final class TrainResult {
  private final long rows;
  private final long refedRows;
  private final boolean exactlyOnce;
  private final boolean terminated;

  TrainResult(long rows, long refedRows, boolean exactlyOnce, boolean terminated) {
    this.rows = rows;
    this.refedRows = refedRows;
    this.exactlyOnce = exactlyOnce;
    this.terminated = terminated;
  }

  /** Rows that programs have acknowledged, over all epochs. */
  public long rows() {
    return rows;
  }

  /**
   * Rows that were fed again although a node had them: these may have been used twice. Of an executor that was
   * lost while it fed, those are counted that it had told of, which it does each second.
   */
  public long refedRows() {
    return refedRows;
  }

  /** Whether it is known that every row was delivered exactly once: nothing had to be fed again. */
  public boolean exactlyOnce() {
    return exactlyOnce;
  }

  /** Whether every program stopped reading before the end; rows may be unread. */
  public boolean terminated() {
    return terminated;
  }

  @Override
  public String toString() {
    return rows + " rows" + (refedRows > 0 ? ", " + refedRows + " of them fed again" : "")
        + (terminated ? ", terminated" : "");
  }
}
