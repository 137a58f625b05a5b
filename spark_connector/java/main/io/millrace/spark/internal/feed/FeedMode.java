package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;

/** What is done with rows: learnt from, or answered row for row. */
public enum FeedMode {
  TRAIN("train"),
  INFERENCE("inference");

  final String wireName;

  FeedMode(String wireName) {
    this.wireName = wireName;
  }

  static FeedMode fromWire(String name) throws BadInputException {
    for (FeedMode mode : values()) {
      if (mode.wireName.equals(name)) {
        return mode;
      }
    }
    throw new BadInputException("mode " + Text.quoted(name));
  }
}
