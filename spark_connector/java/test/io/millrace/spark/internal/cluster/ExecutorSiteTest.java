package io.millrace.spark.internal.cluster;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedMode;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.FeedTarget;
import io.millrace.spark.internal.feed.SessionEnd;
import io.millrace.spark.internal.feed.SessionOptions;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.Test;

/** What a JVM has of a cluster, with agents that end at the wrong moment. */
public final class ExecutorSiteTest extends FakeAgentTest {
  /** A session whose node is gone. */
  private static FeedSession broken() {
    FeedTarget nobody = new FeedTarget("worker:0", "nonce", "tcp://127.0.0.1:1", "key");
    return ExecutorSite.hub().open(nobody, SessionOptions.builder("feed", FeedMode.TRAIN).build());
  }

  private static final String LOOKUP =
      "{\"state\":\"finished\",\"executor_id\":0,\"resume_row\":0,\"partition_state\":\"feeding\"}";

  private static PartitionReport report() throws Exception {
    FeedTarget node = FeedTarget.of(Json.parseObject(LOOKUP, 4), nonce -> false);
    return new PartitionReport("feed", 3, node, 1, 0, "", 0, Movable.ANY_ROW);
  }

  @Test
  public void theLastWordOfASessionGoesAnotherWayIfTheAgentEnds() throws Exception {
    FakeAgent fake =
        fake("'agent start') " + FakeAgent.ANSWER + "; " + FakeAgent.RUNNING + ";; 'agent report') exit 0;;");
    ExecutorSite site = site();
    assertTrue(site.places().claim(0, 1));
    assertTrue(site.places().startAgent(0, new Params(), null).awaitRunning());
    site.ledger().follow(broken(), report());
    Eventually.await("a report", () -> fake.log().contains("gateway {") && fake.log().contains("\"failed\""));
    site.leave();
  }

  /** As one that was killed, before its parent has seen it. */
  @Test
  public void whoeverMeetsAnAgentThatTakesNothingAnyMoreAsksAnother() throws Exception {
    FakeAgent fake =
        fake(
            "'agent start') " + FakeAgent.ANSWER + "; exec 0<&-; " + FakeAgent.RUNNING + "; sleep 5;; "
                + "'gateway lookup') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"state\\\":\\\"finished\\\","
                + "\\\"executor_id\\\":0,\\\"resume_row\\\":0,\\\"partition_state\\\":\\\"feeding\\\"}}\";;");
    ExecutorSite site = site();
    assertTrue(site.places().claim(0, 1));
    assertTrue(site.places().startAgent(0, new Params(), null).awaitRunning());
    assertEquals(FeedTarget.State.FINISHED, site.directory().lookup("feed", 0, -1).state);
    assertTrue(fake.log(), fake.log().contains("gateway {"));
    site.leave();
  }

  /** One way after the other ends before it has answered. */
  @Test
  public void aSessionBeginsThoughThoseWhoTellOfItAreKilled() throws Exception {
    FakeAgent fake =
        fake(
            "'gateway report') [ -e \"$0.2\" ] || { [ -e \"$0.1\" ] && : > \"$0.2\"; : > \"$0.1\"; kill -9 $$; }; "
                + FakeAgent.ANSWER + ";;");
    ExecutorSite site = site();
    FollowedSession told = site.ledger().follow(broken(), report());
    assertTrue(told.awaitBegun());
    assertTrue(fake.log(), fake.starts("gateway") >= 3);
    told.awaitEndTold();
    site.leave();
  }

  /** Of a coordinator that was stopped for so long that connections broke: more often than agents may be killed. */
  private static String failsSevenTimes(String message, String then) {
    return "n=$(cat \"$0.n\" 2>/dev/null || echo 0); echo $((n + 1)) > \"$0.n\"; if [ $n -lt 7 ]; then "
        + "echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"UNAVAILABLE\\\","
        + "\\\"message\\\":\\\"" + message + "\\\"}}\"; else " + then + "; fi";
  }

  @Test
  public void aCoordinatorThatIsLateIsAskedAgain() throws Exception {
    String answer = "echo \"{\\\"id\\\":$id,\\\"result\\\":" + LOOKUP.replace("\"", "\\\"") + "}\"";
    fake("'gateway lookup') " + failsSevenTimes("failed to connect: no answer", answer) + ";;");
    ExecutorSite site = site();
    assertEquals(FeedTarget.State.FINISHED, site.directory().lookup("feed", 0, -1).state);
    site.leave();
  }

  @Test
  public void aSessionBeginsThoughTheCoordinatorIsLate() throws Exception {
    fake("'gateway report') " + failsSevenTimes("keepalive watchdog timeout", FakeAgent.ANSWER) + ";;");
    ExecutorSite site = site();
    FollowedSession told = site.ledger().follow(broken(), report());
    assertTrue(told.awaitBegun());
    told.awaitEndTold();
    site.leave();
  }

