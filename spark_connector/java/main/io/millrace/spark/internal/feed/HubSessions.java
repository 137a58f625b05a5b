package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.zeromq.ZMQ;

/**
 * The sessions of a hub, from OPEN to their end: what goes out over their connections, whom what comes in is for, and
 * who has lost the right to be heard. For the hub's thread.
 */
final class HubSessions implements HubConnections.Listener {
  /** After a connection is lost: how long replies that were under way are waited for. */
  private static final long DRAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
  /** The same once a reply connection is closed too: what came over it is about to be handed over. */
  private static final long LAST_REPLIES_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private final FeederIdentity identity;
  private final ReplyAdmission admission;
  private final ReplySockets replies;
  private final HubStatus status;
  private final Consumer<String> warnings;
  private final HubConnections connections;
  private final Map<Long, HubSession> sessions = new HashMap<>();
  private int draining; // sessions with brokenBy

  HubSessions(
      ZMQ.Context context,
      HubQueue queue,
      FeederIdentity identity,
      ReplyAdmission admission,
      ReplySockets replies,
      HubStatus status,
      Consumer<String> warnings) {
    this.identity = identity;
    this.admission = admission;
    this.replies = replies;
    this.status = status;
    this.warnings = warnings;
    connections = new HubConnections(context, queue, identity, admission, replies, status, this);
  }

  // --------------------------------------------------------------------------------- to the node

  void open(SessionReplies opened) {
    if (admission.isBarred(opened.target().principal())) {
      opened.onEnd(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          "the node sent a bad frame earlier and is not spoken to any more");
      opened.onClosed();
      return;
    }
    HubSession session = new HubSession(opened);
    sessions.put(opened.id(), session);
    attach(session);
  }

  /** Gives a session that is not open yet its connection. */
  private void attach(HubSession session) {
    try {
      connections.join(session);
    } catch (RuntimeException e) {
      session.connection = null;
      session.replies.onEnd(
          SessionEnd.BROKEN, StatusCode.UNAVAILABLE, session.target().endpoint + ": " + e.getMessage());
      return;
    }
    if (session.connection.handshaken) {
      onHandshake(session);
    } else if (session.connection.connected) {
      onConnected(session);
    }
  }

  void send(long id, FrameType type, byte[] metadata, List<ByteBuffer> parts) {
    HubSession session = sessions.get(id);
    if (session != null) {
      send(session, type, metadata, parts);
    }
  }

  private void send(HubSession session, FrameType type, byte[] metadata, List<ByteBuffer> parts) {
    if (session.connection == null || !session.opened) {
      return; // lost: the session is about to end; or the node has not heard of it
    }
    if (type == FrameType.PLACED) {
      status.countPlaced(PlacedPrefix.batchBytes(metadata));
    } else if (type == FrameType.BATCH) {
      long bytes = metadata.length;
      for (ByteBuffer part : parts) {
        bytes += part.capacity();
      }
      status.countBatch(bytes);
    }
    FrameHeader header = new FrameHeader(type, session.replies.id(), session.outSeq++, metadata.length);
    long began = System.nanoTime();
    boolean sent = HubSockets.send(session.connection.push, header.encode(), metadata, parts);
    session.replies.countWire(System.nanoTime() - began);
    if (!sent) {
      breakOff(session, session.target().node + ": the connection is gone");
    }
  }

  private void sendAbort(HubSession session, byte[] abort) {
    send(session, FrameType.ABORT, abort, Collections.<ByteBuffer>emptyList());
  }

  /**
   * Forgets a session that has ended.
   *
   * @param abort metadata of ABORT, null if the node knows already
   * @param giveUp its connection: whatever holds it up, the next session shall not wait for it too
   */
  void close(long id, byte[] abort, boolean giveUp) {
    HubSession session = sessions.get(id);
    if (session == null) {
      return;
    }
    if (abort != null) {
      sendAbort(session, abort);
    }
    if (session.connection != null) {
      connections.leave(session, giveUp);
    }
    if (session.brokenBy != 0) {
      draining--;
    }
    sessions.remove(id);
    session.replies.onClosed();
  }

