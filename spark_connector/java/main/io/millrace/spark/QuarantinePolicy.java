package io.millrace.spark;

import java.time.Duration;
import java.util.Objects;

/**
 * When a host is left alone: one on which {@code failures} nodes or agents failed within {@code window} gets no
 * restarts for {@code duration}. Immutable.
 */
public final class QuarantinePolicy {
  private final int failures;
  private final Duration window;
  private final Duration duration;

  private QuarantinePolicy(int failures, Duration window, Duration duration) {
    this.failures = failures;
    this.window = Objects.requireNonNull(window);
    this.duration = Objects.requireNonNull(duration);
  }

  /** Three failures within a minute, for five minutes. */
  public static QuarantinePolicy defaults() {
    return of(3, Duration.ofMinutes(1), Duration.ofMinutes(5));
  }

  public static QuarantinePolicy of(int failures, Duration window, Duration duration) {
    return new QuarantinePolicy(failures, window, duration);
  }

  public int failures() {
    return failures;
  }

  public Duration window() {
    return window;
  }

  public Duration duration() {
    return duration;
  }
}
