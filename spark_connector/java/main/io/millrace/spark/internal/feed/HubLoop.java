package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/**
 * The thread of a {@link FeedHub}: one PUSH for each node endpoint, the reply PULL, ZAP. Everything here is
 * that thread's, except where said.
 */
final class HubLoop implements Runnable {
  /** After a connection is lost: how long replies that were under way are waited for. */
  private static final long DRAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
  /** The same once a reply connection is closed too: what came over it is about to be handed over. */
  private static final long LAST_REPLIES_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
  /** A refused feeder comes again after this, for so long: section 8. */
  private static final long REFUSED_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long MAX_REFUSED_NANOS = TimeUnit.MILLISECONDS.toNanos(2500);
  private static final int REPLIES_PER_TURN = 1000;
  private static final int COMMANDS_PER_TURN = 1000;
  private static final int REPLY_EVENTS = ZMQ.EVENT_DISCONNECTED | ZMQ.EVENT_ACCEPT_FAILED;
  private static final int PUSH_EVENTS =
      ZMQ.EVENT_CONNECTED
          | ZMQ.HANDSHAKE_SUCCEEDED
          | ZMQ.EVENT_CONNECT_RETRIED
          | ZMQ.EVENT_DISCONNECTED
          | ZMQ.HANDSHAKE_FAILED_AUTH
          | ZMQ.HANDSHAKE_FAILED_PROTOCOL
          | ZMQ.HANDSHAKE_FAILED_NO_DETAIL;

  /** One node endpoint. */
  private static final class Connection {
    final FeedTarget target;
    final Set<Long> sessions = new LinkedHashSet<>();
    /** When a refusal is final: the announcement of this feeder's key may be on its way. */
    final long refusedUntil = System.nanoTime() + MAX_REFUSED_NANOS;
    ZMQ.Socket push; // null while it waits for retryAt
    long retryAt; // 0: not waiting
    boolean connected;
    boolean handshaken;
    String localAddress; // of a connection over CURVE, once it is there
    /** The node has shown that it is the node: by its login to the reply socket, or by a frame over one. */
    boolean proven;
    boolean lost;
    /** No session begins over it any more; it is closed with its last one. */
    boolean givenUp;

    Connection(FeedTarget target) {
      this.target = target;
    }
  }

  private static final class Entry {
    final FeedSession session;
    Connection connection; // null once it is lost
    boolean opened; // OPEN went out
    long outSeq;
    long inSeq;
    /** Steady time at which the session ends as BROKEN, 0 while its connection is there. */
    long brokenBy;
    String brokenWhy;

    Entry(FeedSession session) {
      this.session = session;
    }
  }

  private final HubQueue queue;
  private final Consumer<String> warnings;
  private final String principal = "feeder/" + Text.randomHex(8);
  private final BoundedLines refusals = new BoundedLines();
  private final BoundedLines shortages = new BoundedLines();
  private final ReplyAdmission admission = new ReplyAdmission(principal);
  private final ZMQ.Context context;
  private final ZMQ.Socket zap;
  private final ZMQ.Socket reply;
  private final String replyEndpoint;
  private final ZMQ.Curve.KeyPair curveKeys = ZMQ.Curve.generateKeyPair();
  private final ZMQ.Socket curveReply;
  private final Map<String, String> curveReplies = new HashMap<>(); // local address to endpoint

  private final Map<String, Connection> connections = new HashMap<>();
  private final Map<Long, Entry> sessions = new HashMap<>();
  private int draining; // entries with brokenBy
  private int waiting; // connections with retryAt
  private long logins; // made so far

  // Nonces of nodes at whose local address somebody else was met. For any thread.
  final Set<String> unproven = ConcurrentHashMap.newKeySet();
  /** What has ended JeroMQ's I/O thread; null while it runs. For any thread. */
  private volatile Throwable dead;
  // Written by the thread, read by others.
  private volatile long batchesSent;
  private volatile long bytesSent;
  private volatile long resultsReceived;
  private volatile long badFrames;

