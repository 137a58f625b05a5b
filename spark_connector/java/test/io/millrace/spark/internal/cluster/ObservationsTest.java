package io.millrace.spark.internal.cluster;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.NodeInfo;
import io.millrace.spark.NodeOutput;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Eventually;
import io.millrace.spark.internal.base.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

public final class ObservationsTest {
  private static final int MAX_DEPTH = 8;

  @Rule public final Timeout timeout = Timeout.seconds(120);

  /** Writes down what it is told. */
  private static class Recorder implements ClusterObserver {
    final List<String> heard = Collections.synchronizedList(new ArrayList<>());

    @Override
    public void onOutput(NodeOutput output) {
      heard.add(output.node() + " " + output.source() + " " + output.lines() + " after " + output.dropped());
    }

    @Override
    public void onMetric(String node, String name, long step, double value) {
      heard.add(node + " " + name + " " + step + " " + value);
    }

    @Override
    public void onSlot(NodeInfo node) {
      heard.add(node + ", attempt " + node.attempt() + " at " + node.address() + ", process " + node.pid());
    }
  }

  private static void output(Observations to, String node, String source, String line, int dropped)
      throws BadInputException {
    to.take(
        "output",
        Json.parseObject(
            "{\"executor_id\":0,\"node\":\"" + node + "\",\"source\":\"" + source + "\",\"lines\":[\"" + line
                + "\"],\"dropped\":" + dropped + "}",
            MAX_DEPTH));
  }

  private static void metric(Observations to, String value) throws BadInputException {
    to.take(
        "metric",
        Json.parseObject(
            "{\"executor_id\":0,\"node\":\"chief:0\",\"name\":\"loss\",\"step\":7,\"value\":" + value + "}",
            MAX_DEPTH));
  }

  private static void slot(Observations to, String state, int attempt) throws BadInputException {
    to.takeSlot(
        new Slot(
            Json.parseObject(
                "{\"executor_id\":2,\"job_name\":\"worker\",\"task_index\":1,\"state\":\"" + state + "\",\"attempt\":"
                    + attempt + ",\"host\":\"h\",\"address\":\"h:7\",\"node_pid\":8,\"has_feed\":false}",
                MAX_DEPTH)));
  }

  @Test
  public void tellsOutputMetricsAndSlotsInTheirOrder() throws Exception {
    Recorder recorder = new Recorder();
    Observations observations = new Observations(recorder);
    output(observations, "chief:0", "stdout", "hello", 0);
    metric(observations, "0.5");
    output(observations, "worker:0", "stderr", "oh", 3);
    metric(observations, "2");
    metric(observations, "null");
    output(observations, "worker:0", "agent", "it ended", 0);
    slot(observations, "running", 3);
    Eventually.await("all of it", () -> recorder.heard.size() == 7);
    assertEquals(
        Arrays.asList(
            "chief:0 STDOUT [hello] after 0",
            "chief:0 loss 7 0.5",
            "worker:0 STDERR [oh] after 3",
            "chief:0 loss 7 2.0",
            "chief:0 loss 7 NaN",
            "worker:0 AGENT [it ended] after 0",
            "worker:1 on h, running, attempt 3 at h:7, process 8"),
        recorder.heard);
    observations.close();
  }

  @Test
  public void whatAnObserverIsTooSlowForIsCountedByNode() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    AtomicLong lines = new AtomicLong();
    AtomicLong dropped = new AtomicLong();
    List<NodeInfo> slots = Collections.synchronizedList(new ArrayList<>());
    Observations observations =
        new Observations(
            new ClusterObserver() {
              @Override
              public void onOutput(NodeOutput output) {
                begun.countDown();
                try {
                  go.await();
                } catch (InterruptedException e) {
                  throw new IllegalStateException(e);
                }
                lines.addAndGet(output.lines().size());
                dropped.addAndGet(output.dropped());
              }

              @Override
              public void onSlot(NodeInfo node) {
                slots.add(node);
              }
            });
    output(observations, "worker:0", "stdout", "first", 0);
    begun.await();
    for (int i = 0; i < 1024 + 10; ++i) {
      output(observations, "worker:0", "stdout", "line", 1);
    }
    slot(observations, "failed", 0);
    go.countDown();
    Eventually.await("what has room", () -> lines.get() == 1025);
    assertEquals(1024, dropped.get());
    Eventually.await("the slot, which always has room", () -> slots.size() == 1);
    output(observations, "worker:1", "stdout", "of another node", 0);
    output(observations, "worker:0", "stdout", "last", 0);
    Eventually.await("the last two", () -> lines.get() == 1027);
    assertEquals("ten batches of one line that came after one that was lost", 1024 + 20, dropped.get());
    observations.close();
  }

  @Test
  public void anObserverThatThrowsHearsTheNext() throws Exception {
    Recorder recorder =
        new Recorder() {
          @Override
          public void onMetric(String node, String name, long step, double value) {
            throw new IllegalStateException("not this one");
          }
        };
    Observations observations = new Observations(recorder);
    metric(observations, "1");
    output(observations, "worker:0", "stdout", "still here", 0);
    Eventually.await("the line after it", () -> recorder.heard.size() == 1);
    observations.close();
  }

  @Test
  public void whatCameIsToldBeforeTheEnd() throws Exception {
    Recorder recorder = new Recorder();
    Observations observations = new Observations(recorder);
    for (int i = 0; i < 100; ++i) {
      output(observations, "worker:0", "stdout", "line", 0);
    }
    observations.close();
    Eventually.await("its lines", () -> recorder.heard.size() == 100);
    Eventually.await("its thread's end", () -> FakeAgent.threads("millrace-observer") == 0);
  }

  @Test
  public void nonsenseIsBadInput() {
    Observations observations = new Observations(new Recorder());
    assertThrows(BadInputException.class, () -> output(observations, "worker:0", "stdin", "x", 0));
    assertThrows(BadInputException.class, () -> output(observations, "worker:0", "stdout", "x", -1));
    assertThrows(
        BadInputException.class,
        () -> observations.take("metric", Json.parseObject("{\"node\":\"worker:0\"}", MAX_DEPTH)));
    observations.close();
  }
}
