package io.millrace.spark;

import java.time.Duration;

/** What became of a train call, as the coordinator's ledger has it. Immutable. */
public final class TrainResult {
  private final long rows;
  private final long refedRows;
  private final boolean exactlyOnce;
  private final boolean terminated;
  private final Duration elapsed;

  TrainResult(long rows, long refedRows, boolean exactlyOnce, boolean terminated, Duration elapsed) {
    this.rows = rows;
    this.refedRows = refedRows;
    this.exactlyOnce = exactlyOnce;
    this.terminated = terminated;
    this.elapsed = elapsed;
  }

  /** Rows that programs have used, in all epochs. One that was used twice counts once. */
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

  /** Whether it is known that every row was used exactly once: nothing was fed again, and all was read. */
  public boolean exactlyOnce() {
    return exactlyOnce;
  }

  /** Whether no node reads the queue any more; rows may be unread. */
  public boolean terminated() {
    return terminated;
  }

  /** Of the feeding, without the wait for nodes that are yet to come. */
  public Duration elapsed() {
    return elapsed;
  }

  @Override
  public String toString() {
    return rows + " rows" + (refedRows > 0 ? ", " + refedRows + " of them fed again" : "")
        + (terminated ? ", terminated" : "");
  }
}
