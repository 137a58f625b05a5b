package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.base.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/**
 * Rows that a JVM writes into a node's memory (docs/feed_protocol.md, section 10). Where one of them is killed:
 * //testing/ledger:java_kills_test.
 */
public final class SharedMemoryTest {
  /** About 90 KB. */
  private static final int BATCH_ROWS = 2000;

  @Rule public final Timeout timeout = Timeout.seconds(240);

  private final BufferPool pool = new BufferPool(64 << 20);
  private final List<String> warnings = new ArrayList<>();
  private final FeedHub hub = FeedHub.start(warnings::add);

  @After
  public void close() {
    hub.close();
  }

  private static SessionOptions.Builder options(FeedMode mode, long partition) {
    return SessionOptions.builder("feed", mode).partition(partition).feedTimeoutMillis(60_000).sharedMemory(true);
  }

  private FeedSession open(FeedTarget target) {
    return hub.open(target, options(FeedMode.TRAIN, 0).build());
  }

  /** Feeds whole batches of the ids from {@code firstId} on; returns once every row is received. */
  private FeedSession feed(FeedTarget target, long partition, long firstId, int batches) {
    FeedSession session = hub.open(target, options(FeedMode.TRAIN, partition).build());
    for (int i = 0; i < batches; i++) {
      session.send(Rows.SCHEMA, Rows.batch(pool, firstId + (long) i * BATCH_ROWS, BATCH_ROWS));
    }
    session.finish((long) batches * BATCH_ROWS);
    session.awaitReceived();
    return session;
  }

  private static int mappedSegments() {
    try {
      int mapped = 0;
      for (String line : Files.readAllLines(Paths.get("/proc/self/maps"))) {
        mapped += line.contains("memfd:millrace-feed") ? 1 : 0;
      }
      return mapped;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Since Java 9; before, the garbage collector unmaps. */
  private static void awaitUnmapped() throws Exception {
    if (!System.getProperty("java.specification.version").startsWith("1.")) {
      Eventually.await("no segment is mapped", () -> mappedSegments() == 0);
    }
  }

  @Test
  public void rowsOfManyPartitionsAreReadWhereTheyWereWritten() throws Exception {
    int partitions = 4;
    int batches = 40;
    long rows = (long) batches * BATCH_ROWS;
    ExecutorService tasks = Executors.newFixedThreadPool(partitions);
    try (NodeProcess node = new NodeProcess("--batch-rows=" + BATCH_ROWS, "--budget-bytes=4194304")) {
      List<Future<FeedSession>> fed = new ArrayList<>();
      for (int p = 0; p < partitions; p++) {
        long partition = p;
        fed.add(tasks.submit(() -> feed(node.target(), partition, partition * rows, batches)));
      }
      for (Future<FeedSession> one : fed) {
        one.get();
      }
      // Once the connection's memory is mapped, a session has room before its first credit.
      long all = partitions * rows;
      assertEquals(all * (all - 1) / 2, node.awaitRows(all));
      long before = hub.stats().batchesSent - hub.stats().batchesPlaced;
      feed(node.target(), partitions, 0, 1);
      assertEquals("a batch through the socket", before, hub.stats().batchesSent - hub.stats().batchesPlaced);
      assertEquals("one segment for the connection", 1, mappedSegments());
      node.say("feed_end feed");
      assertEquals(BATCH_ROWS * (BATCH_ROWS - 1L) / 2, node.awaitRows(BATCH_ROWS));
      node.say("end");
      JsonObject stopped = node.await("stopped");
      assertEquals("", stopped.string("why_not_shared"));
      assertTrue(stopped.toString(), stopped.count("batches_placed") > 0);
      assertEquals(stopped.count("batches_placed"), hub.stats().batchesPlaced);
      assertEquals((long) partitions * batches + 1, hub.stats().batchesSent);
    } finally {
      tasks.shutdownNow();
    }
    awaitUnmapped();
    assertEquals(new ArrayList<String>(), warnings);
  }

  /** A batch that is encoded in room of the session's, once there is room and it is known how much it takes. */
  private static EncodedBatch encode(FeedSession session, BatchBuilder builder, long firstId, int rows) {
    assertTrue(session.beginWriting());
    try {
      BodyMemory room = builder.wantedBytes() == 0 ? null : session.lend(builder.wantedBytes());
      if (room != null) {
        builder.begin(room);
      }
      Rows.put(builder, firstId, rows);
      return builder.finish();
    } finally {
      session.endWriting();
    }
  }

  @Test
  public void rowsAreEncodedWhereTheNodeReadsThem() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=" + BATCH_ROWS, "--budget-bytes=4194304")) {
      FeedSession session = open(node.target());
      BatchBuilder builder = new BatchBuilder(Rows.SCHEMA, pool);
      Random random = new Random(1);
      long rows = 0;
      int there = 0;
      int elsewhere = 0;
      while (there < 200) {
        // Now and then so many, or so few, that the batch does not lie there in the end.
        int count = random.nextInt(8) == 0 ? 1 + random.nextInt(4 * BATCH_ROWS) : BATCH_ROWS - random.nextInt(100);
        EncodedBatch batch = encode(session, builder, rows, count);
        there += batch.lent() != null ? 1 : 0;
        elsewhere += batch.lent() == null ? 1 : 0;
        session.send(Rows.SCHEMA, batch);
        rows += count;
      }
      assertTrue(elsewhere + " elsewhere", elsewhere > 1);
      session.finish(rows);
      session.awaitReceived();
      node.say("feed_end feed");
      assertEquals(rows * (rows - 1) / 2, node.awaitRows(rows));
      assertTrue(hub.stats().batchesPlaced >= there);
    }
    awaitUnmapped();
  }

