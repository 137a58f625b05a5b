package io.millrace.spark.internal.feed;

/** Bytes {@code offset} to {@code offset + length} of a segment. Immutable. */
final class Room {
  /** Offsets of rooms, and of bodies in them, are multiples of it. */
  static final long ALIGNMENT = 64;

  final long offset;
  final long length;

  Room(long offset, long length) {
    this.offset = offset;
    this.length = length;
  }

  /** Up to a multiple of {@link #ALIGNMENT}. */
  static long roundUp(long bytes) {
    return (bytes + ALIGNMENT - 1) & -ALIGNMENT;
  }
}
