package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.cluster.ExecutorSite;
import io.millrace.spark.internal.cluster.FakeAgent;
import io.millrace.spark.internal.cluster.FakeAgentTest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.concurrent.FutureTask;
import org.apache.spark.TaskContext$;
import org.junit.Test;

/** A task that holds a node, with agents that do as they are told. */
public final class NodeTaskTest extends FakeAgentTest {
  /** What the task tells: "worker:0: finished". */
  private FutureTask<String> start(Thread[] thread) {
    return start(thread, true);
  }

  private FutureTask<String> start(Thread[] thread, boolean freesFedSlots) {
    NodePlan plan = new NodePlan(name.getMethodName(), NOWHERE, 1, 0, freesFedSlots, "", "", null);
    NodeTask task = new NodeTask(plan, null);
    FutureTask<String> told =
        new FutureTask<>(
            () -> {
              TaskContext$.MODULE$.setTaskContext(TaskContext$.MODULE$.empty());
              StringBuilder all = new StringBuilder();
              task.call(Collections.singletonList(new NodeSlot(0, "worker:0")).iterator())
                  .forEachRemaining(all::append);
              return all.toString();
            });
    thread[0] = new Thread(told, "task");
    thread[0].start();
    return told;
  }

  @Test
  public void aTaskThatIsKilledBeforeItsNodeRunsTakesTheAgentWithIt() throws Exception {
    FakeAgent fake = fake("");
    Thread[] thread = new Thread[1];
    start(thread);
    Eventually.await("the agent's start", () -> fake.log().contains("\"method\":\"start\""));
    Eventually.await("the wait for the node", () -> thread[0].getState() == Thread.State.TIMED_WAITING);
    thread[0].interrupt();
    thread[0].join();
    Eventually.await("the agent's end", () -> fake.log().contains("agent ended"));
    Eventually.await("the place", () -> site().places().claim(1, 1));
  }

  /** Agents that do not get their slot. */
  private FakeAgent refused(String code, String why) throws Exception {
    return fake(
        "'agent start') " + FakeAgent.ANSWER + "; echo '{\"event\":\"state\",\"state\":\"failed\",\"code\":\""
            + code + "\",\"message\":\"" + why + "\"}'; exit 1;;");
  }

  @Test
  public void aTaskEndsWhoseNodeAnotherHasStarted() throws Exception {
    FakeAgent fake = refused("ALREADY_EXISTS", "worker:0 has a live agent");
    assertEquals("worker:0: worker:0 has a live agent", start(new Thread[1]).get());
    assertEquals("agents", 1, fake.starts("agent"));
    assertTrue("its place is free", site().places().claim(1, 1));
  }

  @Test
  public void aPlaceThatIsTakenWhileATaskWaitsForItsNodeIsNotTakenTwice() throws Exception {
    FakeAgent fake = refused("UNAVAILABLE", "worker:0 is held for its agent, whose stream broke");
    ExecutorSite site = site();
    FutureTask<String> told = start(new Thread[1]);
    Eventually.await("an agent", () -> fake.starts("agent") > 0);
    Eventually.await("the place, while the task waits", () -> site.places().claim(1, 1));
    long before = fake.starts("agent");
    assertEquals("it says that it has no place", "", told.get());
    assertEquals("no other agent was started", before, fake.starts("agent"));
    assertFalse("nobody else's place is given back", site.places().claim(0, 1));
    site.places().unclaim(1);
    assertTrue(site.places().claim(0, 1));
    site.leave();
  }

  @Test
  public void aTaskThatHoldsANodeHoldsTheOneThatTakesItsPlaceWhenItsAgentIsKilled() throws Exception {
    Path hold = folder.newFile().toPath();
    FakeAgent fake = fake(FakeAgent.killedOnce("while [ -e '" + hold + "' ]; do sleep 0.05; done; exit 0"));
    ExecutorSite site = site();
    FutureTask<String> told = start(new Thread[1], false);
    Eventually.await("the second agent", () -> fake.starts("agent") == 2);
    assertFalse("its place is free", site.places().claim(1, 1));
    assertFalse("it has ended", told.isDone());
    Files.delete(hold);
    assertEquals("worker:0: running", told.get());
    assertEquals("agents", 2, fake.starts("agent"));
    assertTrue("its place is not free", site.places().claim(1, 1));
    site.places().unclaim(1);
    site.leave();
  }
}
