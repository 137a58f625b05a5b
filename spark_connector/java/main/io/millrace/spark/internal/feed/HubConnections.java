package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/** A hub's connections to nodes: one PUSH for each node endpoint. For the hub's thread. */
final class HubConnections {
  /** What becomes of sessions with their connections. */
  interface Listener {
    /** There is a connection, and no handshake yet. */
    void onConnected(HubSession session);

    /** The node has admitted this feeder: OPEN can be sent. */
    void onHandshake(HubSession session);

    /** The session has no connection any more, for this reason. */
    void onLost(HubSession session, SessionEnd end, StatusCode code, String why);

    /** The session waits for the handshake of a connection that was given up: it needs another one. */
    void onGivenUp(HubSession session);
  }

  /** A refused feeder comes again after this. */
  private static final long REFUSED_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  private static final int LINGER_MILLIS = 50;
  private static final int EVENTS =
      ZMQ.EVENT_CONNECTED
          | ZMQ.HANDSHAKE_SUCCEEDED
          | ZMQ.EVENT_CONNECT_RETRIED
          | ZMQ.EVENT_DISCONNECTED
          | ZMQ.HANDSHAKE_FAILED_AUTH
          | ZMQ.HANDSHAKE_FAILED_PROTOCOL
          | ZMQ.HANDSHAKE_FAILED_NO_DETAIL;

  private final ZMQ.Context context;
  private final HubQueue queue;
  private final FeederIdentity identity;
  private final ReplyAdmission admission;
  private final ReplySockets replies;
  private final HubStatus status;
  private final Listener listener;
  private final Map<String, HubConnection> connections = new HashMap<>();
  private int waiting; // connections with retryAt

  HubConnections(
      ZMQ.Context context,
      HubQueue queue,
      FeederIdentity identity,
      ReplyAdmission admission,
      ReplySockets replies,
      HubStatus status,
      Listener listener) {
    this.context = context;
    this.queue = queue;
    this.identity = identity;
    this.admission = admission;
    this.replies = replies;
    this.status = status;
    this.listener = listener;
  }

  /**
   * Gives a session the connection to its node. If that is there already the session can be opened.
   *
   * @throws RuntimeException if there is no way to connect
   */
  void join(HubSession session) {
    FeedTarget target = session.target();
    String key = target.endpoint + " " + target.key + " " + target.curveKey;
    HubConnection connection = connections.get(key);
    if (connection == null) {
      admission.expect(target);
      connection = new HubConnection(target);
      connect(connection);
      connections.put(key, connection);
    }
    session.connection = connection;
    connection.add(session);
  }

  /** {@code giveUp}: whatever holds up this session's connection, the next one shall not wait for it too. */
  void leave(HubSession session, boolean giveUp) {
    HubConnection connection = session.connection;
    connection.remove(session);
    if (giveUp) {
      connection.givenUp = true;
      connections.values().remove(connection);
    }
    if (!connection.givenUp || connection.handshaken && connection.isUsed()) {
      return;
    }
    retire(connection, LINGER_MILLIS);
    connection.sessions().forEach(listener::onGivenUp);
  }

  /** Closes every connection, after what was sent last. {@code session}s may have one that was given up. */
  void close(Iterable<HubSession> sessions) {
    for (HubSession session : sessions) {
      if (session.connection != null) {
        disconnect(session.connection, LINGER_MILLIS);
      }
    }
    for (HubConnection connection : connections.values()) {
      disconnect(connection, LINGER_MILLIS);
    }
  }

  private void connect(HubConnection connection) {
    FeedTarget target = connection.target;
    ZMQ.Socket push =
        target.isCurve()
            ? HubSockets.curveClient(context, SocketType.PUSH, identity.curveKeys, target.curveKey)
            : HubSockets.plainClient(context, SocketType.PUSH, identity.principal, identity.password(target));
    // Called on JeroMQ's thread. What is told of a socket that has been given up comes too late.
    push.base()
        .setEventHook(
            event -> {
              int what = event.event;
              String local = what == ZMQ.EVENT_CONNECTED ? HubSockets.localAddress(event.arg) : null;
              queue.post(() -> onEvent(connection, push, what, local));
            },
            EVENTS);
    try {
      if (!push.connect(target.endpoint)) {
        throw new IllegalStateException("it cannot be connected to");
      }
    } catch (RuntimeException e) {
      push.close();
      throw e;
    }
    connection.push = push;
  }

