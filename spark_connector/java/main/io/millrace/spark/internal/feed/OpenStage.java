package io.millrace.spark.internal.feed;

/** How far a session has come that the node has not answered yet; each has its time. In the order of their coming. */
enum OpenStage {
  CONNECTING("no connection to it"),
  CONNECTED("a connection, but no handshake: its process hangs or is starved"),
  OPENED("OPEN was sent, and the node has not connected to this feeder's reply endpoint: another process has its "
      + "address, or its own hangs or cannot reach the endpoint; it was sent no row"),
  FALSELY_LINKED("OPEN was sent, and a process logged in to this feeder's reply endpoint %s as %s with a password that "
      + "is not of that node's key; it was sent no row. Another process has the node's address, or the node's feed "
      + "library makes the password of something else than its key and this feeder's challenge "
      + "(docs/feed_protocol.md, section 9)"),
  LINKED("OPEN was sent, the node has connected to this feeder's reply endpoint, and says nothing: its process hangs");

  private final String seen;

  OpenStage(String seen) {
    this.seen = seen;
  }

  /** What was seen until then. */
  String seen(String replyEndpoint, String node) {
    return String.format(seen, replyEndpoint, node);
  }

  /** Whether nobody has proven yet to be the node. */
  boolean isUnproven() {
    return this == OPENED || this == FALSELY_LINKED;
  }

  /**
   * How long it may take, where a step may take {@code openTimeoutNanos}. A false login may be a stranger's, so it ends
   * nothing at once: the node's own may be under way. But that is not waited for as if nobody had logged in.
   */
  long nanos(long openTimeoutNanos) {
    return this == FALSELY_LINKED ? openTimeoutNanos / 10 : openTimeoutNanos;
  }
}
