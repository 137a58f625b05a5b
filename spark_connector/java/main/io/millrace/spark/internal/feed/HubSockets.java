package io.millrace.spark.internal.feed;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
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
  /** Of what a PUSH is sent, which are commands alone: its server need not be the node. */
  private static final long MAX_COMMAND_BYTES = 4096;
  private static final int HANDSHAKE_MILLIS = 2000;
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
    socket.setMaxMsgSize(type == SocketType.PUSH ? MAX_COMMAND_BYTES : MAX_MESSAGE_BYTES);
    socket.setSndHWM(0);
    socket.setRcvHWM(0);
    return socket;
  }

  static ZMQ.Socket plainClient(ZMQ.Context context, SocketType type, String principal, String password) {
    ZMQ.Socket socket = create(context, type);
    socket.setPlainUsername(principal);
    socket.setPlainPassword(password);
    return socket;
  }

  static ZMQ.Socket plainServer(ZMQ.Context context, SocketType type) {
    ZMQ.Socket socket = create(context, type);
    socket.setPlainServer(true);
    socket.setHandshakeIvl(HANDSHAKE_MILLIS);
    socket.setZAPDomain(ZAP_DOMAIN);
    return socket;
  }

  static ZMQ.Socket curveClient(
      ZMQ.Context context, SocketType type, ZMQ.Curve.KeyPair keys, String serverKey) {
    ZMQ.Socket socket = create(context, type);
    socket.setCurvePublicKey(ZMQ.Curve.z85Decode(keys.publicKey));
    socket.setCurveSecretKey(ZMQ.Curve.z85Decode(keys.secretKey));
    socket.setCurveServerKey(ZMQ.Curve.z85Decode(serverKey));
    return socket;
  }

  static ZMQ.Socket curveServer(ZMQ.Context context, SocketType type, ZMQ.Curve.KeyPair keys) {
    ZMQ.Socket socket = create(context, type);
    socket.setCurveServer(true);
    socket.setHandshakeIvl(HANDSHAKE_MILLIS);
    socket.setCurvePublicKey(ZMQ.Curve.z85Decode(keys.publicKey));
    socket.setCurveSecretKey(ZMQ.Curve.z85Decode(keys.secretKey));
    socket.setZAPDomain(ZAP_DOMAIN);
    return socket;
  }

  /** Takes requests from the servers' handshakes, one after another. */
  static ZMQ.Socket zapServer(ZMQ.Context context) {
    ZMQ.Socket socket = context.socket(SocketType.REP);
    socket.setLinger(0);
    if (!socket.bind(ZAP_ENDPOINT)) {
      socket.close();
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

  /** The next request of a handshake, frame by frame, null if there is none. */
  static List<byte[]> receiveZap(ZMQ.Socket zap) {
    byte[] frame = zap.recv(ZMQ.DONTWAIT);
    if (frame == null) {
      return null;
    }
    List<byte[]> request = new ArrayList<>();
    request.add(frame);
    while (zap.hasReceiveMore()) {
      request.add(zap.recv());
    }
    return request;
  }

  /** Admits the client of a request as {@code principal}, or nobody if that is null. */
  static void answerZap(ZMQ.Socket zap, List<byte[]> request, String principal) {
    zap.send(request.get(0), ZMQ.SNDMORE);
    zap.send(request.size() > 1 ? request.get(1) : new byte[0], ZMQ.SNDMORE);
    zap.send(principal != null ? "200" : "400", ZMQ.SNDMORE);
    zap.send(principal != null ? "OK" : "refused", ZMQ.SNDMORE);
    zap.send(principal != null ? principal : "", ZMQ.SNDMORE);
    zap.send("");
  }

  /** "tcp://" the address of this host that the channel of an event leads from; null if it is closed. */
  static String localAddress(Object channel) {
    try {
      InetSocketAddress local = (InetSocketAddress) ((SocketChannel) channel).getLocalAddress();
      String host = local == null ? null : local.getAddress().getHostAddress();
      return host == null ? null : "tcp://" + (host.indexOf(':') < 0 ? host : "[" + host + "]");
    } catch (IOException e) {
      return null;
    }
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
