package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotSame;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.cluster.ExecutorSite;
import java.lang.reflect.Field;
import java.net.Socket;
import java.net.URI;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;
import org.zeromq.ZMQ;

/** An executor whose feeder has lost JeroMQ's I/O thread: the feeds after that have another one. */
public final class HubDeathTest {
  private static final int ROWS = 1000;

  @Rule public final Timeout timeout = Timeout.seconds(120);

  private final BufferPool pool = new BufferPool(64 << 20);

  private static Object member(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  /** An error on the I/O thread, as an allocation that fails is one. The next connection brings it there. */
  private static void endIoThread(FeedHub hub) throws Exception {
    Object loop = member(hub, "loop");
    zmq.SocketBase reply = ((ZMQ.Socket) member(loop, "reply")).base();
    reply.setEventHook(null, 0);
    reply.setEventHook(
        event -> {
          throw new OutOfMemoryError("a test's");
        },
        ZMQ.EVENT_ACCEPTED);
    URI endpoint = URI.create((String) member(loop, "replyEndpoint"));
    new Socket(endpoint.getHost(), endpoint.getPort()).close();
    while (hub.isAlive()) {
      Thread.sleep(1);
    }
  }

  private static SessionOptions options(long partition) {
    return SessionOptions.builder("feed", FeedMode.TRAIN).partition(partition).feedTimeoutMillis(60_000).build();
  }

  private void feed(FeedSession session, long firstId) {
    session.send(Rows.SCHEMA, Rows.batch(pool, firstId, ROWS));
    session.finish(ROWS);
    session.awaitReceived();
  }

  @Test
  public void theNextFeedHasAnotherHub() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=" + ROWS)) {
      FeedHub hub = ExecutorSite.hub();
      assertSame(hub, ExecutorSite.hub());
      feed(hub.open(node.target(), options(0)), 0);
      FeedSession open = hub.open(node.target(), options(1));

      endIoThread(hub);
      while (open.state().end == SessionEnd.OPEN) {
        Thread.sleep(1);
      }
      assertEquals("as over a lost connection", SessionEnd.BROKEN, open.state().end);
      MillraceException e = assertThrows(MillraceException.class, open::awaitReceived);
      assertEquals(StatusCode.UNAVAILABLE, e.code());
      assertTrue(e.getMessage(), e.getMessage().contains("I/O thread"));

      FeedHub next = ExecutorSite.hub();
      assertNotSame(hub, next);
      assertTrue(next.isAlive());
      feed(next.open(node.target(), options(1)), ROWS);
      node.say("feed_end feed");
      long all = 2L * ROWS;
      assertEquals(all * (all - 1) / 2, node.awaitRows(all));
      next.close();
    }
  }
}
