package io.millrace.spark;

import java.time.Duration;
import java.util.Objects;

/**
 * When a host is left alone: one on which {@code failures} nodes or agents failed within {@code window} gets no
 * restarts for {@code duration}. What was not set is null and has the default of QuarantinePolicy in C++, which the
 * builder names. Immutable.
 */
public final class QuarantinePolicy {
  private final Integer failures;
  private final Duration window;
  private final Duration duration;

  private QuarantinePolicy(Builder builder) {
    failures = builder.failures;
    window = builder.window;
    duration = builder.duration;
  }

  public static Builder builder() {
    return new Builder();
  }

  public Integer failures() {
    return failures;
  }

  public Duration window() {
    return window;
  }

  public Duration duration() {
    return duration;
  }

  /** Collects the members. Not thread-safe. */
  public static final class Builder {
    private Integer failures;
    private Duration window;
    private Duration duration;

    private Builder() {}

    /** Three. */
    public Builder failures(int value) {
      failures = value;
      return this;
    }

    /** A minute. */
    public Builder window(Duration value) {
      window = Objects.requireNonNull(value);
      return this;
    }

    /** Five minutes. */
    public Builder duration(Duration value) {
      duration = Objects.requireNonNull(value);
      return this;
    }

    public QuarantinePolicy build() {
      return new QuarantinePolicy(this);
    }
  }
}
