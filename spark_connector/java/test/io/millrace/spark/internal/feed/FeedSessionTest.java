package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.Eventually;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.Test;

/** A session as the task has it that feeds: rows, credit, results, what is taken back. */
public final class FeedSessionTest extends HubFixture {
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
    Eventually.await("a session that is accepted", () -> session.state().accepted);
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

  private static final ArrowSchema TWO_COLUMNS =
      new ArrowSchema(
          new ArrowField("a", ArrowType.of(ArrowType.Id.BINARY), true),
          new ArrowField("b", ArrowType.of(ArrowType.Id.BINARY), true));

  /** Rows of two columns, so many bytes each. */
  private EncodedBatch twoColumns(int... bytes) {
    BatchBuilder builder = new BatchBuilder(TWO_COLUMNS, pool);
    for (int row : bytes) {
      builder.column(0).putBytes(new byte[row]);
      builder.column(1).putBytes(new byte[row]);
      builder.endRow();
    }
    return builder.finish();
  }

  @Test
  public void aRowThatNoBatchCanHaveIsRefusedAndNamed() throws Exception {
    FeedSession session = hub.open(node.target(), options(FeedMode.INFERENCE).maxBatchBytes(100_000).build());
    long id = node.accept();
    EncodedBatch first = twoColumns(1);
    node.credit(id, SendWindow.bytesOf(first), 0);
    session.send(TWO_COLUMNS, first);
    node.receive(FrameType.SCHEMA);
    node.receive(FrameType.BATCH);
    EncodedBatch large = twoColumns(50_000); // each column has less than the limit
    Runnable[] sends = {
      () -> session.awaitReady(large),
      () -> session.trySend(TWO_COLUMNS, large),
      () -> session.send(TWO_COLUMNS, large),
    };
    for (Runnable send : sends) {
      MillraceException e = failure(send);
      assertEquals(StatusCode.INVALID_ARGUMENT, e.code());
      String what = "worker:0, partition 3 (queue 'input'): row 1 takes 1002";
      assertTrue(e.getMessage(), e.getMessage().startsWith(what));
      assertTrue(e.getMessage(), e.getMessage().endsWith("at most 100000: cut the values of row 1 into several rows"));
    }
    String several = failure(() -> session.send(TWO_COLUMNS, twoColumns(1, 50_000))).getMessage();
    assertTrue(several, several.contains("rows 1 to 2 take 100"));
    assertTrue(several, several.endsWith("cut the values of row 2 into several rows"));
    assertFalse("BLOCKED or a batch: the node would bar the whole process", node.comesWithin(100));
    assertTrue(session.state().isOpen());
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
    Eventually.await("the revocation", session::isRevoked);
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
    Eventually.await("the revocation", session::isRevoked);
    node.die();
    Eventually.await("the session's end", () -> !session.state().isOpen());
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
    Eventually.await("memory that is kept", () -> pool.keptBytes() > kept);
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
    Eventually.await("bytes that nobody has read", () -> session.unreadBytes() > 0);
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
}
