package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotSame;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.cluster.ExecutorSite;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** An executor whose feeder has lost JeroMQ's I/O thread: the feeds after that have another one. */
public final class HubDeathTest {
  private static final int ROWS = 1000;

  @Rule public final Timeout timeout = Timeout.seconds(120);

  private final BufferPool pool = new BufferPool(64 << 20);

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

      HubHarm.endIoThread(hub);
      Eventually.await("the session's end", () -> !open.state().isOpen());
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