  @Test
  public void aCoordinatorThatIsLateHearsOfTheEndOfASession() throws Exception {
    FakeAgent fake =
        fake(
            "'gateway report') case $line in *'\"failed\"'*) "
                + failsSevenTimes("ask again", "note told; " + FakeAgent.ANSWER)
                + ";; *) " + FakeAgent.ANSWER + ";; esac;;");
    ExecutorSite site = site();
    FollowedSession told = site.ledger().follow(broken(), report());
    assertTrue(told.awaitBegun());
    told.awaitEndTold();
    assertTrue(fake.log(), fake.log().contains("told\n"));
    site.leave();
  }

  /** Whoever feeds the partition next says what this session had. */
  @Test
  public void aSessionWhoseEndCannotBeToldEndsAllTheSame() throws Exception {
    FakeAgent fake =
        fake("'gateway report') case $line in *'\"failed\"'*) kill -9 $$;; *) " + FakeAgent.ANSWER + ";; esac;;");
    ExecutorSite site = site();
    FollowedSession told = site.ledger().follow(broken(), report());
    assertTrue(told.awaitBegun());
    assertTrue(told.isKnown());
    told.awaitEndTold();
    FeedTarget node = FeedTarget.of(Json.parseObject(LOOKUP, 4), nonce -> false);
    FollowedSession next =
        site.ledger().follow(broken(), new PartitionReport("feed", 3, node, 2, 0, "worker:0 ended", 70, Movable.NO));
    assertTrue(next.awaitBegun());
    next.awaitEndTold();
    assertTrue(fake.log(), fake.log().contains("\"refed_reason\":\"worker:0 ended\",\"rows_before\":70"));
    site.leave();
  }

  private static final String TAKEN_OVER =
      "echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"ABORTED\\\",\\\"message\\\":\\\"another has it\\\"}}\"";

  @Test
  public void aSessionDoesNotBeginWhereAnotherAttemptHasThePartition() throws Exception {
    fake("'gateway report') " + TAKEN_OVER + ";;");
    ExecutorSite site = site();
    FollowedSession told = site.ledger().follow(broken(), report());
    assertFalse("rows may go", told.awaitBegun());
    assertTrue(told.isTakenOver());
    told.awaitEndTold();
    site.leave();
  }

