package io.millrace.spark.internal.feed;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;
import zmq.Msg;
import zmq.SocketBase;
import zmq.io.Metadata;

/** JeroMQ as the feed uses it. */
final class HubSockets {
  static final long MAX_MESSAGE_BYTES = 1L << 30;
  static final String ZAP_DOMAIN = "millrace";
  static final String ZAP_ENDPOINT = "inproc://zeromq.zap.01";

  // JeroMQ takes -1 for "again at once" where a connect fails. The hub closes a socket whose connection is
  // lost, long before this.
  private static final int NEVER_MILLIS = 24 * 3600 * 1000;

  private HubSockets() {}

  private static ZMQ.Socket create(ZMQ.Context context, SocketType type) {
    ZMQ.Socket socket = context.socket(type);
    socket.setLinger(0);
    socket.setReconnectIVL(NEVER_MILLIS);
    socket.setHeartbeatIvl(1000);
    socket.setHeartbeatTimeout(4000);
    socket.setMaxMsgSize(MAX_MESSAGE_BYTES);
    socket.setSndHWM(0);
    socket.setRcvHWM(0);
    return socket;
  }

  static ZMQ.Socket plainClient(ZMQ.Context context, SocketType type, String principal, String key) {
    ZMQ.Socket socket = create(context, type);
    socket.setPlainUsername(principal);
    socket.setPlainPassword(key);
    return socket;
  }

  static ZMQ.Socket plainServer(ZMQ.Context context, SocketType type) {
    ZMQ.Socket socket = create(context, type);
    socket.setPlainServer(true);
    socket.setZAPDomain(ZAP_DOMAIN);
    return socket;
  }

  /** Answers one ZAP request; the user name is the principal. */
  static ZMQ.Socket zapServer(ZMQ.Context context) {
    ZMQ.Socket socket = context.socket(SocketType.REP);
    socket.setLinger(0);
    if (!socket.bind(ZAP_ENDPOINT)) {
      throw new IllegalStateException(ZAP_ENDPOINT + " cannot be bound");
    }
    return socket;
  }

  /**
   * Sends a message without copying it; nobody may change the parts until the peer has them.
   *
   * @return false if there is no connection
   */
  static boolean send(ZMQ.Socket socket, byte[] header, byte[] metadata, List<ByteBuffer> parts) {
    SocketBase base = socket.base();
    int more = zmq.ZMQ.ZMQ_DONTWAIT | zmq.ZMQ.ZMQ_SNDMORE;
    boolean sent =
        base.send(new Msg(header), metadata.length == 0 && parts.isEmpty() ? zmq.ZMQ.ZMQ_DONTWAIT : more);
    if (sent && metadata.length > 0) {
      sent = base.send(new Msg(metadata), parts.isEmpty() ? zmq.ZMQ.ZMQ_DONTWAIT : more);
    }
    for (int i = 0; sent && i < parts.size(); i++) {
      // JeroMQ sends all of a buffer's capacity: each part is a slice of its own.
      sent = base.send(new Msg(parts.get(i)), i + 1 < parts.size() ? more : zmq.ZMQ.ZMQ_DONTWAIT);
    }
    return sent;
  }

  /** A message that has arrived: its parts and who ZAP says has sent it. */
  static final class Received {
    final List<ByteBuffer> parts = new ArrayList<>();
    String principal = "";
  }

  /** null if there is none. */
  static Received receive(ZMQ.Socket socket) {
    SocketBase base = socket.base();
    Msg msg = base.recv(zmq.ZMQ.ZMQ_DONTWAIT);
    if (msg == null) {
      return null;
    }
    Received received = new Received();
    Metadata metadata = msg.getMetadata();
    String user = metadata == null ? null : metadata.get(Metadata.USER_ID);
    received.principal = user == null ? "" : user;
    while (msg != null) {
      ByteBuffer part = msg.buf().duplicate();
      part.clear();
      part.limit(msg.size());
      received.parts.add(part);
      // The parts of a message arrive together.
      msg = msg.hasMore() ? base.recv(0) : null;
    }
    return received;
  }
}
