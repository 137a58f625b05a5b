package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.Test;

/** How sessions end, and what the task is told. */
public final class SessionEndTest extends HubFixture {
  @Test
  public void errorsOfTheNodeAreTyped() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    node.error(node.accept(), StatusCode.NOT_FOUND, "no queue 'input'; there are: x\u001b[2J");
    MillraceException e = failure(() -> session.send(Rows.SCHEMA, rows(0, 1)));
    assertEquals(StatusCode.NOT_FOUND, e.code());
    assertEquals("worker:0", e.node());
    assertTrue(e.getMessage(), e.getMessage().contains("worker:0, partition 3 (queue 'input'): no queue"));
    assertTrue(e.getMessage(), e.getMessage().endsWith("x\\x1b[2J"));
    assertEquals(SessionEnd.ERROR, session.state().end);
  }

  @Test
  public void unavailableIsTheNodesWordForALostConnection() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = sendTenRows(session);
    node.error(id, StatusCode.UNAVAILABLE, "the reply connection is lost");
    assertEquals(StatusCode.UNAVAILABLE, failure(session::awaitDone).code());
    assertEquals(SessionEnd.BROKEN, session.state().end);
    // No acknowledgement came, and yet the program may have used them all.
    assertEquals(10, session.state().rowsInDoubt());
  }

  @Test
  public void aProgramThatEndsWithAnErrorMayComeAgain() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = sendTenRows(session);
    node.programEnded(id, StatusCode.INTERNAL, "loss is NaN");
    MillraceException e = failure(session::awaitDone);
    assertEquals(StatusCode.INTERNAL, e.code());
    assertTrue(e.getMessage(), e.getMessage().contains("loss is NaN"));
    assertEquals(SessionEnd.BROKEN, session.state().end);
    assertEquals(10, session.state().rowsInDoubt());
  }

  @Test
  public void terminatedIsTold() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    node.reply(node.accept(), FrameType.TERMINATED, Messages.encodeTerminated("enough"));
    assertEquals(StatusCode.FAILED_PRECONDITION, failure(() -> session.finish(0)).code());
    assertEquals(SessionEnd.TERMINATED, session.state().end);
    assertEquals(0, session.state().rowsInDoubt());
  }

  @Test
  public void whatTheProgramOfATerminatedNodeHasInHandIsInDoubt() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = sendTenRows(session);
    node.reply(id, FrameType.TERMINATED, Messages.encodeTerminated("stopped", 6));
    assertEquals(StatusCode.FAILED_PRECONDITION, failure(session::awaitDone).code());
    assertEquals(SessionEnd.TERMINATED, session.state().end);
    assertEquals(6, session.state().rowsInDoubt());
  }

  @Test
  public void aSessionThatWasTerminatedHasNothingToFinish() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    node.reply(sendTenRows(session), FrameType.TERMINATED, Messages.encodeTerminated("stopped", 6));
    Eventually.await("its end", () -> !session.state().isOpen());
    assertEquals(StatusCode.FAILED_PRECONDITION, failure(() -> session.finish(10)).code());
  }

  @Test
  public void moreRowsInHandThanWereSentAreAMisdeed() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    node.reply(sendTenRows(session), FrameType.TERMINATED, Messages.encodeTerminated("stopped", 11));
    Eventually.await("its end", () -> !session.state().isOpen());
    assertEquals(SessionEnd.BAD_PEER, session.state().end);
  }

  @Test
  public void aWrongKeyIsRefusedAtOnce() {
    FeedTarget right = node.target();
    FeedSession session =
        hub.open(
            new FeedTarget("worker:0", right.nonce(), right.endpoint, "another"), options(FeedMode.TRAIN).build());
    long began = System.nanoTime();
    assertEquals(StatusCode.UNAUTHENTICATED, failure(() -> session.finish(0)).code());
    assertEquals(SessionEnd.REFUSED, session.state().end);
    assertTrue(System.nanoTime() - began < 4_000_000_000L);
  }

  @Test
  public void nobodyListensIsUnavailable() throws Exception {
    int port;
    try (ServerSocket socket = new ServerSocket(0)) {
      port = socket.getLocalPort();
    }
    FeedTarget target = new FeedTarget("worker:0", "nonce", "tcp://127.0.0.1:" + port, "key");
    FeedSession session = hub.open(target, options(FeedMode.TRAIN).build());
    MillraceException e = failure(() -> session.finish(0));
    assertEquals(StatusCode.UNAVAILABLE, e.code());
    assertEquals(SessionEnd.BROKEN, session.state().end);
    assertTrue(e.getMessage(), e.getMessage().contains("nobody listens there"));
  }

  @Test
  public void aNodeThatDoesNotConnectBackIsNoneThatIsKnown() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    MillraceException e = failure(() -> session.finish(0));
    assertEquals(StatusCode.UNAUTHENTICATED, e.code());
    assertEquals(SessionEnd.UNANSWERED, session.state().end);
    node.receive(FrameType.OPEN);
    assertEquals(StatusCode.UNAUTHENTICATED, Messages.decodeError(node.receive(FrameType.ABORT).metadata).code);
  }

  @Test
  public void deathBreaksTheSessionsAfterWhatTheNodeSaid() throws Exception {
    try (FakeNode mortal = new FakeNode()) {
      FeedSession session = hub.open(mortal.target(), options(FeedMode.TRAIN).build());
      FeedSession silent = hub.open(mortal.target(), options(FeedMode.TRAIN).build());
      long id = mortal.accept();
      mortal.receive(FrameType.OPEN);
      mortal.credit(id, MUCH, 0);
      session.send(Rows.SCHEMA, rows(0, 10));
      mortal.receive(FrameType.SCHEMA);
      mortal.receive(FrameType.BATCH);
      mortal.reply(id, FrameType.RECEIVED, Counts.encode(10));
      Eventually.await("ten rows received", () -> session.state().receivedRows == 10);
      mortal.reply(id, FrameType.ACK, Counts.encode(4));
      Eventually.await("four rows acknowledged", () -> session.state().ackedRows == 4);
      session.finish(10);
      mortal.die();
      long began = System.nanoTime();
      assertEquals(StatusCode.UNAVAILABLE, failure(session::awaitReceived).code());
      assertTrue("broken late", System.nanoTime() - began < 4_000_000_000L);
      assertEquals(SessionEnd.BROKEN, session.state().end);
      assertEquals(4, session.state().ackedRows);
      failure(() -> silent.finish(0));
      assertEquals(SessionEnd.BROKEN, silent.state().end);
    }
  }

  @Test
  public void anInterruptCancelsAndTellsTheNode() throws Exception {
    FeedSession session = accepted(FeedMode.TRAIN);
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    AtomicBoolean flag = new AtomicBoolean();
    CountDownLatch running = new CountDownLatch(1);
    Thread task =
        new Thread(
            () -> {
              try {
                session.finish(0);
                running.countDown();
                session.awaitReceived();
              } catch (MillraceException e) {
                thrown.set(e);
                flag.set(Thread.currentThread().isInterrupted());
              }
            });
    task.start();
    running.await();
    task.interrupt();
    task.join();
    assertEquals(StatusCode.CANCELLED, ((MillraceException) thrown.get()).code());
    assertTrue(flag.get());
    node.receive(FrameType.END_PARTITION);
    assertEquals(StatusCode.CANCELLED, Messages.decodeError(node.receive(FrameType.ABORT).metadata).code);
    // The hub was not touched.
    assertEquals(SessionEnd.OPEN, accepted(FeedMode.TRAIN).state().end);
  }

  @Test
  public void aCancelledTaskStopsWaiting() {
    AtomicBoolean cancelled = new AtomicBoolean();
    FeedSession session =
        hub.open(node.target(), options(FeedMode.TRAIN).cancelled(cancelled::get).build());
    cancelled.set(true);
    assertEquals(StatusCode.CANCELLED, failure(() -> session.finish(0)).code());
  }

  @Test
  public void noProgressIsATimeoutThatSaysWhatIsMissing() throws Exception {
    FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN).feedTimeoutMillis(300).build());
    long id = node.accept();
    node.reply(id, FrameType.WAIT, Counts.encode(2, 7));
    MillraceException waiting = failure(() -> session.finish(0));
    assertEquals(StatusCode.DEADLINE_EXCEEDED, waiting.code());
    assertTrue(waiting.getMessage(), waiting.getMessage().contains("did not begin to read"));
    // It counts as progress only if the position fell or the progress grew.
    assertEquals(2, session.state().waitPosition);
    node.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 2));
    session.finish(2);
    assertTrue(failure(session::awaitReceived).getMessage().contains("received no row"));
    node.reply(id, FrameType.RECEIVED, Counts.encode(2));
    session.awaitReceived();
    assertTrue(failure(session::awaitDone).getMessage().contains("is not calling NextBatch"));
    assertEquals(SessionEnd.OPEN, session.state().end);
    session.abort(StatusCode.DEADLINE_EXCEEDED, "enough waited");
    assertEquals(SessionEnd.ABORTED, session.state().end);
  }

  @Test
  public void aWaitWithoutProgressIsTold() throws Exception {
    FeedSession session = open(FeedMode.INFERENCE);
    node.reply(node.accept(), FrameType.WAIT, Counts.encode(2, 7));
    session.awaitAnswered();
    Thread waiting = new Thread(() -> failure(() -> session.finish(0)));
    waiting.start();
    Eventually.await("a warning", () -> !warnings.isEmpty());
    session.abort(StatusCode.CANCELLED, "enough waited");
    waiting.join();
    String told = warnings.toString();
    assertTrue(told, told.startsWith("[worker:0 has not begun to read partition 3 (queue 'input'): 2 session(s)"));
    assertTrue(told, told.contains("inference begins when training on the queue has ended: endFeed, or train with"));
    assertTrue(told, told.endsWith(" s so far, at most 600.0 s (feed_timeout)]"));
  }

  @Test
  public void closingTheHubEndsItsSessions() throws Exception {
    FeedSession session = accepted(FeedMode.TRAIN);
    hub.close();
    assertEquals(SessionEnd.ABORTED, session.state().end);
    assertEquals(StatusCode.CANCELLED, failure(() -> session.finish(0)).code());
    assertEquals(StatusCode.CANCELLED, failure(() -> open(FeedMode.TRAIN).finish(0)).code());
  }

  /** They have come to the node, which has acknowledged none; its number for the session. */
  private long sendTenRows(FeedSession session) throws Exception {
    long id = node.accept();
    node.credit(id, 1 << 20, 0);
    session.send(Rows.SCHEMA, rows(0, 10));
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    return id;
  }
}