  @Test
  public void aSessionEndsWhenAnotherAttemptTakesThePartitionOver() throws Exception {
    fake("'gateway report') case $line in *'\"received\"'*) " + TAKEN_OVER + ";; *) " + FakeAgent.ANSWER + ";; esac;;");
    ExecutorSite site = site();
    try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
      FeedTarget node = new FeedTarget("worker:0", "nonce", "tcp://127.0.0.1:" + silent.getLocalPort(), "key");
      FeedSession session = ExecutorSite.hub().open(node, SessionOptions.builder("feed", FeedMode.TRAIN).build());
      FollowedSession told = site.ledger().follow(session, report());
      assertTrue(told.awaitBegun());
      assertEquals(SessionEnd.OPEN, session.state().end);
      told.setReceived(); // news for the ledger, though no row moves
      Eventually.await("the session's end", () -> session.state().end == SessionEnd.ABORTED);
      assertTrue(told.isTakenOver());
      told.awaitEndTold();
    }
    site.leave();
  }

  @Test
  public void anAgentThatIsKilledIsToldByItsParent() throws Exception {
    FakeAgent fake =
        fake(
            "'agent start') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"agent_id\\\":\\\"a7\\\"}}\"; "
                + "kill -9 $$;;");
    ExecutorSite site = site();
    assertTrue(site.places().claim(7, 1));
    site.places().startAgent(7, new Params(), null).awaitEnd();
    Eventually.await("its death", () -> fake.log().contains("\"agent_gone\""));
    assertTrue(fake.log(), fake.log().contains("{\"executor_id\":7,\"agent_id\":\"a7\",\"signal\":9}"));
    Eventually.await("its place", () -> site.places().claim(7, 1));
    assertEquals("agents", 1, fake.starts("agent"));
    site.places().unclaim(7);
    site.leave();
  }

  @Test
  public void anAgentThatIsKilledHasASuccessorInItsPlaceIfTheCoordinatorAwaitsOne() throws Exception {
    FakeAgent fake = fake(FakeAgent.killedOnce(""));
    ExecutorSite site = site();
    assertTrue(site.places().claim(7, 1));
    NodeAgent first = site.places().startAgent(7, Params.of("working_dir", "/somewhere"), null);
    first.awaitEnd();
    NodeAgent second = first.awaitSuccessor();
    assertTrue(second.awaitRunning());
    assertEquals("both with the same", 2, fake.log().split("\"working_dir\":\"/somewhere\"", -1).length - 1);
    assertFalse("the place is the successor's", site.places().claim(8, 1));
    first.close();
    second.awaitEnd();
    Eventually.await("the place", () -> site.places().claim(8, 1));
    site.places().unclaim(8);
    site.leave();
  }

  @Test
  public void aClusterThatHasEndedIsNamedAsThat() throws Exception {
    fake(
        "'gateway lookup') echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"UNAVAILABLE\\\","
            + "\\\"message\\\":\\\"failed to connect to all addresses; last error: Connection refused\\\"}}\";;");
    ExecutorSite site = site();
    MillraceException e = assertThrows(MillraceException.class, () -> site.directory().lookup("feed", 0, -1));
    assertEquals(StatusCode.UNAVAILABLE, e.code());
    assertTrue(e.getMessage(), e.getMessage().contains("has ended, or "));
    assertTrue(e.getMessage(), e.getMessage().contains("its coordinator at "));
    site.leave();
  }

  @Test
  public void anAgentThatEndsLateLeavesThePlaceToTheNext() throws Exception {
    // What it has started holds its output open for a while after it was killed.
    Path hold = folder.newFile().toPath();
    fake(
        "'agent start') while [ -e '" + hold + "' ]; do sleep 0.05; done & "
            + "echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"INTERNAL\\\",\\\"message\\\":\\\"no\\\"}}\";;");
    ExecutorSite site = site();
    assertTrue(site.places().claim(7, 1));
    assertThrows(MillraceException.class, () -> site.places().startAgent(7, new Params(), null));
    assertTrue("its place is free at once", site.places().claim(7, 1));
    // Nearly always it still ends here; the JVM may see its death before anybody waits for its output.
    Files.delete(hold);
    Eventually.await("the agent's end", () -> FakeAgent.threads("millrace-agent") == 0);
    assertFalse("the place is that of the next attempt", site.places().claim(8, 1));
    site.places().unclaim(7);
    site.leave();
  }

  @Test
  public void aChildThatHasEndedIsNotAliveToThoseWhoAskedIt() throws Exception {
    fake("'agent start') exit 0;;");
    CountDownLatch busy = new CountDownLatch(1);
    ControlChild child =
        ControlChild.start(
            "agent",
            "agent",
            new ControlChild.Listener() {
              @Override
              public void onEvent(String event, JsonObject members) {}

              @Override
              public void onExit(int exitCode) {
                try {
                  busy.await();
                } catch (InterruptedException e) {
                  throw new AssertionError(e);
                }
              }
            });
    MillraceException e =
        assertThrows(MillraceException.class, () -> child.call("start", ControlChild.noParams()));
    assertEquals(StatusCode.UNAVAILABLE, e.code());
    assertFalse("who tells of its end is slow", child.isAlive());
    busy.countDown();
    assertTrue(child.awaitExit(60_000));
  }

  @Test
  public void aSiteStaysForATaskThatStandsStill() throws Exception {
    FakeAgent fake = fake("");
    ExecutorSite site = site();
    ExecutorSite.enter("another cluster", NOWHERE).leave();
    Eventually.await("the end of the site that was left", () -> FakeAgent.threads("millrace-site") == 1);
    site.ledger().follow(broken(), report());
    site.leave();
    Eventually.await("a report", () -> fake.log().contains("\"failed\""));
    Eventually.await("the end of sites that were left", () -> FakeAgent.threads("millrace-site") == 0);
  }

  @Test
  public void aCoordinatorIsWaitedForByAnInterruptedThread() throws Exception {
    Path hold = folder.newFile().toPath();
    FakeAgent fake =
        new FakeAgent(
            folder.getRoot().toPath(),
            "'coordinator start') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"cluster_id\\\":\\\"c\\\",\\\"address\\\":"
                + "\\\"a\\\",\\\"ca_pem\\\":\\\"\\\","
                + "\\\"identity_pem\\\":\\\"\\\",\\\"tokens\\\":{\\\"agent\\\":\\\"\\\"},\\\"roles\\\":[]}}\";;",
            "while [ -e '" + hold + "' ]; do sleep 0.05; done");
    CoordinatorProcess coordinator = CoordinatorProcess.start(new Params(), cause -> {}, id -> {}, null);
    AtomicBoolean kept = new AtomicBoolean();
    Thread closing =
        new Thread(
            () -> {
              Thread.currentThread().interrupt();
              coordinator.close();
              kept.set(Thread.interrupted());
            });
    closing.start();
    Eventually.await(
        "the wait for the coordinator's end",
        () -> !closing.isAlive() || closing.getState() == Thread.State.TIMED_WAITING);
    Files.delete(hold);
    closing.join();
    assertTrue("the interrupt is kept", kept.get());
    assertTrue("it has ended its nodes", fake.log().contains("coordinator ended"));
    // What a terminal sends to the driver's processes is not for it.
    assertTrue(fake.log(), fake.log().contains("coordinator --parent=stdin --new-session began"));
  }
}
