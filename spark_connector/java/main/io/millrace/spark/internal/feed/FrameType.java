package io.millrace.spark.internal.feed;

/** The frames of docs/feed_protocol.md, section 3. */
public enum FrameType {
  OPEN(1, 0),
  SCHEMA(2, 0),
  BATCH(3, 0),
  END_PARTITION(4, 8),
  ABORT(5, 0),
  BLOCKED(6, 8),
  RESULT_CREDIT(7, 8),
  REVOKE(8, 8),
  MAPPED(9, 0),
  PLACED(10, 0),
  CREDIT(16, 16),
  RECEIVED(17, 8),
  ACK(18, 8),
  RESULT(19, 0),
  DONE(20, 16),
  WAIT(21, 16),
  TERMINATED(22, 0),
  ERROR(23, 0),
  REVOKED(24, 8),
  SEGMENT(25, 0),
  ROOM(26, 16),
  PLACED_RESULT(27, 0);

  final int number;
  /** Bytes of its metadata, 0 if these vary. */
  final int metadataBytes;

  FrameType(int number, int metadataBytes) {
    this.number = number;
    this.metadataBytes = metadataBytes;
  }

  /** The type of that number, or null. */
  static FrameType of(int number) {
    for (FrameType type : values()) {
      if (type.number == number) {
        return type;
      }
    }
    return null;
  }

  boolean hasBody() {
    return this == BATCH || this == RESULT;
  }

  /** Its metadata is JSON text. */
  boolean isJson() {
    return this == OPEN || this == ABORT || this == TERMINATED || this == ERROR || this == MAPPED || this == SEGMENT;
  }

  /** Who does not know it ignores it. */
  boolean isOptional() {
    return this == REVOKE || this == MAPPED || this == SEGMENT || this == ROOM;
  }

  /** A node sends it. */
  boolean toFeeder() {
    return number >= 16 || this == SCHEMA;
  }

  /** A feeder sends it. */
  boolean toNode() {
    return number < 16;
  }
}
