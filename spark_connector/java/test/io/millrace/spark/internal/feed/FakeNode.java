package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/**
 * The node's end of the protocol, driven frame by frame by a test: for what no real node does, or not at a
 * given moment. The methods are for one thread.
 */
public final class FakeNode implements AutoCloseable {
  /** A frame that has arrived. */
  static final class Frame {
    final FrameHeader header;
    final ByteBuffer metadata;
    final List<ByteBuffer> body;

    Frame(FrameHeader header, List<ByteBuffer> parts) {
      this.header = header;
      this.metadata = parts.size() > 1 ? parts.get(1) : ByteBuffer.allocate(0);
      this.body = parts.size() > 2 ? parts.subList(2, parts.size()) : Collections.<ByteBuffer>emptyList();
    }

    long credit() {
      long bytes = metadata.remaining();
      for (ByteBuffer part : body) {
        bytes += part.remaining();
      }
      return bytes;
    }
  }

  private final String nonce;
  private final String key;
  private final ZMQ.Context context = ZMQ.context(1);
  private final ZMQ.Socket pull;
  private final String endpoint;
  private final Thread zap;
  private final Map<Long, Long> seqs = new HashMap<>();
  private final List<ZMQ.Socket> strangers = new ArrayList<>();
  private ZMQ.Socket push;
  private String feeder = ""; // that sent the last frame
  private boolean closed;

  public FakeNode() {
    this(Text.randomHex(8), Text.randomHex(8));
  }

  /** Admits feeders that know {@code key}. */
  FakeNode(String nonce, String key) {
    this.nonce = nonce;
    this.key = key;
    ZMQ.Socket handler = HubSockets.zapServer(context);
    zap = new Thread(() -> answerZap(handler), "fake-node-zap");
    zap.start();
    pull = HubSockets.plainServer(context, SocketType.PULL);
    pull.setHandshakeIvl(30_000); // a hub on a busy machine may take longer than a stranger is given
    endpoint = "tcp://127.0.0.1:" + pull.bindToRandomPort("tcp://127.0.0.1");
  }

  private void answerZap(ZMQ.Socket handler) {
    try {
      while (true) {
        byte[] version = handler.recv();
        String id = handler.recvStr();
        String[] rest = new String[6];
        for (int i = 0; i < rest.length; i++) {
          rest[i] = handler.recvStr();
        }
        long count = rest[5].length() < 16 ? 0 : Long.parseUnsignedLong(rest[5].substring(0, 16), 16);
        boolean admitted = rest[5].equals(Logins.feederPassword(key, rest[4], count));
        handler.send(version, ZMQ.SNDMORE);
        handler.send(id, ZMQ.SNDMORE);
        handler.send(admitted ? "200" : "400", ZMQ.SNDMORE);
        handler.send("", ZMQ.SNDMORE);
        handler.send(admitted ? rest[4] : "", ZMQ.SNDMORE);
        handler.send("");
      }
    } catch (RuntimeException e) {
      handler.close(); // the context is being closed
    }
  }

  public FeedTarget target() {
    return new FeedTarget("worker:0", nonce, endpoint, key);
  }

  /** The next frame, which must come within 10 s. */
  Frame receive() throws BadInputException {
    long deadline = System.nanoTime() + 10_000_000_000L;
    while (System.nanoTime() < deadline) {
      HubSockets.Received received = HubSockets.receive(pull);
      if (received != null) {
        feeder = received.principal;
        FrameHeader header = FrameHeader.decode(received.parts.get(0));
        header.checkParts(received.parts.size(), received.parts.size() > 1 ? received.parts.get(1).remaining() : 0);
        return new Frame(header, received.parts);
      }
      pause();
    }
    throw new AssertionError("no frame came");
  }

  Frame receive(FrameType type) throws BadInputException {
    Frame frame = receive();
    if (frame.header.type != type) {
      throw new AssertionError(frame.header.typeName() + " came, wanted " + type);
    }
    return frame;
  }

  /** True if a frame is here now or within {@code millis}; it stays. */
  boolean comesWithin(int millis) {
    ZMQ.Poller poller = context.poller(1);
    poller.register(pull, ZMQ.Poller.POLLIN);
    boolean came = poller.poll(millis) > 0;
    poller.close();
    return came;
  }

  private static void pause() {
    try {
      Thread.sleep(1);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Takes the OPEN of a session and connects to where it wants its replies; returns the session's id. */
  public long accept() throws BadInputException {
    Frame frame = receive(FrameType.OPEN);
    connectReply(OpenFrame.decode(frame.metadata), "node/" + nonce);
    return frame.header.session;
  }

  void connectReply(OpenFrame open, String principal) {
    if (push == null) {
      push = replyClient(open, principal, key);
    }
  }

  private ZMQ.Socket replyClient(OpenFrame open, String principal, String key) {
    ZMQ.Socket client =
        HubSockets.plainClient(
            context, SocketType.PUSH, principal, Logins.nodePassword(key, open.replyChallenge, feeder, principal));
    client.connect(open.replyEndpoint);
    return client;
  }

  /** Logs in where an OPEN wants its replies with a password of another key. */
  void connectReplyFalsely(OpenFrame open) {
    strangers.add(replyClient(open, target().principal(), "a stranger's"));
  }

  void reply(long session, FrameType type, byte[] metadata, ByteBuffer... body) {
    long seq = seqs.merge(session, 1L, Long::sum) - 1;
    raw(new FrameHeader(type, session, seq, metadata.length).encode(), metadata, body);
  }

  void raw(byte[] header, byte[] metadata, ByteBuffer... body) {
    if (!HubSockets.send(push, header, metadata, Arrays.asList(body))) {
      throw new AssertionError("the reply cannot be sent");
    }
  }

  void skipSeq(long session) {
    seqs.merge(session, 1L, Long::sum);
  }

  public void credit(long session, long limit, long released) {
    reply(session, FrameType.CREDIT, Counts.encode(limit, released));
  }

  /** The answer to REVOKE. */
  public void revoked(long session, long row) {
    reply(session, FrameType.REVOKED, Counts.encode(row));
  }

  public void done(long session, long rows) {
    reply(session, FrameType.DONE, Counts.encode(rows, 0));
  }

  public void received(long session, long row) {
    reply(session, FrameType.RECEIVED, Counts.encode(row));
  }

  public void acknowledged(long session, long row) {
    reply(session, FrameType.ACK, Counts.encode(row));
  }

  /** Waits for REVOKE, past whatever comes before; returns its row. */
  public long awaitRevoke() throws BadInputException {
    Frame frame = receive();
    while (frame.header.type != FrameType.REVOKE) {
      frame = receive();
    }
    return Counts.decode(frame.metadata).first;
  }

  void error(long session, StatusCode code, String message) {
    reply(session, FrameType.ERROR, Messages.encodeError(code, message));
  }

  /** The program has ended with this error. */
  void programEnded(long session, StatusCode code, String message) {
    reply(session, FrameType.ERROR, Messages.encodeError(code, message, true));
  }

  @Override
  public void close() {
    die();
  }

  /** Closes everything at once. */
  void die() {
    if (closed) {
      return;
    }
    closed = true;
    pull.close();
    strangers.forEach(ZMQ.Socket::close);
    if (push != null) {
      push.close();
    }
    context.close();
    try {
      zap.join();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
