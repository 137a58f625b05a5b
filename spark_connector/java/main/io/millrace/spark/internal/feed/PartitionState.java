package io.millrace.spark.internal.feed;

import java.util.Locale;

/** How far a partition is, as the ledger has it. */
public enum PartitionState {
  PENDING,
  FEEDING,
  /** A node holds all of its rows. */
  RECEIVED,
  /** Programs have used all of its rows, or all results are here. */
  DONE,
  FAILED;

  /** As "report" has it. */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
