package io.millrace.spark.internal.feed;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntConsumer;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/**
 * Where nodes send what they have to say, PLAIN those of this host and CURVE all others, and the socket over which
 * JeroMQ asks who may. For the hub's thread.
 */
final class ReplySockets {
  private static final int EVENTS = ZMQ.EVENT_DISCONNECTED | ZMQ.EVENT_ACCEPT_FAILED;

  private final ZMQ.Socket zap;
  private final ZMQ.Socket plain;
  private final ZMQ.Socket curve;
  private final String plainEndpoint;
  private final Map<String, String> curveEndpoints = new HashMap<>(); // by local address

  /** {@code onEvent}: a connection is closed, or cannot be accepted (ZMQ's event); called on JeroMQ's thread. */
  ReplySockets(ZMQ.Context context, FeederIdentity identity, IntConsumer onEvent) {
    List<ZMQ.Socket> opened = new ArrayList<>();
    try {
      opened.add(zap = HubSockets.zapServer(context));
      opened.add(plain = HubSockets.plainServer(context, SocketType.PULL));
      plainEndpoint = "tcp://127.0.0.1:" + plain.bindToRandomPort("tcp://127.0.0.1");
      plain.base().setEventHook(event -> onEvent.accept(event.event), EVENTS);
      opened.add(curve = HubSockets.curveServer(context, SocketType.PULL, identity.curveKeys));
      curve.base().setEventHook(event -> onEvent.accept(event.event), EVENTS);
    } catch (RuntimeException e) {
      opened.forEach(ZMQ.Socket::close); // the context's end waits for them
      throw e;
    }
  }

  /** For nodes of this host. */
  String plainEndpoint() {
    return plainEndpoint;
  }

  /** For nodes that are reached from this address, "tcp://10.0.0.7"; it is bound the first time. */
  String curveEndpoint(String localAddress) {
    return curveEndpoints.computeIfAbsent(localAddress, local -> local + ":" + curve.bindToRandomPort(local));
  }

  ZMQ.Socket zap() {
    return zap;
  }

  List<ZMQ.Socket> replies() {
    return Arrays.asList(plain, curve);
  }

  void close() {
    for (ZMQ.Socket socket : replies()) {
      socket.base().setEventHook(null, 0);
      socket.close();
    }
    zap.close();
  }
}