  HubLoop(HubQueue queue, Consumer<String> warnings) throws IOException {
    this.queue = queue;
    this.warnings = warnings;
    context = ZMQ.context(1);
    // Called on JeroMQ's thread as it ends, perhaps for want of memory: nothing goes over a socket any more.
    context.setUncaughtExceptionHandler(
        (thread, e) -> {
          dead = e;
          queue.post(() -> {});
        });
    List<ZMQ.Socket> opened = new ArrayList<>();
    try {
      opened.add(zap = HubSockets.zapServer(context));
      opened.add(reply = HubSockets.plainServer(context, SocketType.PULL));
      int port = reply.bindToRandomPort("tcp://127.0.0.1");
      replyEndpoint = "tcp://127.0.0.1:" + port;
      reply.base().setEventHook(event -> onReplyEvent(event.event), REPLY_EVENTS);
      opened.add(curveReply = HubSockets.curveServer(context, SocketType.PULL, curveKeys));
      curveReply.base().setEventHook(event -> onReplyEvent(event.event), REPLY_EVENTS);
    } catch (RuntimeException e) {
      opened.forEach(ZMQ.Socket::close); // the context's end waits for them
      context.close();
      queue.free();
      throw new IOException(e.getMessage(), e);
    }
  }

  HubQueue queue() {
    return queue;
  }

  String principal() {
    return principal;
  }

  String curveKey() {
    return curveKeys.publicKey;
  }

  /** False once nothing can be sent any more: JeroMQ's I/O thread has ended. */
  boolean isAlive() {
    return dead == null;
  }

  FeedStats stats() {
    return new FeedStats(batchesSent, bytesSent, resultsReceived, badFrames);
  }

  @Override
  public void run() {
    String why = "the feeder was stopped";
    try {
      ZMQ.Poller poller = context.poller(4);
      Pipe.SourceChannel wake = queue.wake();
      poller.register(wake, ZMQ.Poller.POLLIN);
      poller.register(zap, ZMQ.Poller.POLLIN);
      poller.register(reply, ZMQ.Poller.POLLIN);
      poller.register(curveReply, ZMQ.Poller.POLLIN);
      boolean more = false;
      while (!queue.closed() && dead == null) {
        poller.poll(more ? 0 : pollTimeoutMillis());
        answerZap();
        queue.rest();
        if (wake != queue.wake()) {
          poller.unregister(wake);
          wake = queue.wake();
          poller.register(wake, ZMQ.Poller.POLLIN);
        }
        more = runCommands();
        more |= drainReplies(reply);
        more |= drainReplies(curveReply);
        endBroken();
        connectAgain();
      }
      poller.close();
      if (dead != null) {
        why = "the feeder's I/O thread ended: " + dead;
        warnings.accept(why + "; its sessions are broken, and a new feeder takes its place");
      }
    } catch (RuntimeException e) {
      why = "the feeder's thread ended: " + e;
      warnings.accept(why);
    } finally {
      end(why);
    }
  }

  private void end(String why) {
    queue.close();
    runCommands();
    for (Entry entry : new ArrayList<>(sessions.values())) {
      if (dead != null) {
        // Like a lost connection: whoever feeds may try again, with another hub.
        entry.session.onEnd(SessionEnd.BROKEN, StatusCode.UNAVAILABLE, entry.session.place() + ": " + why);
        continue;
      }
      entry.session.onEnd(SessionEnd.ABORTED, StatusCode.CANCELLED, entry.session.place() + ": " + why);
      byte[] abort = Messages.encodeError(StatusCode.CANCELLED, why);
      send(entry, FrameType.ABORT, abort, Collections.<ByteBuffer>emptyList());
    }
    for (Entry entry : sessions.values()) {
      if (entry.connection != null) {
        disconnect(entry.connection, 50); // it may be one that was given up
      }
    }
    for (Connection connection : connections.values()) {
      disconnect(connection, 50);
    }
    reply.base().setEventHook(null, 0);
    reply.close();
    curveReply.base().setEventHook(null, 0);
    curveReply.close();
    zap.close();
    if (dead == null) {
      context.close(); // it waits for the I/O thread
    }
    queue.free();
  }

