package io.millrace.spark.internal.cluster;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.After;
import org.junit.Test;

public final class CoordinatorProcessTest extends FakeAgentTest {
  private static final String STARTS =
      "'coordinator start') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"cluster_id\\\":\\\"c\\\","
          + "\\\"address\\\":\\\"a\\\",\\\"ca_pem\\\":\\\"\\\",\\\"identity_pem\\\":\\\"\\\","
          + "\\\"tokens\\\":{\\\"agent\\\":\\\"\\\"},\\\"roles\\\":[\\\"worker:0\\\"]}}\";;\n";

  private CoordinatorProcess coordinator;

  private void start() {
    start(null);
  }

  private void start(ClusterObserver observer) {
    coordinator = CoordinatorProcess.start(new Params(), cause -> {}, executorId -> {}, observer);
  }

  @After
  public void end() {
    if (coordinator != null) {
      coordinator.close();
    }
  }

  @Test
  public void theObserverHearsOfSlots() throws Exception {
    fake(STARTS + "'coordinator stop') echo '{\"event\":\"slot\",\"executor_id\":0,\"job_name\":\"worker\","
        + "\"task_index\":0,\"state\":\"draining\",\"attempt\":0,\"host\":\"h\",\"address\":\"h:7\",\"node_pid\":8,"
        + "\"has_feed\":false}'; " + FakeAgent.ANSWER + ";;");
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    start(
        new ClusterObserver() {
          @Override
          public void onSlot(NodeInfo node) {
            heard.add(node.toString());
          }
        });
    coordinator.call("stop", new Params());
    assertEquals("worker:0 on h, draining", heard.take());
  }

  /** Without a time limit: the answer alone ends the wait. */
  @Test
  public void theAnswerToAWaitForAFeedIsAChange() throws Exception {
    Path go = folder.getRoot().toPath().resolve("go");
    FakeAgent fake = fake(STARTS + "'coordinator wait_feed') while [ ! -e '" + go + "' ]; do sleep 0.05; done; "
        + FakeAgent.ANSWER + ";;");
    start();
    long seen = coordinator.changes().count();
    CompletableFuture<JsonObject> feed = coordinator.waitFeed("f1", 3, 1, 500);
    Eventually.await("the request", () -> fake.log().contains("wait_feed"));
    assertTrue(
        fake.log(), fake.log().contains("\"params\":{\"feed\":\"f1\",\"done\":3,\"failed\":1,\"timeout_ms\":500}"));
    assertFalse(feed.isDone());
    assertEquals(seen, coordinator.changes().count());
    Files.createFile(go);
    assertEquals(seen + 1, coordinator.changes().await(seen));
    feed.get();
  }

  @Test
  public void soIsTheErrorOfAClusterThatHasFailed() throws Exception {
    fake(STARTS + "'coordinator wait_feed') echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"ABORTED\\\","
        + "\\\"message\\\":\\\"worker:0 exited\\\"}}\";;");
    start();
    CompletableFuture<JsonObject> feed = coordinator.waitFeed("f1", 3, 1, 500);
    coordinator.changes().await(0);
    ExecutionException e = assertThrows(ExecutionException.class, feed::get);
    assertEquals(StatusCode.ABORTED, ((MillraceException) e.getCause()).code());
  }
}
