package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.Eventually;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.Test;

/** What all sessions of a process may have on their way. */
public final class SendBudgetTest extends HubFixture {
  private static final int SESSIONS = 12;
  private static final int BATCHES = 10;
  private static final int ROWS = 100;

  private final SendBudget budget = new SendBudget();

  private SendBudget.Share share(int limit) {
    return budget.share(limit, () -> {});
  }

  private FeedSession accepted(long budgetBytes, List<Long> ids) throws Exception {
    FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN).budgetBytes(budgetBytes).build());
    long id = node.accept();
    node.credit(id, MUCH, 0);
    session.awaitAnswered();
    ids.add(id);
    return session;
  }

  /** Sends the batches of a partition, and waits until the node has them. */
  private void feed(FeedSession session) {
    for (int i = 0; i < BATCHES; i++) {
      session.send(Rows.SCHEMA, rows(0, ROWS)); // of the same size each
    }
    session.finish(BATCHES * ROWS);
    session.awaitReceived();
  }

  @Test
  public void manySessionsStayBelowTheBoundAndAllComeToTheirEnd() throws Exception {
    EncodedBatch one = rows(0, ROWS);
    long size = SendWindow.bytesOf(one);
    one.release();
    long limit = 5 * size + size / 2;
    long bound = limit + SESSIONS * size;
    List<Long> ids = new ArrayList<>();
    List<FeedSession> sessions = new ArrayList<>();
    for (int i = 0; i < SESSIONS; i++) {
      sessions.add(accepted(limit, ids));
    }
    List<Thread> threads = new ArrayList<>();
    for (FeedSession session : sessions) {
      Thread thread = new Thread(() -> feed(session));
      thread.start();
      threads.add(thread);
    }
    // Nothing is confirmed: all come to wait.
    for (FeedSession session : sessions) {
      Eventually.await("a session that waits for room", session::isWaitingForRoom);
    }
    long stuck = hub.budget().bytes();
    assertTrue(stuck + " of " + limit, stuck > bound - size && stuck <= bound);
    Map<Long, Long> rows = new HashMap<>();
    for (int ended = 0; ended < SESSIONS; ) {
      FakeNode.Frame frame = node.receive();
      long id = frame.header.session;
      if (frame.header.type == FrameType.BATCH) {
        long before = rows.getOrDefault(id, 0L);
        rows.put(id, before + BatchPrefix.decode(frame.metadata).rows);
        if (before > 0) {
          node.received(id, before); // the newest not yet
        }
      } else if (frame.header.type == FrameType.END_PARTITION) {
        node.received(id, rows.get(id));
        ended++;
      }
      long used = hub.budget().bytes();
      assertTrue(used + " of " + limit, used <= bound);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    for (long id : ids) {
      assertEquals((Long) (long) (BATCHES * ROWS), rows.get(id));
    }
    assertEquals(0, hub.budget().bytes());
  }

  @Test
  public void aBatchLargerThanAllOfItGoesAlone() throws Exception {
    List<Long> ids = new ArrayList<>();
    FeedSession session = accepted(1000, ids);
    long size = 0;
    for (int i = 0; i < 2; i++) {
      EncodedBatch large = rows(0, ROWS);
      size = SendWindow.bytesOf(large);
      assertTrue(size > 1000);
      assertTrue(session.trySend(Rows.SCHEMA, large)); // the first one counts, alone
    }
    EncodedBatch small = rows(0, 1);
    assertFalse(session.trySend(Rows.SCHEMA, small));
    node.received(ids.get(0), ROWS);
    session.send(Rows.SCHEMA, small);
    assertEquals(size + SendWindow.bytesOf(small), hub.budget().bytes());
  }

  /** BLOCKED confirms nothing, and the node may have used a batch before it says that it has it. */
  @Test
  public void aBlockedSessionGoesOnThoughItsLastBatchIsNotConfirmed() throws Exception {
    FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN).budgetBytes(1000).build());
    long id = node.accept();
    EncodedBatch first = rows(0, ROWS);
    long size = SendWindow.bytesOf(first);
    node.credit(id, size, 0);
    session.send(Rows.SCHEMA, first);
    EncodedBatch second = rows(0, ROWS);
    assertFalse(session.trySend(Rows.SCHEMA, second));
    node.credit(id, 2 * size, size);
    session.send(Rows.SCHEMA, second);
    assertEquals(2 * ROWS, session.state().sentRows);
  }

  /** Fills the budget with a partition that the node has not received. */
  private FeedSession full(List<Long> ids) throws Exception {
    FeedSession session = accepted(1000, ids);
    assertTrue(session.trySend(Rows.SCHEMA, rows(0, ROWS)));
    session.finish(ROWS);
    return session;
  }

  @Test
  public void anInterruptEndsTheWaitAtOnce() throws Exception {
    List<Long> ids = new ArrayList<>();
    FeedSession waits = accepted(1000, ids);
    FeedSession next = accepted(1000, ids);
    FeedSession holds = full(ids);
    assertTrue(waits.trySend(Rows.SCHEMA, rows(0, ROWS)));
    AtomicReference<MillraceException> error = new AtomicReference<>();
    Thread task = new Thread(() -> error.set(failure(() -> waits.send(Rows.SCHEMA, rows(0, ROWS)))));
    task.start();
    Eventually.await("a session that waits for room", waits::isWaitingForRoom);
    long began = System.nanoTime();
    task.interrupt();
    task.join();
    assertTrue("late", System.nanoTime() - began < 4_000_000_000L);
    assertEquals(StatusCode.CANCELLED, error.get().code());
    assertFalse(waits.isWaitingForRoom());
    holds.abort(StatusCode.CANCELLED, "enough");
    assertEquals(0, hub.budget().bytes());
    assertTrue(next.trySend(Rows.SCHEMA, rows(0, ROWS)));
    assertTrue(next.trySend(Rows.SCHEMA, rows(0, ROWS)));
  }

  @Test
  public void aWaitForRoomSaysSo() throws Exception {
    FeedSession waits =
        hub.open(node.target(), options(FeedMode.TRAIN).budgetBytes(1000).feedTimeoutMillis(300).build());
    node.credit(node.accept(), MUCH, 0);
    waits.send(Rows.SCHEMA, rows(0, 1));
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    full(new ArrayList<>());
    MillraceException e = failure(() -> waits.send(Rows.SCHEMA, rows(0, 1)));
    assertEquals(StatusCode.DEADLINE_EXCEEDED, e.code());
    assertTrue(e.getMessage(), e.getMessage().startsWith("no room to send more rows of partition 3"));
    assertFalse(waits.isWaitingForRoom());
  }

  @Test
  public void whoWaitsGetsRoomInTurn() {
    SendBudget.Share a = share(10);
    SendBudget.Share b = share(10);
    for (SendBudget.Share share : new SendBudget.Share[] {a, b}) {
      for (int i = 0; i < 2; i++) {
        assertTrue(share.reserve());
        share.sent(5);
      }
    }
    assertEquals("two that count, and two last ones", 20, budget.bytes());
    assertFalse(b.reserve());
    assertFalse(a.reserve());
    a.release(5);
    assertFalse("after the other one", a.reserve());
    assertTrue(b.reserve());
    b.sent(5);
    a.release(5); // the last: the program has used it
    assertTrue("what does not count needs no room", a.reserve());
    a.sent(5);
    assertEquals(20, budget.bytes());
  }

  /** One thread that reads the results of two sessions, as zipped RDDs are: the first waits for the second. */
  @Test
  public void aSessionNeedsNoOtherOneToGoOn() {
    SendBudget.Share paused = share(10);
    assertTrue(paused.reserve());
    paused.sent(100);
    SendBudget.Share other = share(10);
    for (int i = 0; i < 3; i++) {
      assertTrue(other.reserve());
      other.sent(100);
      other.release(i == 0 ? 0 : 100);
    }
    other.followed();
    other.release(100);
    assertEquals(100, budget.bytes());
  }
}
