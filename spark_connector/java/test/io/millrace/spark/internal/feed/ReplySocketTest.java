package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.Test;

/** Strangers at the reply sockets of a hub, and the end of the thread that serves them. */
public final class ReplySocketTest extends HubFixture {
  @Test
  public void strangersAtTheReplySocketHarmNobody() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    FakeNode.Frame open = node.receive(FrameType.OPEN);
    OpenFrame said = OpenFrame.decode(open.metadata);
    byte[] greeting = greeting();
    byte[] hello = {4, 8, 5, 'H', 'E', 'L', 'L', 'O', (byte) 0xff, 1};
    for (byte[] bytes : new byte[][] {new byte[200], greeting, join(greeting, hello), join(greeting, new byte[300])}) {
      try (Socket socket = new Socket("127.0.0.1", replyPort(said))) {
        OutputStream out = socket.getOutputStream();
        out.write(bytes);
        out.flush();
        socket.getInputStream().read(); // the hub's greeting: it has taken the connection
      } catch (IOException e) {
        assertNotNull("it was cut off", e);
      }
    }
    node.connectReply(said, node.target().principal());
    node.credit(open.header.session, MUCH, 0);
    session.finish(0);
    node.reply(open.header.session, FrameType.DONE, Counts.encode(0, 0));
    session.awaitDone();
  }

  private static byte[] greeting() {
    byte[] greeting = new byte[64];
    greeting[0] = (byte) 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    System.arraycopy("PLAIN".getBytes(StandardCharsets.UTF_8), 0, greeting, 12, 5);
    return greeting;
  }

  private static int replyPort(OpenFrame open) {
    return Integer.parseInt(open.replyEndpoint.substring(open.replyEndpoint.lastIndexOf(':') + 1));
  }

  private void finish(FeedSession session, FakeNode.Frame open) throws Exception {
    node.connectReply(OpenFrame.decode(open.metadata), node.target().principal());
    node.credit(open.header.session, MUCH, 0);
    session.finish(0);
    node.reply(open.header.session, FrameType.DONE, Counts.encode(0, 0));
    session.awaitDone();
  }

  /** Each tells of 896 MiB that are to come: together more than a test's JVM has. */
  @Test
  public void lengthsThatStrangersTellAreNotAllocated() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    FakeNode.Frame open = node.receive(FrameType.OPEN);
    byte[] told = join(greeting(), new byte[] {6, 0, 0, 0, 0, 0x38, 0, 0, 0});
    Runtime runtime = Runtime.getRuntime();
    long before = runtime.totalMemory() - runtime.freeMemory();
    List<Socket> strangers = new ArrayList<>();
    for (int i = 0; i < runtime.maxMemory() / (896L << 20) + 2; i++) {
      Socket socket = new Socket("127.0.0.1", replyPort(OpenFrame.decode(open.metadata)));
      strangers.add(socket);
      socket.getOutputStream().write(told);
      InputStream in = socket.getInputStream();
      while (in.read(new byte[64]) >= 0) {
        // its greeting; then it closes
      }
    }
    long held = runtime.totalMemory() - runtime.freeMemory() - before;
    assertTrue(held + " bytes", held < 100 << 20);
    finish(session, open);
    for (Socket socket : strangers) {
      socket.close();
    }
  }

  @Test
  public void theEndOfTheIoThreadIsToldAndBreaksTheSessions() throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    try (FeedHub doomed = FeedHub.start(lines::add)) {
      FeedSession session = doomed.open(node.target(), options(FeedMode.TRAIN).build());
      node.receive(FrameType.OPEN);
      assertTrue(doomed.isAlive());
      HubHarm.endIoThread(doomed);
      MillraceException e = failure(() -> session.finish(0));
      assertEquals(StatusCode.UNAVAILABLE, e.code());
      assertTrue(e.getMessage(), e.getMessage().contains("I/O thread ended"));
      assertEquals(SessionEnd.BROKEN, session.state().end);
      assertFalse(doomed.isAlive());
    }
    assertTrue(lines.toString(), lines.toString().contains("a new feeder takes its place"));
  }

  @Test
  public void strangersHaveFewLinesOfTheLog() throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    try (FeedHub quiet = FeedHub.start(lines::add)) {
      FeedSession session = quiet.open(node.target(), options(FeedMode.TRAIN).build());
      FakeNode.Frame open = node.receive(FrameType.OPEN);
      byte[] hello = {4, 10, 5, 'H', 'E', 'L', 'L', 'O', 1, 'x', 1, 'y'};
      List<Socket> strangers = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        Socket socket = new Socket("127.0.0.1", replyPort(OpenFrame.decode(open.metadata)));
        strangers.add(socket);
        socket.getOutputStream().write(join(greeting(), hello));
      }
      for (Socket socket : strangers) {
        try (InputStream in = socket.getInputStream()) {
          while (in.read(new byte[64]) >= 0) {
            // a refusal; at the latest the time for handshakes ends it
          }
        } catch (IOException e) {
          assertNotNull("it was cut off", e);
        }
      }
      finish(session, open);
    }
    assertTrue(lines.toString(), !lines.isEmpty() && lines.size() <= 20);
  }

  private static byte[] join(byte[] first, byte[] second) {
    return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
  }
}