  /** The hub ends: so does every session, and every connection is closed. */
  void end(String why) {
    for (HubSession session : new ArrayList<>(sessions.values())) {
      if (status.death() != null) {
        // Like a lost connection: whoever feeds may try again, with another hub.
        session.replies.onEnd(SessionEnd.BROKEN, StatusCode.UNAVAILABLE, why);
        continue;
      }
      session.replies.onEnd(SessionEnd.ABORTED, StatusCode.CANCELLED, why);
      if (!session.replies.isWriting()) { // otherwise the end of the connection tells the node
        sendAbort(session, Messages.encodeError(StatusCode.CANCELLED, why));
      }
    }
    connections.close(sessions.values());
    sessions.values().forEach(session -> session.replies.onClosed());
  }

  // ------------------------------------------------------------------------------ its connection

  @Override
  public void onConnected(HubSession session) {
    session.replies.onStage(OpenStage.CONNECTED);
  }

  @Override
  public void onHandshake(HubSession session) {
    FeedTarget target = session.target();
    SessionOptions options = session.replies.options();
    OpenFrame open =
        target.isCurve()
            ? new OpenFrame(
                options,
                target.nonce,
                replies.curveEndpoint(session.connection.localAddress),
                "",
                identity.curveKeys.publicKey)
            : new OpenFrame(options, target.nonce, replies.plainEndpoint(), admission.challenge(), "");
    session.opened = true;
    session.awaitsSegment = open.sharedMemory;
    session.replies.onOpened(open.replyEndpoint);
    if (session.connection.proven) {
      session.replies.onStage(OpenStage.LINKED);
    } else if (session.connection.falselyProven) {
      session.replies.onStage(OpenStage.FALSELY_LINKED);
    }
    send(session, FrameType.OPEN, open.encode(), Collections.<ByteBuffer>emptyList());
  }

  @Override
  public void onLost(HubSession session, SessionEnd end, StatusCode code, String why) {
    if (end == SessionEnd.BROKEN) {
      breakOff(session, why);
    } else {
      session.replies.onEnd(end, code, why);
    }
  }

  @Override
  public void onGivenUp(HubSession session) {
    session.replies.onStage(OpenStage.CONNECTING);
    attach(session);
  }

  /** A node has logged in to a reply socket. */
  void onLinked(String node) {
    for (HubSession session : sessions.values()) {
      if (session.opened && session.target().principal().equals(node)) {
        if (session.connection != null) {
          session.connection.proven = true;
        }
        session.replies.onStage(OpenStage.LINKED);
      }
    }
  }

  /** A login to a reply socket in this node's name was not the node's. */
  void onFalselyLinked(String node) {
    for (HubSession session : sessions.values()) {
      if (session.opened && !session.target().isCurve() && session.target().principal().equals(node)) {
        if (session.connection != null) {
          session.connection.falselyProven = true;
        }
        session.replies.onStage(OpenStage.FALSELY_LINKED);
      }
    }
  }

  /** The session ends now if the node never spoke, otherwise when what it said has been read. */
  private void breakOff(HubSession session, String why) {
    if (session.brokenBy != 0) {
      return;
    }
    long now = System.nanoTime();
    session.brokenWhy = why;
    session.brokenBy = (session.inSeq == 0 ? now : now + DRAIN_NANOS) | 1; // never 0
    draining++;
  }

  /** A reply connection is closed: perhaps that of a node whose other connection is lost already. */
  void onReplyConnectionClosed() {
    if (draining == 0) {
      return;
    }
    long now = System.nanoTime();
    for (HubSession session : sessions.values()) {
      if (session.brokenBy != 0) {
        session.brokenBy = Math.min(session.brokenBy - now, LAST_REPLIES_NANOS) + now | 1;
      }
    }
  }

  /** How long the hub may sleep, should nothing happen; {@code Long.MAX_VALUE}: as long as it likes. */
  long pauseNanos() {
    long nanos = connections.pauseNanos();
    if (draining > 0) {
      long now = System.nanoTime();
      for (HubSession session : sessions.values()) {
        if (session.brokenBy != 0) {
          nanos = Math.min(nanos, session.brokenBy - now);
        }
      }
    }
    return nanos;
  }

  /** Ends those whose time is over, and connects those again that were refused. */
  void onTime() {
    endBroken();
    connections.connectAgain();
  }

