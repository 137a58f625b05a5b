package io.millrace.spark.internal.base;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

public final class WaitReportTest {
  private static final long BEGAN = Long.MAX_VALUE - 5; // nanoTime() may overflow

  private final List<String> told = new ArrayList<>();
  private long now = BEGAN;

  private WaitReport report(long timeoutMillis) {
    return new WaitReport(timeoutMillis, told::add, () -> now);
  }

  private void passSeconds(long seconds) {
    now += TimeUnit.SECONDS.toNanos(seconds);
  }

  @Test
  public void pausesBetweenLinesDouble() {
    WaitReport report = report(600_000);
    List<Integer> seconds = new ArrayList<>();
    for (int i = 0; i < 100; i++, passSeconds(1)) {
      if (report.tell(BEGAN, () -> "a node")) {
        seconds.add(i);
      }
    }
    assertEquals(Arrays.asList(5, 15, 35, 75), seconds);
  }

  @Test
  public void aLineSaysWhatIsMissingSinceWhenAndForHowLong() {
    passSeconds(7);
    assertTrue(report(1500).tell(BEGAN, () -> "worker:0 has not come"));
    assertTrue(report(-1).tell(BEGAN, () -> "worker:0 has not come"));
    assertEquals(
        Arrays.asList(
            "worker:0 has not come; waited 7 s so far, at most 1.5 s (feed_timeout)",
            "worker:0 has not come; waited 7 s so far"),
        told);
  }

  @Test
  public void whatMovesBeginsAnew() {
    WaitReport report = report(600_000);
    passSeconds(6);
    assertTrue(report.tell(BEGAN, () -> "a"));
    long moved = now;
    passSeconds(4);
    assertFalse(report.tell(moved, () -> "b"));
    passSeconds(1);
    assertTrue(report.tell(moved, () -> "b"));
    assertEquals(
        Arrays.asList(
            "a; waited 6 s so far, at most 600.0 s (feed_timeout)",
            "b; waited 5 s so far, at most 600.0 s (feed_timeout)"),
        told);
  }
}
