package io.millrace.spark.internal.feed;

/** How far a session has come that the node has not answered yet; each has its time. */
enum OpenStage {
  CONNECTING("no connection to it"),
  CONNECTED("a connection, but no handshake: its process hangs or is starved"),
  OPENED("OPEN was sent, and the node has not connected to this feeder's reply endpoint: another process has its "
      + "address, or its own hangs or cannot reach the endpoint; it was sent no row"),
  LINKED("OPEN was sent, the node has connected to this feeder's reply endpoint, and says nothing: its process hangs");

  /** What was seen until then. */
  final String seen;

  OpenStage(String seen) {
    this.seen = seen;
  }
}
