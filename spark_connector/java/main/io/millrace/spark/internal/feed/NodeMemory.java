package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import java.io.IOException;

/** The segment of a node over one connection, mapped when its first session is told of it. The hub's thread's. */
final class NodeMemory {
  private SegmentName name;
  private MappedSegment segment; // held

  /**
   * Maps what SEGMENT names, unless that was done before; returns why it cannot be used, "" if it can.
   *
   * @throws BadInputException if the connection has another segment
   */
  String open(SegmentName named) throws BadInputException {
    if (segment != null && !named.equals(name)) {
      throw new BadInputException("a second SEGMENT for one connection");
    }
    if (segment == null) {
      try {
        segment = MappedSegment.open(named);
        name = named;
      } catch (IOException | RuntimeException e) {
        return e.getMessage() != null ? e.getMessage() : e.toString();
      }
    }
    return "";
  }

  /** null if there is none. */
  MappedSegment segment() {
    return segment;
  }

  /** Sessions may hold it still. */
  void close() {
    if (segment != null) {
      segment.release();
      segment = null;
    }
  }
}
