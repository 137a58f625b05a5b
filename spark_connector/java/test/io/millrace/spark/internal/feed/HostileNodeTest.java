package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Eventually;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;

/** Nodes that break the protocol: nothing more is taken from them, and others go on. */
public final class HostileNodeTest extends HubFixture {
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
    Eventually.await("the session's end", () -> session.state().end != SessionEnd.OPEN);
    return session.state();
  }

  private void assertPoisons(FeedMode mode, Misdeed misdeed) throws Exception {
    try (FakeNode bad = new FakeNode()) {
      SessionState state = after(bad, mode, misdeed);
      assertEquals(SessionEnd.BAD_PEER, state.end);
      assertEquals(StatusCode.DATA_LOSS, state.error.code());
      // Nothing is sent to it or taken from it any more.
      FeedSession next = hub.open(bad.target(), options(mode).build());
      Eventually.await("the next session's end", () -> next.state().end == SessionEnd.BAD_PEER);
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
      Eventually.await("the next session's end", () -> next.state().end == SessionEnd.BAD_PEER);
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
}
