package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;
import org.zeromq.ZMQ;
import zmq.SocketBase;

/** A hub and its sessions against a node that does as it is told, right or wrong. */
public final class FeedSessionTest {
  private static final long MUCH = 1L << 40;

  @Rule public final Timeout timeout = Timeout.seconds(60);

  private final BufferPool pool = new BufferPool(64 << 20);
  private final List<String> warnings = Collections.synchronizedList(new ArrayList<>());
  private final FeedHub hub = FeedHub.start(warnings::add);
  private final FakeNode node = new FakeNode();

  @After
  public void close() {
    hub.close();
    node.close();
  }

  private static SessionOptions.Builder options(FeedMode mode) {
    return SessionOptions.builder("feed", mode).partition(3);
  }

  private FeedSession open(FeedMode mode) {
    return hub.open(node.target(), options(mode).build());
  }

  private EncodedBatch rows(long first, int rows) {
    return Rows.batch(pool, first, rows);
  }

  private static MillraceException failure(Runnable call) {
    return assertThrows(MillraceException.class, call::run);
  }

  /** A session with credit for everything. */
  private FeedSession accepted(FeedMode mode) throws BadInputException {
    FeedSession session = open(mode);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    return session;
  }

  /** Until a CREDIT is here. */
  private static void awaitAccepted(FeedSession session) throws InterruptedException {
    long deadline = System.nanoTime() + 10_000_000_000L;
    while (!session.state().accepted && System.nanoTime() < deadline) {
      Thread.sleep(1);
    }
    assertTrue(session.state().accepted);
  }

  // -------------------------------------------------------------------------------------- the rules