  private long pollTimeoutMillis() {
    if (draining == 0 && waiting == 0) {
      return -1;
    }
    long now = System.nanoTime();
    long nanos = waiting > 0 ? REFUSED_PAUSE_NANOS : DRAIN_NANOS;
    for (Entry entry : sessions.values()) {
      if (entry.brokenBy != 0) {
        nanos = Math.min(nanos, entry.brokenBy - now);
      }
    }
    return Math.max(0, TimeUnit.NANOSECONDS.toMillis(nanos) + 1);
  }

  private boolean runCommands() {
    for (int i = 0; i < COMMANDS_PER_TURN; i++) {
      Runnable command = queue.take();
      if (command == null) {
        return false;
      }
      command.run();
    }
    return true;
  }

  // ----------------------------------------------------------------------------------------- replies

  /** Called on JeroMQ's thread. */
  private void onReplyEvent(int event) {
    // Death closes both connections of a node: the second event says that nothing more will come.
    queue.post(event == ZMQ.EVENT_DISCONNECTED ? this::endDrain : this::tellShortage);
  }

  /** The listeners stand still for a moment: peers wait to be taken. */
  private void tellShortage() {
    String line =
        shortages.line(
            "too many peers have connected and not logged in, or no file descriptor is left for one; others wait "
                + "until there is room (ulimit -n; who connects?)");
    if (line != null) {
      warnings.accept(line);
    }
  }

  private void answerZap() {
    for (List<byte[]> request = HubSockets.receiveZap(zap); request != null; request = HubSockets.receiveZap(zap)) {
      String admitted = admission.principalOf(request);
      if (admitted == null) {
        String line = refusals.line("refused a reply connection of " + ReplyAdmission.describe(request));
        if (line != null) {
          warnings.accept(line);
        }
      } else {
        tellLinked(admitted);
      }
      HubSockets.answerZap(zap, request, admitted);
    }
  }

  private void tellLinked(String node) {
    for (Entry entry : sessions.values()) {
      if (entry.opened && entry.session.target().principal().equals(node)) {
        if (entry.connection != null) {
          entry.connection.proven = true;
        }
        entry.session.onStage(OpenStage.LINKED);
      }
    }
  }

  private boolean drainReplies(ZMQ.Socket from) {
    for (int i = 0; i < REPLIES_PER_TURN; i++) {
      HubSockets.Received received = HubSockets.receive(from);
      if (received == null) {
        return false;
      }
      if (admission.isBarred(received.principal)) {
        continue;
      }
      try {
        handle(received);
      } catch (BadInputException e) {
        poison(received.principal, e.getMessage());
      } catch (RuntimeException e) {
        // Whatever it was, it came from there, and others are not to suffer for it.
        poison(received.principal, e.toString());
      }
    }
    return true;
  }

  private void handle(HubSockets.Received received) throws BadInputException {
    List<ByteBuffer> parts = received.parts;
    FrameHeader header;
    try {
      header = FrameHeader.decode(parts.get(0));
    } catch (BadInputException e) {
      if (e.code() == StatusCode.UNIMPLEMENTED) {
        answerForeign(received, e.getMessage());
        return;
      }
      throw e;
    }
    header.checkParts(parts.size(), parts.size() > 1 ? parts.get(1).remaining() : 0);
    if (header.type == null && !header.optional()) {
      throw new BadInputException("unknown frame " + header.typeName());
    }
    Entry entry = sessions.get(header.session);
    if (entry == null) {
      return; // it has ended; these were under way
    }
    FeedSession session = entry.session;
    if (!session.target().principal().equals(received.principal)) {
      // A new process at an old address says that it is not the one that was meant. Only who has received
      // OPEN knows the session's number.
      if (header.type == FrameType.ERROR && header.seq == 0 && entry.inSeq == 0) {
        session.onFrame(header, parts);
        return;
      }
      throw new BadInputException("a frame for a session of another node");
    }
    if (entry.connection != null) {
      entry.connection.proven = true;
    }
    if (header.seq != entry.inSeq) {
      session.onEnd(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          session.place() + ": frame " + header.seq + " came where " + entry.inSeq
              + " was due; a reply was lost or repeated");
      return;
    }
    entry.inSeq++;
    if (header.type == null) {
      return;
    }
    if (header.type == FrameType.RESULT) {
      resultsReceived++;
    }
    session.onFrame(header, parts);
  }

