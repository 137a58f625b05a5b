package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.feed.FeedTarget;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.feed.FakeNode;
import io.millrace.spark.internal.feed.FeedMode;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.Rows;
import io.millrace.spark.internal.feed.SessionEnd;
import io.millrace.spark.internal.feed.SessionOptions;
import org.junit.After;
import org.junit.Test;

/** What a JVM gives to a slow node, and takes back from it when its task has ended. */
public final class SiteMoveTest extends FakeAgentTest {
  private static final int NODE = 0; // its executor id

  private final BufferPool pool = new BufferPool(1 << 20);
  private final FakeNode node = new FakeNode();

  @After
  public void closeNode() {
    node.close();
  }

  private static PartitionReport report(Movable movable) throws Exception {
    String json =
        "{\"state\":\"finished\",\"executor_id\":" + NODE + ",\"resume_row\":0,\"partition_state\":\"pending\"}";
    FeedTarget target = FeedTarget.of(Json.parseObject(json, 4), nonce -> false);
    return new PartitionReport("feed", 3, target, 9, 0, "", 0, movable);
  }

  /** A coordinator that answers "pace" with this. */
  private FakeAgent pace(String rooms, String takeBack) throws Exception {
    String answer = "{\"id\":$id,\"result\":{\"rooms\":[" + rooms + "],\"take_back\":[" + takeBack + "]}}";
    return fake("'gateway pace') echo \"" + answer.replace("\"", "\\\"") + "\";;");
  }

  /** A session whose node has all of its 20 rows, and whose task has ended. */
  private FollowedSession follow(ExecutorSite site, FeedSession[] session, long[] id, Movable movable)
      throws Exception {
    session[0] = ExecutorSite.hub().open(node.target(), SessionOptions.builder("feed", FeedMode.TRAIN).build());
    FollowedSession told = site.ledger().follow(session[0], report(movable));
    id[0] = node.accept();
    node.credit(id[0], 1L << 40, 0);
    assertTrue(told.awaitBegun());
    session[0].send(Rows.SCHEMA, Rows.batch(pool, 0, 20));
    session[0].finish(20);
    node.received(id[0], 20);
    session[0].awaitReceived();
    told.setReceived();
    return told;
  }

  private static final String TAKEN = "{\"feed\":\"feed\",\"partition\":3,\"feeder_attempt\":9}";

  @Test
  public void whatIsTakenBackAfterItsTaskHasEndedIsToldAsItsEnd() throws Exception {
    FakeAgent fake = pace("", "{\"feed\":\"other\",\"partition\":3,\"feeder_attempt\":9}," + TAKEN);
    ExecutorSite site = site();
    FeedSession[] session = new FeedSession[1];
    long[] id = new long[1];
    FollowedSession told = follow(site, session, id, Movable.ANY_ROW);
    assertEquals(Long.MAX_VALUE, node.awaitRevoke());
    node.revoked(id[0], 4);
    node.acknowledged(id[0], 4);
    node.done(id[0], 4);
    told.awaitEndTold();
    assertEquals(SessionEnd.REVOKED, session[0].state().end);
    String end = fake.log();
    end = end.substring(end.lastIndexOf("\"report\""));
    assertTrue(end, end.contains("\"state\":\"failed\""));
    assertTrue(end, end.contains("\"rows_received\":4,\"rows_acked\":4,"));
    assertTrue(end, end.contains("\"movable\":\"any_row\""));
    // The last word is that nothing is left there; what was acknowledged counts for its pace.
    Eventually.await(
        "the last pace", () -> fake.log().contains("\"rows_acked\":4,\"rows_unread\":0,\"partitions\":0}"));
    site.leave();
  }

  @Test
  public void aPartitionThatMayMoveAsAWholeIsAskedForFromItsFirstRowOn() throws Exception {
    pace("", TAKEN);
    ExecutorSite site = site();
    FeedSession[] session = new FeedSession[1];
    long[] id = new long[1];
    FollowedSession told = follow(site, session, id, Movable.WHOLE);
    assertEquals(0, node.awaitRevoke());
    node.revoked(id[0], 0);
    node.done(id[0], 0);
    told.awaitEndTold();
    assertEquals(0, session[0].state().rowsInDoubt());
    site.leave();
  }

  @Test
  public void anUnreadPartitionIsEnoughForANodeWhosePaceNobodyKnows() throws Exception {
    pace("", "");
    ExecutorSite site = site();
    assertTrue("nothing is there", site.ledger().hasRoom(NODE));
    FollowedSession told = follow(site, new FeedSession[1], new long[1], Movable.ANY_ROW);
    assertFalse("a partition is there", site.ledger().hasRoom(NODE));
    assertTrue("another node", site.ledger().hasRoom(NODE + 1));
    node.close();
    told.awaitEndTold();
    Eventually.await("room", () -> site.ledger().hasRoom(NODE));
    site.leave();
  }

  @Test
  public void aNodeMayHaveAsManyUnreadRowsAsTheCoordinatorSays() throws Exception {
    FakeAgent fake = pace("{\"executor_id\":" + NODE + ",\"rows\":15}", "");
    ExecutorSite site = site();
    long[] id = new long[1];
    FollowedSession told = follow(site, new FeedSession[1], id, Movable.ANY_ROW);
    Eventually.await("its pace", () -> fake.log().contains("\"rows_unread\":20,\"partitions\":1}"));
    assertFalse("20 rows are unread", site.ledger().hasRoom(NODE));
    node.acknowledged(id[0], 6);
    Eventually.await("room", () -> site.ledger().hasRoom(NODE));
    node.done(id[0], 20);
    told.awaitEndTold();
    site.leave();
  }
}
