package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.internal.base.WaitReport;
import io.millrace.spark.internal.feed.FeedTarget;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.Test;

/** What the logs of the driver and of executors say while a call waits. */
public final class WaitLinesTest {
  private final List<String> log = new ArrayList<>();

  /** The one line of a wait that began five seconds ago; before that there is none. */
  private String line(long timeoutMillis, Supplier<String> missing) {
    WaitReport report = new WaitReport(timeoutMillis, log::add);
    assertFalse(report.tell(System.nanoTime(), missing));
    long began = System.nanoTime() - TimeUnit.SECONDS.toNanos(5);
    assertTrue(report.tell(began, missing));
    assertFalse("not again at once", report.tell(began, missing));
    assertEquals(1, log.size());
    return log.remove(0);
  }

  @Test
  public void trainNamesTheNodesThatAreYetToCome() {
    assertEquals(
        "queue 'q': nodes are yet to come; worker:0, worker:1 published no feed endpoint: does the program call "
            + "RunNode and GetDataFeed?; to be started again: chief:0, each needs a core; waited 5 s so far, at most "
            + "8.0 s (feed_timeout)",
        line(
            8_000,
            () ->
                TrainRun.absence(
                    "q",
                    "nodes are yet to come",
                    Arrays.asList("worker:0", "worker:1"),
                    Collections.singletonList("chief:0"),
                    () -> "a core")));
  }

  @Test
  public void trainNamesTheNodesThatHaveNotAcknowledged() {
    assertEquals(
        "queue 'q': 9 rows received, 7 acknowledged; the others are to be acknowledged by chief:0, worker:0; waited "
            + "5 s so far, at most 8.0 s (feed_timeout)",
        line(
            8_000,
            () -> TrainRun.unacknowledged("q", 9, 7, new LinkedHashSet<>(Arrays.asList("chief:0", "worker:0")))));
  }

  @Test
  public void aTaskNamesItsPartitionAndTheNode() {
    assertEquals(
        "partition 3 (queue 'q'): no node to feed yet; worker:1 is restarting; waited 5 s so far, at most 8.0 s "
            + "(feed_timeout)",
        line(
            8_000, () -> NodeFinder.noneYet("partition 3 (queue 'q')", "worker:1", FeedTarget.State.RESTARTING)));
    assertEquals(
        "partition 3 (queue 'q'): no node to feed yet; they are starting; waited 5 s so far, at most 8.0 s "
            + "(feed_timeout)",
        line(8_000, () -> NodeFinder.noneYet("partition 3 (queue 'q')", "", FeedTarget.State.STARTING)));
    assertEquals(
        "partition 3 (queue 'q'): every node that reads has enough to do; waited 5 s so far",
        line(-1, () -> NodeFinder.allBusy("partition 3 (queue 'q')")));
  }
}