  private void answerForeign(HubSockets.Received received, String message) {
    FrameHeader foreign = FrameHeader.decodeForeign(received.parts.get(0));
    Entry entry = foreign == null ? null : sessions.get(foreign.session);
    if (entry != null && entry.session.target().principal().equals(received.principal)) {
      String which = foreign.version > FrameHeader.VERSION ? "newer" : "older";
      entry.session.abort(StatusCode.UNIMPLEMENTED, message + "; the node's SDK is " + which);
    }
  }

  /** Nothing more is taken from a principal that broke the rules. */
  void poison(String who, String reason) {
    badFrames++;
    if (!admission.bar(who)) {
      return;
    }
    warnings.accept("a bad frame from " + who + ", nothing more is taken from it: " + reason);
    for (Entry entry : new ArrayList<>(sessions.values())) {
      FeedSession session = entry.session;
      if (session.target().principal().equals(who)) {
        session.onEnd(
            SessionEnd.BAD_PEER,
            StatusCode.DATA_LOSS,
            session.place() + ": the node sent a bad frame: " + reason);
      }
    }
  }

  // ---------------------------------------------------------------------------------------- commands

  void open(FeedSession session) {
    FeedTarget target = session.target();
    if (admission.isBarred(target.principal())) {
      session.onEnd(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          session.place() + ": the node sent a bad frame earlier and is not spoken to any more");
      return;
    }
    Entry entry = new Entry(session);
    sessions.put(session.id(), entry);
    attach(entry);
  }

  /** Gives a session that is not open yet its connection. */
  private void attach(Entry entry) {
    FeedSession session = entry.session;
    FeedTarget target = session.target();
    Connection connection;
    try {
      connection = findOrConnect(target);
    } catch (RuntimeException e) {
      entry.connection = null;
      session.onEnd(
          SessionEnd.BROKEN, StatusCode.UNAVAILABLE, session.place() + ": " + target.endpoint + ": " + e.getMessage());
      return;
    }
    entry.connection = connection;
    connection.sessions.add(session.id());
    if (connection.handshaken) {
      sendOpen(entry);
    } else if (connection.connected) {
      session.onStage(OpenStage.CONNECTED);
    }
  }

  private void sendOpen(Entry entry) {
    FeedSession session = entry.session;
    FeedTarget target = session.target();
    OpenFrame open =
        target.isCurve()
            ? new OpenFrame(
                session.options(),
                target.nonce,
                curveReplies.get(entry.connection.localAddress),
                "",
                curveKeys.publicKey)
            : new OpenFrame(session.options(), target.nonce, replyEndpoint, admission.challenge(), "");
    entry.opened = true;
    session.onStage(entry.connection.proven ? OpenStage.LINKED : OpenStage.OPENED);
    send(entry, FrameType.OPEN, open.encode(), Collections.<ByteBuffer>emptyList());
  }

  void sendFrame(FeedSession session, FrameType type, byte[] metadata, List<ByteBuffer> parts) {
    Entry entry = sessions.get(session.id());
    if (entry != null) {
      send(entry, type, metadata, parts);
    }
  }

  private void send(Entry entry, FrameType type, byte[] metadata, List<ByteBuffer> parts) {
    if (entry.connection == null || !entry.opened) {
      return; // lost: the session is about to end; or the node has not heard of it
    }
    if (type == FrameType.BATCH) {
      long bytes = metadata.length;
      for (ByteBuffer part : parts) {
        bytes += part.capacity();
      }
      batchesSent++;
      bytesSent += bytes;
    }
    FrameHeader header = new FrameHeader(type, entry.session.id(), entry.outSeq++, metadata.length);
    long began = System.nanoTime();
    boolean sent = HubSockets.send(entry.connection.push, header.encode(), metadata, parts);
    entry.session.countWire(System.nanoTime() - began);
    if (!sent) {
      breakOff(entry, entry.connection.target.node + ": the connection is gone");
    }
  }

