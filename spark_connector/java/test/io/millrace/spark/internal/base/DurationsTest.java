package io.millrace.spark.internal.base;

import static org.junit.Assert.assertEquals;

import java.time.Duration;
import org.junit.Test;

public final class DurationsTest {
  @Test
  public void wholeMillisecondsRoundedUp() {
    assertEquals(0, Durations.millis(Duration.ZERO));
    assertEquals(1, Durations.millis(Duration.ofNanos(1)));
    assertEquals(1500, Durations.millis(Duration.ofMillis(1500)));
    assertEquals(1501, Durations.millis(Duration.ofMillis(1500).plusNanos(1)));
    assertEquals(259_200_000L, Durations.millis(Duration.ofHours(72)));
  }

  @Test
  public void whatIsLongerThanTheCoordinatorTakesHasNoEnd() {
    assertEquals(-1, Durations.millis(Durations.FOREVER));
    assertEquals(-1, Durations.millis(Duration.ofSeconds(Long.MAX_VALUE)));
    assertEquals(100L * 365 * 24 * 3600 * 1000, Durations.millis(Duration.ofDays(100 * 365)));
    assertEquals(-1, Durations.millis(Duration.ofDays(100 * 365).plusMillis(1)));
  }
}
