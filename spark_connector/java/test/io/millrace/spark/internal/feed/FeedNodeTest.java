package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.ColumnView;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.Eventually;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** The Java feeder and the C++ receiver: rows into a real node program, and results back. */
public final class FeedNodeTest {
  @Rule public final Timeout timeout = Timeout.seconds(120);

  private final BufferPool pool = new BufferPool(64 << 20);
  private final List<String> warnings = new ArrayList<>();
  private final FeedHub hub = FeedHub.start(warnings::add);

  @After
  public void close() {
    hub.close();
    assertEquals(new ArrayList<String>(), warnings);
  }

  private static SessionOptions.Builder options(FeedMode mode, long partition) {
    return SessionOptions.builder("feed", mode).partition(partition).feedTimeoutMillis(60_000);
  }

  /** Feeds the ids from {@code firstId} on; returns once every row is received. */
  private FeedSession feed(NodeProcess node, long partition, long firstId, int rows, int batchRows) {
    FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, partition).build());
    for (int row = 0; row < rows; row += batchRows) {
      session.send(Rows.SCHEMA, Rows.batch(pool, firstId + row, Math.min(batchRows, rows - row)));
    }
    session.finish(rows);
    session.awaitReceived();
    return session;
  }

  @Test
  public void trainsOnManyPartitionsAtOnce() throws Exception {
    int partitions = 8;
    int rows = 5000;
    ExecutorService tasks = Executors.newFixedThreadPool(partitions);
    try (NodeProcess node = new NodeProcess("--batch-rows=100")) {
      List<Future<FeedSession>> fed = new ArrayList<>();
      for (int p = 0; p < partitions; p++) {
        int partition = p;
        fed.add(tasks.submit(() -> feed(node, partition, (long) partition * rows, rows, 333)));
      }
      List<FeedSession> sessions = new ArrayList<>();
      for (Future<FeedSession> one : fed) {
        sessions.add(one.get());
      }
      node.say("feed_end feed");
      long all = (long) partitions * rows;
      assertEquals(all * (all - 1) / 2, node.awaitRows(all));
      node.say("end");
      for (FeedSession session : sessions) {
        session.awaitDone();
        assertEquals(rows, session.state().ackedRows);
      }
      assertEquals("stopped", node.await("stopped").string("event"));
      assertEquals(0, node.exitCode());
      assertTrue(pool.keptBytes() > 0);
    } finally {
      tasks.shutdownNow();
    }
  }

  @Test
  public void manyPartitionsOfOneBatchStayWithinTheBudget() throws Exception {
    int partitions = 100;
    int rows = 2000;
    int budget = 150_000;
    ExecutorService tasks = Executors.newFixedThreadPool(32);
    try (NodeProcess node = new NodeProcess("--batch-rows=500", "--budget-bytes=" + budget)) {
      List<Future<FeedSession>> fed = new ArrayList<>();
      for (int p = 0; p < partitions; p++) {
        int partition = p;
        fed.add(tasks.submit(() -> feed(node, partition, (long) partition * rows, rows, rows)));
      }
      for (Future<FeedSession> one : fed) {
        one.get();
      }
      node.say("feed_end feed");
      node.awaitRows((long) partitions * rows);
      node.say("end");
      long peak = node.await("stopped").count("peak_bytes");
      assertTrue("peak " + peak, peak <= budget && peak > 8 * rows);
    } finally {
      tasks.shutdownNow();
    }
  }

  @Test
  public void aPartitionWithoutRowsIsReceived() throws Exception {
    try (NodeProcess node = new NodeProcess()) {
      FeedSession session = feed(node, 0, 0, 0, 1);
      node.say("end");
      session.awaitDone();
      assertEquals(SessionEnd.DONE, session.state().end);
    }
  }

  @Test
  public void aSmallBudgetHoldsBackAndLosesNothing() throws Exception {
    try (NodeProcess node = new NodeProcess("--budget-bytes=65536", "--batch-rows=1000")) {
      FeedSession session = feed(node, 0, 0, 20_000, 500);
      node.say("feed_end feed");
      assertEquals(20_000L * 19_999 / 2, node.awaitRows(20_000));
      node.say("end");
      session.awaitDone();
    }
  }

  @Test
  public void aRowOf100MegabytesPasses() throws Exception {
    int size = 100 << 20;
    ArrowSchema schema = new ArrowSchema(new ArrowField("blob", ArrowType.of(ArrowType.Id.BINARY), false));
    try (NodeProcess node = new NodeProcess("--batch-rows=1", "--budget-bytes=1048576")) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).build());
      BatchBuilder builder = new BatchBuilder(schema, pool);
      byte[] chunk = new byte[size];
      chunk[size - 1] = 7;
      builder.column(0).putBytes(chunk);
      builder.endRow();
      EncodedBatch batch = builder.finish();
      session.send(schema, batch);
      session.finish(1);
      session.awaitReceived();
      node.awaitRows(1);
      node.say("end");
      session.awaitDone();
    }
  }

  /** One partition of inference; returns the rows that came back. */
  private long infer(NodeProcess node, long partition, int rows, int batchRows) {
    FeedSession session = hub.open(node.target(), options(FeedMode.INFERENCE, partition).build());
    long sent = 0;
    long returned = 0;
    EncodedBatch next = Rows.batch(pool, 0, Math.min(batchRows, rows));
    boolean finished = false;
    while (true) {
      FeedSession.Ready ready = session.awaitReady(next);
      if (ready == FeedSession.Ready.DONE) {
        assertTrue(finished);
        return returned;
      }
      if (ready == FeedSession.Ready.RESULT) {
        FeedResult result = session.nextResult();
        assertEquals(returned, result.firstRow());
        check(result);
        returned += result.rows();
        continue;
      }
      int count = next.rows();
      assertTrue(session.trySend(Rows.SCHEMA, next));
      sent += count;
      next = sent < rows ? Rows.batch(pool, sent, (int) Math.min(batchRows, rows - sent)) : null;
      if (next == null) {
        session.finish(rows);
        finished = true;
      }
    }
  }

  private static void check(FeedResult result) {
    assertEquals(Rows.SCHEMA, result.schema());
    ColumnView ids = result.columns().get(0);
    ColumnView texts = result.columns().get(1);
    ColumnView vectors = result.columns().get(2);
    for (int i = 0; i < result.rows(); i++) {
      long id = result.firstRow() + i;
      assertEquals(id, ids.getLong(i));
      assertEquals(id % 7 == 3, texts.isNull(i));
      assertEquals(id % 7 == 3, vectors.isNull(i));
      if (!texts.isNull(i)) {
        assertEquals(Rows.text(id), texts.getString(i));
        assertEquals(id + 0.75f, vectors.child().getFloat(4 * i + 3), 0);
      }
    }
  }

  @Test
  public void resultsComeBackRowForRow() throws Exception {
    ExecutorService tasks = Executors.newFixedThreadPool(3);
    try (NodeProcess node = new NodeProcess("--mode=inference", "--batch-rows=70")) {
      List<Future<Long>> inferred = new ArrayList<>();
      for (int p = 0; p < 3; p++) {
        int partition = p;
        inferred.add(tasks.submit(() -> infer(node, partition, 10_000 + partition, 64 + partition)));
      }
      for (int p = 0; p < 3; p++) {
        assertEquals(10_000L + p, (long) inferred.get(p).get());
      }
    } finally {
      tasks.shutdownNow();
    }
  }

  private static MillraceException failure(Runnable call) {
    return assertThrows(MillraceException.class, call::run);
  }

  @Test
  public void aNodeKilledWhileItIsFedIsNoticedAtOnce() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=10", "--die-after-rows=200")) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).build());
      MillraceException e =
          failure(
              () -> {
                for (int row = 0; row < 1_000_000; row += 100) {
                  session.send(Rows.SCHEMA, Rows.batch(pool, row, 100));
                }
              });
      assertEquals(StatusCode.UNAVAILABLE, e.code());
      assertEquals(SessionEnd.BROKEN, session.state().end);
      assertTrue(session.state().ackedRows <= 200);
      assertEquals(137, node.exitCode());
    }
  }

  @Test
  public void theTimeFromDeathToTheErrorIsShort() throws Exception {
    try (NodeProcess node = new NodeProcess("--hold")) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).build());
      Eventually.await("a place in the node's line", () -> session.state().waitPosition > 0);
      node.kill();
      long began = System.nanoTime();
      failure(() -> session.finish(0));
      assertTrue(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began) < 5000);
      assertEquals(SessionEnd.BROKEN, session.state().end);
    }
  }

  @Test
  public void aProgramThatFailsOrStopsSaysSo() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=10", "--fail-after-rows=20")) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).build());
      session.send(Rows.SCHEMA, Rows.batch(pool, 0, 100));
      MillraceException e = failure(session::awaitDone);
      assertTrue(e.getMessage(), e.getMessage().contains("the program was told to fail"));
    }
    try (NodeProcess node = new NodeProcess("--batch-rows=10", "--terminate-after-rows=20")) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).build());
      session.send(Rows.SCHEMA, Rows.batch(pool, 0, 100));
      failure(session::awaitDone);
      assertEquals(SessionEnd.TERMINATED, session.state().end);
      assertEquals(20, session.state().ackedRows);
    }
  }

  @Test
  public void aWrongQueueNonceAndKeyAreTyped() throws Exception {
    try (NodeProcess node = new NodeProcess("--queue=other")) {
      FeedTarget target = node.target();
      FeedSession queue = hub.open(target, options(FeedMode.TRAIN, 0).build());
      MillraceException e = failure(() -> queue.finish(0));
      assertEquals(StatusCode.NOT_FOUND, e.code());
      assertTrue(e.getMessage(), e.getMessage().contains("other"));
      FeedTarget old = new FeedTarget("worker:0", "0123456789abcdef", target.endpoint, target.key);
      FeedSession nonce = hub.open(old, options(FeedMode.TRAIN, 0).queue("other").build());
      assertEquals(StatusCode.FAILED_PRECONDITION, failure(() -> nonce.finish(0)).code());
      FeedTarget wrong = new FeedTarget("worker:0", target.nonce(), target.endpoint, "0000");
      FeedSession key = hub.open(wrong, options(FeedMode.TRAIN, 0).build());
      assertEquals(StatusCode.UNAUTHENTICATED, failure(() -> key.finish(0)).code());
    }
  }

  private FeedSession feedRemote(NodeProcess node, long partition, int rows) {
    FeedSession session = hub.open(node.remoteTarget(), options(FeedMode.TRAIN, partition).build());
    for (int row = 0; row < rows; row += 500) {
      session.send(Rows.SCHEMA, Rows.batch(pool, row, Math.min(500, rows - row)));
    }
    session.finish(rows);
    session.awaitReceived();
    return session;
  }

  @Test
  public void aNodeOfAnotherHostIsFedOverCurve() throws Exception {
    try (NodeProcess node = new NodeProcess("--curve")) {
      node.say("announce " + hub.principal() + " " + hub.curveKey());
      FeedSession first = feedRemote(node, 0, 5000);
      FeedSession second = feedRemote(node, 1, 5000);
      // The same node as one of this host, at the same time.
      FeedSession local = feed(node, 2, 0, 100, 10);
      node.say("feed_end feed");
      assertEquals(5000L * 4999 + 100 * 99 / 2, node.awaitRows(10_100));
      node.say("end");
      for (FeedSession session : new FeedSession[] {first, second, local}) {
        session.awaitDone();
      }
    }
  }

  @Test
  public void resultsComeBackOverCurve() throws Exception {
    try (NodeProcess node = new NodeProcess("--curve", "--mode=inference", "--batch-rows=64")) {
      node.say("announce " + hub.principal() + " " + hub.curveKey());
      FeedSession session = hub.open(node.remoteTarget(), options(FeedMode.INFERENCE, 0).build());
      session.send(Rows.SCHEMA, Rows.batch(pool, 7, 1000));
      session.finish(1000);
      long rows = 0;
      for (FeedResult result = session.nextResult(); result != null; result = session.nextResult()) {
        assertEquals(rows, result.firstRow());
        assertEquals(7 + rows, result.columns().get(0).getLong(0));
        rows += result.rows();
      }
      assertEquals(1000, rows);
    }
  }

  @Test
  public void anUnknownKeyIsRefusedAndALateAnnouncementIsInTime() throws Exception {
    try (NodeProcess node = new NodeProcess("--curve")) {
      long began = System.nanoTime();
      FeedSession unknown = hub.open(node.remoteTarget(), options(FeedMode.TRAIN, 0).build());
      MillraceException refused = assertThrows(MillraceException.class, () -> unknown.finish(0));
      assertEquals(StatusCode.UNAUTHENTICATED, refused.code());
      assertTrue(refused.getMessage(), refused.getMessage().contains("announced"));
      assertTrue(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(2));
      long before = hub.stats().refusals;
      FeedSession late = hub.open(node.remoteTarget(), options(FeedMode.TRAIN, 1).build());
      Eventually.await("a refusal", () -> hub.stats().refusals > before);
      node.say("announce " + hub.principal() + " " + hub.curveKey());
      late.finish(0);
      late.awaitReceived();
      // A stranger with a key of its own is still one.
      try (FeedHub stranger = FeedHub.start(warnings::add)) {
        FeedSession other = stranger.open(node.remoteTarget(), options(FeedMode.TRAIN, 2).build());
        assertEquals(
            StatusCode.UNAUTHENTICATED,
            assertThrows(MillraceException.class, () -> other.finish(0)).code());
      }
      node.say("end");
      late.awaitDone();
    }
  }

  @Test
  public void aWrongServerKeyAndADeadNodeAreTold() throws Exception {
    try (NodeProcess node = new NodeProcess("--curve", "--die-after-rows=1")) {
      node.say("announce " + hub.principal() + " " + hub.curveKey());
      FeedTarget right = node.remoteTarget();
      FeedTarget wrong = FeedTarget.remote("worker:0", right.nonce(), right.endpoint, hub.curveKey());
      FeedSession session = hub.open(wrong, options(FeedMode.TRAIN, 0).build());
      assertThrows(MillraceException.class, () -> session.finish(0));
      FeedSession dies = hub.open(right, options(FeedMode.TRAIN, 1).build());
      MillraceException e =
          assertThrows(
              MillraceException.class,
              () -> {
                dies.send(Rows.SCHEMA, Rows.batch(pool, 0, 100));
                dies.finish(100);
                dies.awaitDone();
              });
      assertEquals(StatusCode.UNAVAILABLE, e.code());
    }
  }
}
