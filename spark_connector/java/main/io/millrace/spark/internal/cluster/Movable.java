package io.millrace.spark.internal.cluster;

/** What can be taken back from a node while a session is open, so that another node has it. */
public enum Movable {
  /** Nothing. */
  NO(null),
  /** The partition, if nothing of it was used: its rows may be others the next time. */
  WHOLE("whole"),
  /** Its rest, from any row on. */
  ANY_ROW("any_row");

  /** In a report. */
  final String wireName;

  Movable(String wireName) {
    this.wireName = wireName;
  }
}
