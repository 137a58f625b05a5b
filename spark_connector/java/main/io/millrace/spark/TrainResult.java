package io.millrace.spark;

import java.time.Duration;
import java.util.Collections;
import java.util.List;

/** What became of a train call, as the coordinator's ledger has it. Immutable. */
public final class TrainResult {
  private final long rows;
  private final long rowsRefed;
  private final boolean exactlyOnce;
  private final boolean terminated;
  private final Duration elapsed;
  private final List<NodeRows> equalNodes;

  TrainResult(long rows, long rowsRefed, boolean exactlyOnce, boolean terminated, Duration elapsed) {
    this(rows, rowsRefed, exactlyOnce, terminated, elapsed, Collections.emptyList());
  }

  TrainResult(
      long acknowledgedRows, long rowsRefed, boolean exactlyOnce, boolean terminated, Duration elapsed,
      List<NodeRows> equalNodes) {
    this.equalNodes = Collections.unmodifiableList(equalNodes);
    this.rows = acknowledgedRows - droppedRows();
    this.rowsRefed = rowsRefed;
    this.exactlyOnce = exactlyOnce && droppedRows() == 0 && repeatedRows() == 0;
    this.terminated = terminated;
    this.elapsed = elapsed;
  }

  /** What one node was spared or given twice, so that all nodes got equally many batches. Immutable. */
  public static final class NodeRows {
    private final String node;
    private final long droppedRows;
    private final long repeatedRows;

    NodeRows(String node, long droppedRows, long repeatedRows) {
      this.node = node;
      this.droppedRows = droppedRows;
      this.repeatedRows = repeatedRows;
    }

    /** "worker:1". */
    public String node() {
      return node;
    }

    /** That it was fed, and that are in no batch. */
    public long droppedRows() {
      return droppedRows;
    }

    /** That it was given once more to fill a batch. */
    public long repeatedRows() {
      return repeatedRows;
    }
  }

  /** Where programs read with {@code equal}, one for each node; empty where they do not. */
  public List<NodeRows> equalNodes() {
    return equalNodes;
  }

  /** Of all nodes: rows that are in no batch. */
  public long droppedRows() {
    return equalNodes.stream().mapToLong(NodeRows::droppedRows).sum();
  }

  /** Of all nodes: rows that were given once more to fill a batch. */
  public long repeatedRows() {
    return equalNodes.stream().mapToLong(NodeRows::repeatedRows).sum();
  }

  /**
   * Rows that programs have used, in all epochs. One that was used twice counts once; {@link #droppedRows} are not
   * among them.
   */
  public long rows() {
    return rows;
  }

  /**
   * Rows that were fed again although a node had them: these may have been used twice. Of an executor that was
   * lost while it fed, those are counted that it had told of, which it does each second.
   */
  public long rowsRefed() {
    return rowsRefed;
  }

  /**
   * Whether it is known that every row was used exactly once: nothing was fed again, dropped or repeated, all was read,
   * and where programs read with {@code equal} no process ended in the call that could have dropped or repeated rows
   * without a word.
   */
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
    return rows + " rows" + (rowsRefed > 0 ? ", " + rowsRefed + " of them fed again" : "")
        + (terminated ? ", terminated" : "");
  }
}