  @Test
  public void onlyOpenIsSentBeforeTheFirstCredit() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    EncodedBatch batch = rows(0, 10);
    assertFalse(session.trySend(Rows.SCHEMA, batch));
    FakeNode.Frame frame = node.receive(FrameType.OPEN);
    OpenFrame open = OpenFrame.decode(frame.metadata);
    assertEquals("feed", open.feedId);
    assertEquals(3, open.partition);
    assertFalse(node.comesWithin(200));
    node.connectReply(open, node.target().principal());
    node.credit(frame.header.session, 10, 0);
    // More than the limit: the node is told, once, and grants it.
    awaitAccepted(session);
    assertFalse(session.trySend(Rows.SCHEMA, batch));
    assertFalse(session.trySend(Rows.SCHEMA, batch));
    FakeNode.Frame blocked = node.receive(FrameType.BLOCKED);
    assertEquals(1, blocked.header.seq);
    assertEquals(SendWindow.bytesOf(batch), Counts.decode(blocked.metadata).first);
    node.credit(frame.header.session, SendWindow.bytesOf(batch), 0);
    session.send(Rows.SCHEMA, batch);
    assertEquals(2, node.receive(FrameType.SCHEMA).header.seq);
    FakeNode.Frame first = node.receive(FrameType.BATCH);
    assertEquals(3, first.header.seq);
    assertEquals(SendWindow.bytesOf(batch), first.credit());
    // What the node has let go is no credit by itself.
    EncodedBatch next = rows(10, 10);
    node.credit(frame.header.session, first.credit(), first.credit());
    assertFalse(session.trySend(Rows.SCHEMA, next));
    assertEquals(2 * first.credit(), Counts.decode(node.receive(FrameType.BLOCKED).metadata).first);
    node.credit(frame.header.session, 2 * first.credit(), first.credit());
    session.send(Rows.SCHEMA, next);
    assertEquals(10, BatchPrefix.decode(node.receive(FrameType.BATCH).metadata).firstRow);
    session.finish(20);
    assertEquals(20, Counts.decode(node.receive(FrameType.END_PARTITION).metadata).first);
  }

  @Test
  public void aTrainingSessionGoesFromOpenToDone() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 100));
    session.finish(100);
    node.receive(FrameType.SCHEMA);
    long sent = node.receive(FrameType.BATCH).credit();
    node.receive(FrameType.END_PARTITION);
    node.reply(id, FrameType.RECEIVED, Counts.encode(100));
    session.awaitReceived();
    assertEquals(SessionEnd.OPEN, session.state().end);
    node.credit(id, MUCH, sent);
    node.reply(id, FrameType.ACK, Counts.encode(100));
    node.reply(id, FrameType.DONE, Counts.encode(100, 0));
    session.awaitDone();
    SessionState state = session.state();
    assertEquals(SessionEnd.DONE, state.end);
    assertEquals(100, state.ackedRows);
    assertNull(state.error);
    assertEquals(
        StatusCode.FAILED_PRECONDITION, failure(() -> session.send(Rows.SCHEMA, rows(0, 1))).code());
    assertEquals(1, hub.stats().batchesSent);
  }

  /** A session with 20 rows sent, of which the node is asked to give back what it can. */
  private FeedSession revoked(long[] id) throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    session.revoke(Long.MAX_VALUE); // not accepted yet: it would be a mistake
    id[0] = node.accept();
    node.credit(id[0], MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 20));
    session.revoke(7);
    session.revoke(8); // once is enough
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    FakeNode.Frame frame = node.receive(FrameType.REVOKE);
    assertTrue("an older node ignores it", frame.header.optional());
    assertEquals(7, Counts.decode(frame.metadata).first);
    return session;
  }

  @Test
  public void whatTheProgramWasNotGivenIsTakenBack() throws Exception {
    long[] id = new long[1];
    FeedSession session = revoked(id);
    node.reply(id[0], FrameType.REVOKED, Counts.encode(7));
    Rows.await(session::isRevoked);
    session.send(Rows.SCHEMA, rows(20, 20)); // on its way meanwhile: goes nowhere
    session.finish(40);
    session.awaitReceived();
    assertFalse("a frame after REVOKED", node.comesWithin(100));
    assertTrue(session.state().isOpen());
    assertEquals("all before it were given to the program", 7, session.state().receivedRows);
    node.reply(id[0], FrameType.ACK, Counts.encode(7));
    node.reply(id[0], FrameType.DONE, Counts.encode(7, 0));
    session.awaitDone();
    SessionState state = session.state();
    assertEquals(SessionEnd.REVOKED, state.end);
    assertEquals(7, state.ackedRows);
    assertEquals(7, state.rowsInDoubt());
    assertTrue(state.error.getMessage(), state.error.getMessage().contains("from row 7 on"));
    assertEquals("what had no place to go", 1, hub.stats().batchesSent);
  }

  @Test
  public void aTaskThatWaitsForCreditEndsWhenTheRestIsTakenBack() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = node.accept();
    EncodedBatch first = rows(0, 20);
    node.credit(id, SendWindow.bytesOf(first), 0);
    session.send(Rows.SCHEMA, first);
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Thread feeds =
        new Thread(
            () -> {
              session.send(Rows.SCHEMA, rows(20, 20));
              session.finish(40);
              session.awaitReceived();
            });
    feeds.setUncaughtExceptionHandler((thread, e) -> thrown.set(e));
    feeds.start();
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    node.receive(FrameType.BLOCKED);
    session.revoke(Long.MAX_VALUE);
    node.receive(FrameType.REVOKE);
    node.reply(id, FrameType.REVOKED, Counts.encode(5));
    feeds.join();
    assertNull(thrown.get());
  }

  @Test
  public void whatIsLostAfterItWasTakenBackIsInDoubtUpToThere() throws Exception {
    long[] id = new long[1];
    FeedSession session = revoked(id);
    node.reply(id[0], FrameType.ACK, Counts.encode(3));
    node.reply(id[0], FrameType.REVOKED, Counts.encode(7));
    Rows.await(session::isRevoked);
    node.die();
    Rows.await(() -> !session.state().isOpen());
    assertEquals(SessionEnd.BROKEN, session.state().end);
    assertEquals(7, session.state().rowsInDoubt());
    assertEquals(3, session.state().ackedRows);
  }

  @Test
  public void aNodeThatGivesNothingBackGoesOn() throws Exception {
    long[] id = new long[1];
    FeedSession session = revoked(id);
    session.finish(20);
    node.reply(id[0], FrameType.RECEIVED, Counts.encode(20));
    session.awaitReceived();
    node.reply(id[0], FrameType.DONE, Counts.encode(20, 0));
    session.awaitDone();
    assertEquals(SessionEnd.DONE, session.state().end);
  }

  @Test
  public void whatIsGivenBackWithoutBeingAskedForIsABadFrame() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 20));
    node.reply(id, FrameType.REVOKED, Counts.encode(7));
    assertEquals(StatusCode.DATA_LOSS, failure(session::awaitDone).code());
    assertEquals(SessionEnd.BAD_PEER, session.state().end);
  }

  @Test
  public void moreThanWasSentIsNotGivenBack() throws Exception {
    long[] id = new long[1];
    FeedSession session = revoked(id);
    node.reply(id[0], FrameType.REVOKED, Counts.encode(21));
    assertEquals(StatusCode.DATA_LOSS, failure(session::awaitDone).code());
  }

  @Test
  public void aSessionResumesAtTheRowItIsGiven() throws Exception {
    FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN).firstRow(50).build());
    long id = node.accept();
    node.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(50, 10));
    session.finish(60);
    node.reply(id, FrameType.DONE, Counts.encode(10, 0));
    session.awaitDone();
    node.receive(FrameType.SCHEMA);
    assertEquals(50, BatchPrefix.decode(node.receive(FrameType.BATCH).metadata).firstRow);
  }

  @Test
  public void memoryOfWhatTheNodeHasIsUsedAgain() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    EncodedBatch batch = rows(0, 10_000);
    session.send(Rows.SCHEMA, batch);
    long kept = pool.keptBytes();
    node.reply(id, FrameType.RECEIVED, Counts.encode(10_000));
    Rows.await(() -> pool.keptBytes() > kept);
  }

  @Test
  public void anotherSchemaIsRefused() throws Exception {
    FeedSession session = accepted(FeedMode.TRAIN);
    session.send(Rows.SCHEMA, rows(0, 1));
    ArrowSchema other = new ArrowSchema(new ArrowField("y", ArrowType.of(ArrowType.Id.INT8), true));
    BatchBuilder builder = new BatchBuilder(other, pool);
    builder.column(0).putByte((byte) 1);
    builder.endRow();
    EncodedBatch batch = builder.finish();
    MillraceException e = failure(() -> session.send(other, batch));
    assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
    assertTrue(e.getMessage(), e.getMessage().contains("row 1"));
  }

  @Test
  public void resultsComeInOrderWhileRowsAreSent() throws Exception {
    FeedSession session = open(FeedMode.INFERENCE);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 20));
    node.reply(id, FrameType.SCHEMA, SchemaMessage.encode(Rows.SCHEMA));
    result(id, 0, 5);
    assertEquals(FeedSession.Ready.RESULT, session.awaitReady(null));
    FeedResult result = session.nextResult();
    assertEquals(0, result.firstRow());
    assertEquals(5, result.rows());
    assertEquals("row \u20ac4", result.columns().get(1).getString(4));
    assertEquals(FeedSession.Ready.SEND, session.awaitReady(rows(20, 1)));
    assertNull(session.pollResult());
    session.finish(20);
    result(id, 5, 15);
    node.reply(id, FrameType.DONE, Counts.encode(20, 20));
    session.awaitDone();
    assertTrue(session.unreadBytes() > 0);
    assertEquals(FeedSession.Ready.RESULT, session.awaitReady(null));
    assertEquals(5, session.nextResult().firstRow());
    assertEquals(FeedSession.Ready.DONE, session.awaitReady(null));
    assertNull(session.nextResult());
  }

  @Test
  public void resultsThatAreTakenMakeRoomForMore() throws Exception {
    FeedSession session = open(FeedMode.INFERENCE);
    FakeNode.Frame frame = node.receive(FrameType.OPEN);
    OpenFrame open = OpenFrame.decode(frame.metadata);
    assertEquals(ResultQueue.WINDOW_BYTES, open.resultLimit);
    node.connectReply(open, node.target().principal());
    long id = frame.header.session;
    node.credit(id, MUCH, 0);
    int rows = 200_000;
    session.send(Rows.SCHEMA, rows(0, rows));
    node.receive(FrameType.SCHEMA);
    long bytes = node.receive(FrameType.BATCH).credit();
    assertTrue(bytes > ResultQueue.WINDOW_BYTES / 4);
    node.reply(id, FrameType.SCHEMA, SchemaMessage.encode(Rows.SCHEMA));
    result(id, 0, rows);
    Rows.await(() -> session.unreadBytes() > 0);
    assertFalse(node.comesWithin(50));
    assertEquals(rows, session.nextResult().rows());
    assertEquals(
        ResultQueue.WINDOW_BYTES + bytes, Counts.decode(node.receive(FrameType.RESULT_CREDIT).metadata).first);
  }

  private void result(long id, long firstRow, int rows) {
    EncodedBatch batch = rows(firstRow, rows);
    node.reply(
        id,
        FrameType.RESULT,
        new BatchPrefix(firstRow, rows).encode(batch.message()),
        batch.parts().toArray(new ByteBuffer[0]));
  }

  // ------------------------------------------------------------------------------------------ ends

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
    long id = node.accept();
    node.credit(id, 1 << 20, 0);
    session.send(Rows.SCHEMA, rows(0, 10));
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    node.error(id, StatusCode.UNAVAILABLE, "the reply connection is lost");
    assertEquals(StatusCode.UNAVAILABLE, failure(session::awaitDone).code());
    assertEquals(SessionEnd.BROKEN, session.state().end);
    // No acknowledgement came, and yet the program may have used them all.
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
      Rows.await(() -> session.state().receivedRows == 10);
      mortal.reply(id, FrameType.ACK, Counts.encode(4));
      Rows.await(() -> session.state().ackedRows == 4);
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
  public void closingTheHubEndsItsSessions() throws Exception {
    FeedSession session = accepted(FeedMode.TRAIN);
    hub.close();
    assertEquals(SessionEnd.ABORTED, session.state().end);
    assertEquals(StatusCode.CANCELLED, failure(() -> session.finish(0)).code());
    assertEquals(StatusCode.CANCELLED, failure(() -> open(FeedMode.TRAIN).finish(0)).code());
  }

  // ------------------------------------------------------------------------------- hostile replies

  private interface Misdeed {
    void run(long session) throws BadInputException;
  }

  /** A misdeed in a session whose node was sent 10 rows: how does it end? */
  private SessionState after(FeedMode mode, Misdeed misdeed) throws Exception {
    try (FakeNode bad = new FakeNode()) {
      return after(bad, mode, misdeed);
    }
  }

  private FakeNode current;

  private SessionState after(FakeNode bad, FeedMode mode, Misdeed misdeed) throws Exception {
    current = bad;
    FeedSession session = hub.open(bad.target(), options(mode).build());
    long id = bad.accept();
    bad.credit(id, MUCH, 0);
    session.send(Rows.SCHEMA, rows(0, 10));
    bad.receive(FrameType.SCHEMA);
    bad.receive(FrameType.BATCH);
    misdeed.run(id);
    Rows.await(() -> session.state().end != SessionEnd.OPEN);
    return session.state();
  }

  private void assertPoisons(FeedMode mode, Misdeed misdeed) throws Exception {
    try (FakeNode bad = new FakeNode()) {
      SessionState state = after(bad, mode, misdeed);
      assertEquals(SessionEnd.BAD_PEER, state.end);
      assertEquals(StatusCode.DATA_LOSS, state.error.code());
      // Nothing is sent to it or taken from it any more.
      FeedSession next = hub.open(bad.target(), options(mode).build());
      Rows.await(() -> next.state().end == SessionEnd.BAD_PEER);
    }
  }

  @Test
  public void badFramesPoisonTheirSender() throws Exception {
    byte[] none = {};
    List<Misdeed> misdeeds = new ArrayList<>();
    misdeeds.add(id -> current.raw(new byte[32], none));
    misdeeds.add(id -> current.raw(new byte[0], none));
    misdeeds.add(id -> current.reply(id, FrameType.CREDIT, Counts.encode(1)));
    misdeeds.add(id -> current.reply(id, FrameType.CREDIT, Counts.encode(0, 0)));
    misdeeds.add(id -> current.reply(id, FrameType.CREDIT, Counts.encode(MUCH, MUCH)));
    misdeeds.add(id -> current.reply(id, FrameType.CREDIT, Counts.encode(MUCH, -1)));
    misdeeds.add(id -> current.reply(id, FrameType.RECEIVED, Counts.encode(11)));
    misdeeds.add(id -> current.reply(id, FrameType.ACK, Counts.encode(11)));
    misdeeds.add(
        id -> {
          current.reply(id, FrameType.ACK, Counts.encode(5));
          current.reply(id, FrameType.ACK, Counts.encode(4));
        });
    misdeeds.add(id -> current.reply(id, FrameType.ERROR, "{\"code\":1}".getBytes(StandardCharsets.UTF_8)));
    misdeeds.add(id -> current.reply(id, FrameType.OPEN, Messages.encodeTerminated("x")));
    misdeeds.add(id -> current.reply(id, FrameType.SCHEMA, SchemaMessage.encode(Rows.SCHEMA)));
    misdeeds.add(id -> current.reply(id, FrameType.RESULT, new byte[24]));
    for (Misdeed misdeed : misdeeds) {
      assertPoisons(FeedMode.TRAIN, misdeed);
    }
    assertTrue(warnings.toString(), warnings.size() >= misdeeds.size());
    // Others are not touched.
    assertEquals(SessionEnd.OPEN, accepted(FeedMode.TRAIN).state().end);
  }

  @Test
  public void aResultThatDoesNotDecodePoisonsItsSender() throws Exception {
    try (FakeNode bad = new FakeNode()) {
      FeedSession session = hub.open(bad.target(), options(FeedMode.INFERENCE).build());
      long id = bad.accept();
      bad.credit(id, MUCH, 0);
      session.send(Rows.SCHEMA, rows(0, 10));
      bad.reply(id, FrameType.SCHEMA, SchemaMessage.encode(Rows.SCHEMA));
      bad.reply(id, FrameType.RESULT, new BatchPrefix(0, 10).encode(new byte[64]));
      assertEquals(StatusCode.DATA_LOSS, failure(session::nextResult).code());
      assertEquals(SessionEnd.BAD_PEER, session.state().end);
      FeedSession next = hub.open(bad.target(), options(FeedMode.INFERENCE).build());
      Rows.await(() -> next.state().end == SessionEnd.BAD_PEER);
    }
  }

  @Test
  public void whatIsNotARowsWorthOfResultsIsDataLoss() throws Exception {
    long[][] wrong = {{1, 4}, {0, 11}};
    for (long[] rows : wrong) {
      SessionState state =
          after(
              FeedMode.INFERENCE,
              id -> {
                current.reply(id, FrameType.SCHEMA, SchemaMessage.encode(Rows.SCHEMA));
                EncodedBatch batch = rows(rows[0], (int) rows[1]);
                current.reply(
                    id,
                    FrameType.RESULT,
                    new BatchPrefix(rows[0], (int) rows[1]).encode(batch.message()),
                    batch.parts().toArray(new ByteBuffer[0]));
              });
      assertEquals(SessionEnd.BAD_PEER, state.end);
      assertEquals(StatusCode.DATA_LOSS, state.error.code());
    }
    SessionState early = after(FeedMode.INFERENCE, id -> current.reply(id, FrameType.DONE, Counts.encode(10, 10)));
    assertEquals(StatusCode.DATA_LOSS, early.error.code());
  }

  @Test
  public void aGapInSeqIsDataLoss() throws Exception {
    SessionState state =
        after(
            FeedMode.TRAIN,
            id -> {
              current.skipSeq(id);
              current.reply(id, FrameType.ACK, Counts.encode(1));
            });
    assertEquals(SessionEnd.BAD_PEER, state.end);
    assertTrue(state.error.getMessage(), state.error.getMessage().contains("lost or repeated"));
  }

  @Test
  public void aNewerNodeIsUnimplemented() throws Exception {
    SessionState state =
        after(
            FeedMode.TRAIN,
            id -> {
              byte[] header = new FrameHeader(FrameType.ACK, id, 1, 0).encode();
              header[4] = FrameHeader.VERSION + 1;
              current.raw(header, new byte[0]);
            });
    assertEquals(SessionEnd.ABORTED, state.end);
    assertEquals(StatusCode.UNIMPLEMENTED, state.error.code());
  }

  @Test
  public void anUnknownTypeIsIgnoredIfItIsOptional() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    long id = node.accept();
    byte[] header = new FrameHeader(FrameType.ACK, id, 0, 3).encode();
    header[5] = 99;
    header[6] = 1;
    node.raw(header, new byte[3]);
    node.skipSeq(id);
    node.credit(id, MUCH, 0);
    session.finish(0);
    assertEquals(SessionEnd.OPEN, session.state().end);
  }

  @Test
  public void aNodeCannotSpeakForAnother() throws Exception {
    FeedSession session = accepted(FeedMode.TRAIN);
    SessionState thief =
        after(
            FeedMode.TRAIN,
            id -> current.raw(new FrameHeader(FrameType.ACK, session.id(), 1, 8).encode(), Counts.encode(0)));
    assertEquals(SessionEnd.BAD_PEER, thief.end);
    assertEquals(SessionEnd.OPEN, session.state().end);
  }

  @Test
  public void strangersAtTheReplySocketHarmNobody() throws Exception {
    FeedSession session = open(FeedMode.TRAIN);
    FakeNode.Frame open = node.receive(FrameType.OPEN);
    OpenFrame said = OpenFrame.decode(open.metadata);
    int port = Integer.parseInt(said.replyEndpoint.substring(said.replyEndpoint.lastIndexOf(':') + 1));
    byte[] greeting = new byte[64];
    greeting[0] = (byte) 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    System.arraycopy("PLAIN".getBytes(StandardCharsets.UTF_8), 0, greeting, 12, 5);
    byte[] hello = {4, 8, 5, 'H', 'E', 'L', 'L', 'O', (byte) 0xff, 1};
    for (byte[] bytes : new byte[][] {new byte[200], greeting, join(greeting, hello), join(greeting, new byte[300])}) {
      try (Socket socket = new Socket("127.0.0.1", port)) {
        OutputStream out = socket.getOutputStream();
        out.write(bytes);
        out.flush();
        Thread.sleep(20);
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

  private int replyPort(OpenFrame open) {
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
      FakeNode.Frame open = node.receive(FrameType.OPEN);
      assertTrue(doomed.isAlive());
      Field loop = FeedHub.class.getDeclaredField("loop");
      loop.setAccessible(true);
      Field reply = HubLoop.class.getDeclaredField("reply");
      reply.setAccessible(true);
      SocketBase base = ((ZMQ.Socket) reply.get(loop.get(doomed))).base();
      base.setEventHook(null, 0);
      // Called on JeroMQ's thread, as its own code is that may find no memory.
      base.setEventHook(
          event -> {
            throw new OutOfMemoryError("as if");
          },
          ZMQ.EVENT_ACCEPTED);
      new Socket("127.0.0.1", replyPort(OpenFrame.decode(open.metadata))).close();
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
