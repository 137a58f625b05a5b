package io.millrace.spark;

import io.millrace.spark.internal.base.Defaults;
import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/** How a cluster ends. Immutable. */
public final class ShutdownOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Duration grace;
  private final Duration timeout;

  private ShutdownOptions(Builder builder) {
    grace = builder.grace;
    timeout = builder.timeout;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The defaults. */
  public static ShutdownOptions defaults() {
    return builder().build();
  }

  /** Longer than any program lives: without end. */
  public Duration grace() {
    return grace;
  }

  /** As {@link #grace}. */
  public Duration timeout() {
    return timeout;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private Duration grace = Defaults.GRACE;
    private Duration timeout = Defaults.TIMEOUT;

    private Builder() {}

    /**
     * FEED: how long workers may take to end by themselves after the end of their rows; then they are asked to
     * stop, and the error names them. (DIRECT: workers end when their work is done, in the timeout.) Once the
     * workers have ended, in either mode, an evaluator has this time for its last evaluation; it is stopped
     * then, which is its normal end: a log line says so. Without end, and none for an evaluator.
     */
    public Builder grace(Duration value) {
      grace = Objects.requireNonNull(value);
      return this;
    }

    /** How long all of it may take; then everything is killed. 72 hours. */
    public Builder timeout(Duration value) {
      timeout = Objects.requireNonNull(value);
      return this;
    }

    public ShutdownOptions build() {
      return new ShutdownOptions(this);
    }
  }
}
