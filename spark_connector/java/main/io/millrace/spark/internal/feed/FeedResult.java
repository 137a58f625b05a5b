package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ColumnView;
import java.util.List;

/** Results of consecutive rows of a partition. */
public final class FeedResult {
  private final long firstRow;
  private final int rows;
  private final ArrowSchema schema;
  private final List<ColumnView> columns;

  FeedResult(long firstRow, int rows, ArrowSchema schema, List<ColumnView> columns) {
    this.firstRow = firstRow;
    this.rows = rows;
    this.schema = schema;
    this.columns = columns;
  }

  /** The partition's row that the first result belongs to. */
  public long firstRow() {
    return firstRow;
  }

  public int rows() {
    return rows;
  }

  public ArrowSchema schema() {
    return schema;
  }

  public List<ColumnView> columns() {
    return columns;
  }
}
