package io.millrace.spark.internal.base;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

public final class WaitReportTest {
  private static final long BEGAN = Long.MAX_VALUE - 5; // nanoTime() may overflow

  private long now = BEGAN;

  private void passSeconds(long seconds) {
    now += TimeUnit.SECONDS.toNanos(seconds);
  }

  @Test
  public void pausesBetweenLinesDouble() {
    WaitReport report = new WaitReport(600_000, () -> now);
    List<Integer> seconds = new ArrayList<>();
    for (int i = 0; i < 100; i++, passSeconds(1)) {
      if (report.line(BEGAN, () -> "a node") != null) {
        seconds.add(i);
      }
    }
    assertEquals(Arrays.asList(5, 15, 35, 75), seconds);
  }

  @Test
  public void aLineSaysWhatIsMissingSinceWhenAndForHowLong() {
    passSeconds(7);
    assertEquals(
        "worker:0 has not come; waited 7 s so far, at most 1.5 s (feed_timeout)",
        new WaitReport(1500, () -> now).line(BEGAN, () -> "worker:0 has not come"));
    assertEquals(
        "worker:0 has not come; waited 7 s so far",
        new WaitReport(-1, () -> now).line(BEGAN, () -> "worker:0 has not come"));
  }

  @Test
  public void whatMovesBeginsAnew() {
    WaitReport report = new WaitReport(600_000, () -> now);
    passSeconds(6);
    assertEquals("a; waited 6 s so far, at most 600.0 s (feed_timeout)", report.line(BEGAN, () -> "a"));
    long moved = now;
    passSeconds(4);
    assertNull(report.line(moved, () -> "b"));
    passSeconds(1);
    assertEquals("b; waited 5 s so far, at most 600.0 s (feed_timeout)", report.line(moved, () -> "b"));
  }
}