  private void disconnect(HubConnection connection, int lingerMillis) {
    connection.memory.close();
    ZMQ.Socket push = connection.push;
    connection.push = null;
    if (push != null) {
      push.base().setEventHook(null, 0);
      push.setLinger(lingerMillis);
      push.close();
    }
  }

  private void retire(HubConnection connection, int lingerMillis) {
    connection.lost = true;
    if (connection.retryAt != 0) {
      connection.retryAt = 0;
      waiting--;
    }
    disconnect(connection, lingerMillis);
  }

  private void lose(HubConnection connection, SessionEnd end, StatusCode code, String why) {
    for (HubSession session : connection.sessions()) {
      session.connection = null;
      listener.onLost(session, end, code, connection.place() + why);
    }
    connections.values().remove(connection);
    retire(connection, 0);
  }

  private void breakOff(HubConnection connection, String why) {
    lose(connection, SessionEnd.BROKEN, StatusCode.UNAVAILABLE, why);
  }

  // ------------------------------------------------------------------------------------------- events

  private void onEvent(HubConnection connection, ZMQ.Socket push, int event, String local) {
    if (connection.lost || connection.push != push) {
      return;
    }
    switch (event) {
      case ZMQ.EVENT_CONNECTED:
        connection.connected = true;
        connection.localAddress = local;
        connection.sessions().forEach(listener::onConnected);
        break;
      case ZMQ.HANDSHAKE_SUCCEEDED:
        onHandshake(connection);
        break;
      case ZMQ.EVENT_CONNECT_RETRIED:
        breakOff(connection, ": nobody listens there");
        break;
      case ZMQ.EVENT_DISCONNECTED:
        breakOff(
            connection, connection.handshaken ? ": the connection is lost" : ": the connection was closed at once");
        break;
      case ZMQ.HANDSHAKE_FAILED_AUTH:
        onRefusal(connection);
        break;
      default:
        breakOff(connection, " does not speak the feed protocol's ZMTP");
    }
  }

  private void onHandshake(HubConnection connection) {
    connection.handshaken = true;
    try {
      if (connection.target.isCurve()) {
        if (connection.localAddress == null) {
          throw new IllegalStateException("the connection was lost at once");
        }
        replies.curveEndpoint(connection.localAddress);
      }
    } catch (RuntimeException e) {
      breakOff(connection, ": no socket for its replies: " + e.getMessage());
      return;
    }
    connection.sessions().forEach(listener::onHandshake);
  }

  private void onRefusal(HubConnection connection) {
    status.countRefusal();
    boolean curve = connection.target.isCurve();
    if (curve && !connection.isRefusalFinal()) {
      disconnect(connection, 0);
      connection.connected = false;
      connection.retryAt = System.nanoTime() + REFUSED_PAUSE_NANOS | 1; // never 0
      waiting++;
      return;
    }
    if (!curve) {
      status.addUnproven(connection.target.nonce);
    }
    lose(
        connection,
        SessionEnd.REFUSED,
        StatusCode.UNAUTHENTICATED,
        " refused the key of this feeder; the address belongs to another process, or this feeder is barred there "
            + "after a bad frame" + (curve ? ", or the coordinator has not announced its CURVE key" : ""));
  }

  /** How long the hub may sleep for these; {@code Long.MAX_VALUE}: until something happens. */
  long pauseNanos() {
    return waiting > 0 ? REFUSED_PAUSE_NANOS : Long.MAX_VALUE;
  }

  /** Those that were refused a moment ago. */
  void connectAgain() {
    if (waiting == 0) {
      return;
    }
    long now = System.nanoTime();
    for (HubConnection connection : new ArrayList<>(connections.values())) {
      if (connection.retryAt != 0 && connection.retryAt - now <= 0) {
        connection.retryAt = 0;
        waiting--;
        try {
          connect(connection);
        } catch (RuntimeException e) {
          breakOff(connection, ": " + e.getMessage());
        }
      }
    }
  }
}