  /** {@code giveUp}: whatever holds up this session's connection, the next one shall not wait for it too. */
  void closeSession(FeedSession session, byte[] abort, boolean giveUp) {
    Entry entry = sessions.get(session.id());
    if (entry == null) {
      return;
    }
    if (abort != null) {
      send(entry, FrameType.ABORT, abort, Collections.<ByteBuffer>emptyList());
    }
    Connection connection = entry.connection;
    if (connection != null) {
      connection.sessions.remove(session.id());
      giveUp(connection, giveUp);
    }
    if (entry.brokenBy != 0) {
      draining--;
    }
    sessions.remove(session.id());
  }

  // ------------------------------------------------------------------------------------- connections

  private Connection findOrConnect(FeedTarget target) {
    String key = target.endpoint + " " + target.key + " " + target.curveKey;
    Connection connection = connections.get(key);
    if (connection == null) {
      admission.expect(target);
      connection = new Connection(target);
      connect(connection);
      connections.put(key, connection);
    }
    return connection;
  }

  private void connect(Connection connection) {
    FeedTarget target = connection.target;
    ZMQ.Socket push =
        target.isCurve()
            ? HubSockets.curveClient(context, SocketType.PUSH, curveKeys, target.curveKey)
            : HubSockets.plainClient(
                context, SocketType.PUSH, principal, Logins.feederPassword(target.key, principal, ++logins));
    // Called on JeroMQ's thread. What is told of a socket that has been given up comes too late.
    push.base()
        .setEventHook(
            event -> {
              int what = event.event;
              String local = what == ZMQ.EVENT_CONNECTED ? HubSockets.localAddress(event.arg) : null;
              queue.post(() -> onEvent(connection, push, what, local));
            },
            PUSH_EVENTS);
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

  private void disconnect(Connection connection, int lingerMillis) {
    ZMQ.Socket push = connection.push;
    connection.push = null;
    if (push != null) {
      push.base().setEventHook(null, 0);
      push.setLinger(lingerMillis);
      push.close();
    }
  }

  private void onEvent(Connection connection, ZMQ.Socket push, int event, String local) {
    if (connection.lost || connection.push != push) {
      return;
    }
    boolean curve = connection.target.isCurve();
    String place = connection.target.node + " at " + connection.target.endpoint;
    switch (event) {
      case ZMQ.EVENT_CONNECTED:
        connection.connected = true;
        connection.localAddress = local;
        for (long id : connection.sessions) {
          sessions.get(id).session.onStage(OpenStage.CONNECTED);
        }
        break;
      case ZMQ.HANDSHAKE_SUCCEEDED:
        connection.handshaken = true;
        openAll(connection, place);
        break;
      case ZMQ.EVENT_CONNECT_RETRIED:
        lose(connection, SessionEnd.BROKEN, StatusCode.UNAVAILABLE, place + ": nobody listens there");
        break;
      case ZMQ.EVENT_DISCONNECTED:
        lose(
            connection,
            SessionEnd.BROKEN,
            StatusCode.UNAVAILABLE,
            place + (connection.handshaken ? ": the connection is lost" : ": the connection was closed at once"));
        break;
      case ZMQ.HANDSHAKE_FAILED_AUTH:
        if (curve && System.nanoTime() - connection.refusedUntil < 0) {
          disconnect(connection, 0);
          connection.connected = false;
          connection.retryAt = System.nanoTime() + REFUSED_PAUSE_NANOS | 1; // never 0
          waiting++;
          break;
        }
        if (!curve) {
          unproven.add(connection.target.nonce);
        }
        lose(
            connection,
            SessionEnd.REFUSED,
            StatusCode.UNAUTHENTICATED,
            place + " refused the key of this feeder; the address belongs to another process, or this feeder is "
                + "barred there after a bad frame"
                + (curve ? ", or the coordinator has not announced its CURVE key" : ""));
        break;
      default:
        lose(
            connection,
            SessionEnd.BROKEN,
            StatusCode.UNAVAILABLE,
            place + " does not speak the feed protocol's ZMTP");
    }
  }

  /** The handshake is done: the sessions that wait for it can be opened. */
  private void openAll(Connection connection, String place) {
    try {
      if (connection.target.isCurve()) {
        bindCurveReply(connection.localAddress);
      }
    } catch (RuntimeException e) {
      lose(
          connection,
          SessionEnd.BROKEN,
          StatusCode.UNAVAILABLE,
          place + ": no socket for its replies: " + e.getMessage());
      return;
    }
    for (long id : new ArrayList<>(connection.sessions)) {
      sendOpen(sessions.get(id));
    }
  }

  private void bindCurveReply(String local) {
    if (local == null) {
      throw new IllegalStateException("the connection was lost at once");
    }
    if (!curveReplies.containsKey(local)) {
      curveReplies.put(local, local + ":" + curveReply.bindToRandomPort(local));
    }
  }

  private void connectAgain() {
    if (waiting == 0) {
      return;
    }
    long now = System.nanoTime();
    for (Connection connection : new ArrayList<>(connections.values())) {
      if (connection.retryAt != 0 && connection.retryAt - now <= 0) {
        connection.retryAt = 0;
        waiting--;
        try {
          connect(connection);
        } catch (RuntimeException e) {
          lose(
              connection,
              SessionEnd.BROKEN,
              StatusCode.UNAVAILABLE,
              connection.target.node + " at " + connection.target.endpoint + ": " + e.getMessage());
        }
      }
    }
  }

  private void lose(Connection connection, SessionEnd end, StatusCode code, String why) {
    for (long id : new ArrayList<>(connection.sessions)) {
      Entry entry = sessions.get(id);
      entry.connection = null;
      if (end == SessionEnd.BROKEN) {
        breakOff(entry, why);
      } else {
        entry.session.onEnd(end, code, entry.session.place() + ": " + why);
      }
    }
    connections.values().remove(connection);
    retire(connection, 0);
  }

  /** Closes a connection that nobody uses any more. Those who wait for its handshake get another one. */
  private void giveUp(Connection connection, boolean now) {
    if (now) {
      connection.givenUp = true;
      connections.values().remove(connection);
    }
    if (!connection.givenUp || connection.handshaken && !connection.sessions.isEmpty()) {
      return;
    }
    retire(connection, 50);
    for (long id : connection.sessions) {
      Entry entry = sessions.get(id);
      entry.session.onStage(OpenStage.CONNECTING);
      attach(entry);
    }
  }

  private void retire(Connection connection, int lingerMillis) {
    connection.lost = true;
    if (connection.retryAt != 0) {
      connection.retryAt = 0;
      waiting--;
    }
    disconnect(connection, lingerMillis);
  }

  /** The session ends now if the node never spoke, otherwise when what it said has been read. */
  private void breakOff(Entry entry, String why) {
    if (entry.brokenBy != 0) {
      return;
    }
    long now = System.nanoTime();
    entry.brokenWhy = why;
    entry.brokenBy = (entry.inSeq == 0 ? now : now + DRAIN_NANOS) | 1; // never 0
    draining++;
  }

  /** A reply connection is closed: perhaps that of a node whose other connection is lost already. */
  private void endDrain() {
    if (draining == 0) {
      return;
    }
    long now = System.nanoTime();
    for (Entry entry : sessions.values()) {
      if (entry.brokenBy != 0) {
        entry.brokenBy = Math.min(entry.brokenBy - now, LAST_REPLIES_NANOS) + now | 1;
      }
    }
  }

  private void endBroken() {
    if (draining == 0) {
      return;
    }
    long now = System.nanoTime();
    List<Entry> due = new ArrayList<>();
    for (Entry entry : sessions.values()) {
      if (entry.brokenBy != 0 && entry.brokenBy - now <= 0) {
        due.add(entry);
      }
    }
    for (Entry entry : due) {
      FeedSession session = entry.session;
      session.onEnd(SessionEnd.BROKEN, StatusCode.UNAVAILABLE, session.place() + ": " + entry.brokenWhy);
      closeSession(session, null, false);
    }
  }
}
