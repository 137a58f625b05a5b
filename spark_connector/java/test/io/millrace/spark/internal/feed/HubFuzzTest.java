package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/**
 * Peers that say anything, before and after a handshake, on both sockets of a hub. The hub's I/O thread goes on,
 * and serves a node that means well.
 */
public final class HubFuzzTest {
  private static final int STRANGERS = 2000;
  private static final int NODES = 200;
  private static final int PATIENCE_MILLIS = 30_000;
  // Of nodes, those whose connections stay open, until the hub's heartbeat has had no answer.
  private static final int SILENT_NODES = 20;
  private static final String KEY = "0123";

  private static final byte COMMAND = 4;
  private static final String[] BEGINNINGS = {
    "", "\5HELLO", "\7WELCOME", "\10INITIATE", "\5READY", "\5ERROR", "\4PING", "\4PONG", "\11SUBSCRIBE", "\7MESSAGE"
  };

  @Rule public final Timeout timeout = Timeout.seconds(100);

  private final Random random = new Random(7);
  private final FeedHub hub = FeedHub.start(warning -> {});

  @After
  public void close() {
    hub.close();
  }

  // ------------------------------------------------------------------------------------------ ZMTP by hand

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }

  private static byte[] greeting(String mechanism, boolean server) {
    byte[] greeting = new byte[64];
    greeting[0] = (byte) 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    System.arraycopy(bytes(mechanism), 0, greeting, 12, mechanism.length());
    greeting[32] = (byte) (server ? 1 : 0);
    return greeting;
  }

  private static byte[] frame(int flags, byte[] body) {
    ByteBuffer frame = ByteBuffer.allocate(2 + body.length);
    return frame.put((byte) flags).put((byte) body.length).put(body).array();
  }

  /** The body of the next frame with these flags, however long; others are passed over. */
  private static byte[] hear(DataInputStream in, int flags) throws IOException {
    while (true) {
      int seen = in.readUnsignedByte();
      byte[] body = new byte[(seen & 2) != 0 ? (int) in.readLong() : in.readUnsignedByte()];
      in.readFully(body);
      if ((seen & ~2) == flags) {
        return body;
      }
    }
  }

  private static DataInputStream reader(Socket socket) throws IOException {
    socket.setSoTimeout(PATIENCE_MILLIS);
    return new DataInputStream(socket.getInputStream());
  }

  private byte[] noise(int size) {
    byte[] noise = new byte[size];
    random.nextBytes(noise);
    return noise;
  }

  /** A few frames, right in their form more often than not. */
  private byte[] frames() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (int i = random.nextInt(6); i >= 0; i--) {
      byte[] begin = bytes(BEGINNINGS[random.nextInt(BEGINNINGS.length)]);
      byte[] rest = noise(random.nextInt(4) == 0 ? 0 : random.nextInt(200));
      ByteArrayOutputStream body = new ByteArrayOutputStream();
      body.write(begin);
      body.write(rest);
      switch (random.nextInt(8)) {
        case 0: // a length that is not that
          out.write(ByteBuffer.allocate(9).put((byte) (2 | random.nextInt(8))).putLong(random.nextLong()).array());
          break;
        case 1: // flags that there are not
          out.write(frame(random.nextInt(256) & ~2, body.toByteArray()));
          break;
        case 2:
          out.write(frame(random.nextInt(2), body.toByteArray()));
          break;
        default:
          out.write(frame(COMMAND, body.toByteArray()));
          break;
      }
    }
    return out.toByteArray();
  }

  /** Says something and goes, by a reset as often as not. The other side may have gone before. */
  private void sayAndGo(Socket socket, byte[]... what) throws IOException {
    socket.setSoLinger(random.nextBoolean(), 0);
    try (Socket closed = socket) {
      OutputStream out = closed.getOutputStream();
      for (byte[] part : what) {
        out.write(part);
      }
    } catch (IOException e) {
      assertTrue(hub.isAlive());
    }
  }

  // ---------------------------------------------------------------------------------------------- the tests

  private void awaitSilence(List<Socket> sockets) throws IOException {
    for (Socket socket : sockets) {
      DataInputStream in = reader(socket);
      try {
        while (in.read() >= 0) {
          continue;
        }
      } catch (IOException e) {
        assertTrue(e.toString(), e.getMessage().contains("reset"));
      }
      socket.close();
    }
  }

  /** A node that means well has its session accepted. */
  private void expectService() throws Exception {
    assertTrue(hub.isAlive());
    try (FakeNode node = new FakeNode()) {
      FeedSession session = hub.open(node.target(), SessionOptions.builder("feed", FeedMode.TRAIN).build());
      node.credit(node.accept(), 1 << 20, 0);
      session.awaitAnswered();
      assertTrue(session.state().accepted);
    }
  }

  /** The OPEN of a session with a node that takes every login. */
  private OpenFrame openAt(Socket push) throws Exception {
    DataInputStream in = reader(push);
    OutputStream out = push.getOutputStream();
    out.write(greeting("PLAIN", true));
    in.readFully(new byte[64]);
    hear(in, COMMAND);
    out.write(frame(COMMAND, bytes("\7WELCOME")));
    hear(in, COMMAND);
    out.write(frame(COMMAND, bytes("\5READY\13Socket-Type\0\0\0\4PULL")));
    hear(in, 1); // the header of OPEN
    return OpenFrame.decode(ByteBuffer.wrap(hear(in, 0)));
  }

  /** Logged in to the hub's reply socket, as the node that `open` came to. */
  private Socket replyTo(OpenFrame open, String nonce) throws Exception {
    URI endpoint = URI.create(open.replyEndpoint);
    Socket socket = new Socket(endpoint.getHost(), endpoint.getPort());
    DataInputStream in = reader(socket);
    OutputStream out = socket.getOutputStream();
    String user = "node/" + nonce;
    String password = Logins.nodePassword(KEY, open.replyChallenge, hub.principal(), user);
    out.write(greeting("PLAIN", false));
    in.readFully(new byte[64]);
    out.write(frame(COMMAND, bytes("\5HELLO" + (char) user.length() + user + (char) password.length() + password)));
    hear(in, COMMAND);
    out.write(frame(COMMAND, bytes("\10INITIATE\13Socket-Type\0\0\0\4PUSH")));
    hear(in, COMMAND);
    return socket;
  }

  @Test
  public void strangersSayAnything() throws Exception {
    String[] mechanisms = {"PLAIN", "PLAIN", "PLAIN", "CURVE", "NULL", "GSSAPI", ""};
    OpenFrame open;
    try (ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
      hub.open(target(server, "aa"), SessionOptions.builder("feed", FeedMode.TRAIN).build());
      try (Socket push = server.accept()) {
        open = openAt(push);
      }
    }
    URI endpoint = URI.create(open.replyEndpoint);
    for (int i = 0; i < STRANGERS; i++) {
      Socket socket = new Socket(endpoint.getHost(), endpoint.getPort());
      byte[] greeting = greeting(mechanisms[random.nextInt(mechanisms.length)], random.nextBoolean());
      if (random.nextInt(8) == 0) {
        greeting[random.nextInt(64)] ^= 1 + random.nextInt(255);
      }
      sayAndGo(socket, greeting, frames());
    }
    expectService();
  }

  @Test
  public void nodesSayAnythingOnceTheyAreLoggedIn() throws Exception {
    List<Socket> silent = new ArrayList<>();
    for (int i = 0; i < NODES; i++) {
      String nonce = Integer.toHexString(0x1000 + i);
      try (ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
        server.setSoTimeout(PATIENCE_MILLIS);
        hub.open(target(server, nonce), SessionOptions.builder("feed", FeedMode.TRAIN).partition(i).build());
        Socket push = server.accept();
        Socket reply = replyTo(openAt(push), nonce);
        if (i < SILENT_NODES) {
          push.getOutputStream().write(frame(COMMAND, bytes("\4PING\0\1")));
          reply.getOutputStream().write(frame(COMMAND, bytes("\4PING\0\1")));
          silent.add(push);
          silent.add(reply);
        } else {
          sayAndGo(push, frames());
          sayAndGo(reply, frames());
        }
      }
    }
    awaitSilence(silent);
    expectService();
  }

  private static FeedTarget target(ServerSocket server, String nonce) {
    return new FeedTarget("worker:0", nonce, "tcp://127.0.0.1:" + server.getLocalPort(), KEY);
  }
}
