package io.millrace.spark.internal.feed;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.zeromq.ZMQ;

/** The connection to one node endpoint, and the sessions over it. For the hub's thread. */
final class HubConnection {
  /** A feeder that is refused comes again for so long: section 8 of docs/feed_protocol.md. */
  private static final long MAX_REFUSED_NANOS = TimeUnit.MILLISECONDS.toNanos(2500);

  final FeedTarget target;
  private final Set<HubSession> sessions = new LinkedHashSet<>();
  /** When a refusal is final: the announcement of this feeder's key may be on its way. */
  private final long refusedUntil = System.nanoTime() + MAX_REFUSED_NANOS;
  ZMQ.Socket push; // null while it waits for retryAt, and once it is closed
  long retryAt; // 0: not waiting
  boolean connected;
  boolean handshaken;
  String localAddress; // of a connection over CURVE, once it is there
  /** The node has shown that it is the node: by its login to the reply socket, or by a frame over one. */
  boolean proven;
  /** Somebody else, or the node with another key, has tried. */
  boolean falselyProven;
  boolean lost;
  /** No session begins over it any more; it is closed with its last one. */
  boolean givenUp;
  /** Memory of the node that its sessions share. */
  final NodeMemory memory = new NodeMemory();

  HubConnection(FeedTarget target) {
    this.target = target;
  }

  /** "worker:1 at tcp://127.0.0.1:40123". */
  String place() {
    return target.node + " at " + target.endpoint;
  }

  boolean isRefusalFinal() {
    return System.nanoTime() - refusedUntil >= 0;
  }

  boolean isUsed() {
    return !sessions.isEmpty();
  }

  void add(HubSession session) {
    sessions.add(session);
  }

  void remove(HubSession session) {
    sessions.remove(session);
  }

  /** Those of now: what is done to one may take it away. */
  List<HubSession> sessions() {
    return new ArrayList<>(sessions);
  }
}