  /** The room of a session that has ended is another one's only when nothing is written any more. */
  @Test
  public void theNodeHearsOfTheEndOnceARowIsWritten() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=" + BATCH_ROWS)) {
      FeedSession session = open(node.target());
      BatchBuilder builder = new BatchBuilder(Rows.SCHEMA, pool);
      for (long id = 0; ; id += BATCH_ROWS) {
        EncodedBatch batch = encode(session, builder, id, BATCH_ROWS);
        session.send(Rows.SCHEMA, batch);
        if (batch.lent() != null) {
          break;
        }
      }
      CountDownLatch told = new CountDownLatch(1);
      session.whenEnded(told::countDown);
      assertTrue(session.beginWriting());
      BodyMemory room = session.lend(builder.wantedBytes());
      Thread other = new Thread(() -> session.abort(StatusCode.CANCELLED, "enough"));
      other.start();
      other.join();
      assertEquals(SessionEnd.ABORTED, session.state().end);
      FeedSession after = feed(node.target(), 1, 0, 1); // the hub has done what it was asked to do before
      assertEquals(1, told.getCount());
      room.bytes().put(room.bytes().capacity() - 1, (byte) 1); // it is mapped still
      session.endWriting();
      assertTrue(told.await(10, TimeUnit.SECONDS));
      assertThrows(MillraceException.class, session::beginWriting);
      assertNull(session.lend(builder.wantedBytes()));
      room.release();
      after.abort(StatusCode.CANCELLED, "enough");
    }
    awaitUnmapped();
  }

  @Test
  public void resultsOfWhatWasWrittenThereComeBack() throws Exception {
    try (NodeProcess node = new NodeProcess("--mode=inference", "--batch-rows=" + BATCH_ROWS)) {
      FeedSession session = hub.open(node.target(), options(FeedMode.INFERENCE, 0).build());
      long sent = 0;
      while (hub.stats().batchesPlaced < 3 || hub.stats().resultsPlaced < 3) {
        session.send(Rows.SCHEMA, Rows.batch(pool, sent, BATCH_ROWS));
        sent += BATCH_ROWS;
        FeedResult result = session.nextResult();
        assertEquals(sent - BATCH_ROWS, result.columns().get(0).getLong(0));
        assertEquals(Rows.text(sent - 1), result.columns().get(1).getString(BATCH_ROWS - 1));
      }
      session.finish(sent);
      assertNull(session.nextResult());
    }
  }

  @Test
  public void aNodeThatSharesNothingIsFedThroughTheSocket() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=" + BATCH_ROWS, "--no-shared-memory")) {
      feed(node.target(), 0, 0, 20);
      node.say("feed_end feed");
      node.awaitRows(20L * BATCH_ROWS);
      node.say("end");
      assertEquals(0, node.await("stopped").count("batches_placed"));
      assertEquals(0, hub.stats().batchesPlaced);
    }
  }

  /** The node names what is not there, or something else: as it looks in another PID namespace. */
  @Test
  public void whatCannotBeMappedIsNamedAndTheSocketServes() throws Exception {
    try (FakeNode node = new FakeNode()) {
      String self = Paths.get("/proc/self").toRealPath().getFileName().toString();
      SegmentName[] names = {
        new SegmentName(Long.parseLong(self), 1_000_000, 8192, "0"),
        new SegmentName(Long.parseLong(self), 0, 8192, "0"),
        new SegmentName(0, 0, 8192, "0"),
        new SegmentName(1, 1, 8193, "0"),
        new SegmentName(1, 1, Long.MAX_VALUE & -4096, "0"),
      };
      for (SegmentName name : names) {
        FeedSession session = open(node.target());
        long id = node.accept();
        node.reply(id, FrameType.SEGMENT, name.encode());
        node.credit(id, 1 << 20, 0);
        String reason = Messages.decodeMapped(node.receive(FrameType.MAPPED).metadata);
        assertTrue(reason, !reason.isEmpty());
        assertEquals("no shared memory with " + node.target().node + ": " + reason, warnings.remove(0));
        session.send(Rows.SCHEMA, Rows.batch(pool, 0, BATCH_ROWS));
        node.receive(FrameType.SCHEMA);
        assertTrue(!node.receive(FrameType.BATCH).body.isEmpty());
        session.abort(StatusCode.CANCELLED, "enough");
        node.receive(FrameType.ABORT);
      }
    }
    assertEquals(0, mappedSegments());
  }

  private static void limitAddressSpace(String bytes) throws Exception {
    String self = Paths.get("/proc/self").toRealPath().getFileName().toString();
    Process limit = new ProcessBuilder("prlimit", "--pid=" + self, "--as=" + bytes + ":").inheritIO().start();
    assertEquals(0, limit.waitFor());
  }

  /** Of 64 mappings the first ones are possible. */
  @Test
  public void whatIsTooLargeForTheAddressSpaceIsNamedAndTheSocketServes() throws Exception {
    try (NodeProcess node = new NodeProcess("--batch-rows=" + BATCH_ROWS, "--budget-bytes=" + (64L << 30))) {
      String pages = Files.readAllLines(Paths.get("/proc/self/statm")).get(0).split(" ")[0];
      limitAddressSpace(String.valueOf(Long.parseLong(pages) * 4096 + (6L << 30)));
      try {
        feed(node.target(), 0, 0, 20);
      } finally {
        limitAddressSpace("unlimited");
      }
      assertEquals(0, mappedSegments());
      String warning = warnings.remove(0);
      assertTrue(warning, warning.contains("cannot be mapped (Map failed): the address space of this JVM is limited"));
      node.say("end");
      node.awaitRows(20L * BATCH_ROWS);
      assertTrue(warning.endsWith(node.await("stopped").string("why_not_shared").replaceFirst("^[^:]*: ", "")));
    }
  }

  @Test
  public void roomAndSegmentsThatWereNotAskedForAreBadFrames() throws Exception {
    try (FakeNode node = new FakeNode()) {
      FeedSession session = open(node.target());
      long id = node.accept();
      node.reply(id, FrameType.ROOM, Counts.encode(4096, 64));
      MillraceException e = assertThrows(MillraceException.class, session::awaitDone);
      assertTrue(e.getMessage(), e.getMessage().contains("which is in no segment"));
    }
    try (FakeNode node = new FakeNode()) {
      FeedSession session = hub.open(node.target(), options(FeedMode.INFERENCE, 0).build());
      long id = node.accept();
      byte[] result = new BatchPrefix(0, 10).encode(new byte[64]);
      node.reply(id, FrameType.PLACED_RESULT, PlacedPrefix.encode(new Room(4096, 64), result));
      MillraceException e = assertThrows(MillraceException.class, session::awaitDone);
      assertTrue(e.getMessage(), e.getMessage().contains("which is in no segment"));
    }
    try (FakeNode node = new FakeNode()) {
      FeedSession session = hub.open(node.target(), options(FeedMode.TRAIN, 0).sharedMemory(false).build());
      long id = node.accept();
      node.reply(id, FrameType.SEGMENT, new SegmentName(1, 1, 8192, "0").encode());
      MillraceException e = assertThrows(MillraceException.class, session::awaitDone);
      assertTrue(e.getMessage(), e.getMessage().contains("not asked for"));
    }
  }

  /** Of a node that was killed: what it had answered is read where that can be done still. */
  @Test
  public void aResultInMemoryThatIsLostEndsTheSessionAsItsConnectionDoes() throws Exception {
    try (FakeNode node = new FakeNode()) {
      SessionRecord session = new SessionRecord(hub, 1, node.target(), options(FeedMode.INFERENCE, 0).build());
      byte[] result = PlacedPrefix.encode(new Room(4096, 64), new BatchPrefix(0, 10).encode(new byte[64]));
      new SessionReplies(session).onPlacedResult(ByteBuffer.wrap(result), "the connection is lost");
      assertEquals(SessionEnd.BROKEN, session.state().end);
      assertEquals(StatusCode.UNAVAILABLE, session.state().error.code());
      assertTrue(session.state().error.getMessage().endsWith(": the connection is lost"));
    }
  }

  @Test
  public void roomsAreUsedInOrderAndWhatIsTooSmallIsGivenUp() {
    RoomQueue rooms = new RoomQueue();
    rooms.add(new Room(4096, 128));
    rooms.add(new Room(8192, 64));
    rooms.add(new Room(16384, 640));
    assertEquals(4096, rooms.place(10).offset);
    assertNull(rooms.place(641));
    assertEquals(4160, rooms.place(64).offset);
    Room third = rooms.place(300);
    assertEquals(16384, third.offset);
    assertEquals(300, third.length);
    assertEquals(16384 + 320, rooms.place(320).offset);
    assertNull(rooms.place(1));
  }

  @Test
  public void whatIsGivenBackIsUsedNext() {
    RoomQueue rooms = new RoomQueue();
    rooms.add(new Room(4096, 1024));
    rooms.add(new Room(8192, 1024));
    rooms.giveBack(rooms.place(640), 100);
    assertEquals(4096 + 128, rooms.place(896).offset); // in one piece with the rest of its room
    rooms.giveBack(rooms.place(1024), 0);
    Room all = rooms.place(1024);
    assertEquals(8192, all.offset);
    rooms.giveBack(all, 1000);
    assertNull(rooms.place(1));
  }
}