  private void endBroken() {
    if (draining == 0) {
      return;
    }
    long now = System.nanoTime();
    List<HubSession> due = new ArrayList<>();
    for (HubSession session : sessions.values()) {
      if (session.brokenBy != 0 && session.brokenBy - now <= 0) {
        due.add(session);
      }
    }
    for (HubSession session : due) {
      session.replies.onEnd(SessionEnd.BROKEN, StatusCode.UNAVAILABLE, session.brokenWhy);
      close(session.replies.id(), null, false);
    }
  }

  // ------------------------------------------------------------------------------- from the node

  /** Takes what has arrived over a reply socket; who breaks the rules is not heard any more. */
  void onMessage(HubSockets.Received received) {
    if (admission.isBarred(received.principal)) {
      return;
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
    HubSession session = sessions.get(header.session);
    if (session == null) {
      return; // it has ended; these were under way
    }
    if (!session.target().principal().equals(received.principal)) {
      // A new process at an old address says that it is not the one that was meant. Only who has received
      // OPEN knows the session's number.
      if (header.type == FrameType.ERROR && header.seq == 0 && session.inSeq == 0) {
        session.replies.onFrame(header, parts);
        return;
      }
      throw new BadInputException("a frame for a session of another node");
    }
    if (session.connection != null) {
      session.connection.proven = true;
    }
    if (header.seq != session.inSeq) {
      session.replies.onEnd(
          SessionEnd.BAD_PEER,
          StatusCode.DATA_LOSS,
          "frame " + header.seq + " came where " + session.inSeq + " was due; a reply was lost or repeated");
      return;
    }
    session.inSeq++;
    if (header.type == null) {
      return;
    }
    if (header.type == FrameType.SEGMENT) {
      onSegment(session, SegmentName.decode(parts.get(1)));
    } else if (header.type == FrameType.ROOM) {
      onRoom(session, Counts.decode(parts.get(1)));
    } else if (header.type == FrameType.PLACED_RESULT) {
      status.countPlacedResult();
      if (session.connection != null) {
        session.replies.onPlacedResult(parts.get(1), session.connection.memory.segment());
      } else {
        session.replies.onPlacedResult(parts.get(1), session.brokenWhy);
      }
    } else {
      if (header.type == FrameType.RESULT) {
        status.countResult();
      }
      session.replies.onFrame(header, parts);
    }
  }

  private void onSegment(HubSession session, SegmentName name) throws BadInputException {
    if (!session.awaitsSegment) {
      throw new BadInputException("SEGMENT that was not asked for, or twice");
    }
    session.awaitsSegment = false;
    if (session.connection != null) { // otherwise it is lost
      String reason = session.connection.memory.open(name);
      if (!reason.isEmpty()) {
        warnings.accept("no shared memory with " + session.target().node + ": " + reason);
      }
      session.replies.onSegment(reason);
    }
  }

  private static void onRoom(HubSession session, Counts room) throws BadInputException {
    if (session.connection != null) {
      session.replies.onRoom(new Room(room.first, room.second), session.connection.memory.segment());
    }
  }

  private void answerForeign(HubSockets.Received received, String message) {
    FrameHeader foreign = FrameHeader.decodeForeign(received.parts.get(0));
    HubSession session = foreign == null ? null : sessions.get(foreign.session);
    if (session != null && session.target().principal().equals(received.principal)) {
      String which = foreign.version > FrameHeader.VERSION ? "newer" : "older";
      session.replies.onEnd(
          SessionEnd.ABORTED, StatusCode.UNIMPLEMENTED, message + "; the node's SDK is " + which);
    }
  }

  /** Nothing more is taken from a principal that broke the rules. */
  void poison(String who, String reason) {
    status.countBadFrame();
    if (!admission.bar(who)) {
      return;
    }
    warnings.accept("a bad frame from " + who + ", nothing more is taken from it: " + reason);
    for (HubSession session : new ArrayList<>(sessions.values())) {
      if (session.target().principal().equals(who)) {
        session.replies.onEnd(
            SessionEnd.BAD_PEER, StatusCode.DATA_LOSS, "the node sent a bad frame: " + reason);
      }
    }
  }
}
