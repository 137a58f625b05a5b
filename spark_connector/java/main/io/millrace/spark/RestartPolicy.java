package io.millrace.spark;

import java.time.Duration;
import java.util.Objects;

/**
 * How often a node that failed is started again, and how soon (docs/failures.md). What was not set is null and has the
 * default of RestartPolicy in C++, which the builder names. Immutable.
 */
public final class RestartPolicy {
  private final Integer maxRestarts;
  private final Duration window;
  private final Duration initialBackoff;
  private final Duration maxBackoff;

  private RestartPolicy(Builder builder) {
    maxRestarts = builder.maxRestarts;
    window = builder.window;
    initialBackoff = builder.initialBackoff;
    maxBackoff = builder.maxBackoff;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** No restart: the first failure is the cluster's. */
  public static RestartPolicy never() {
    return atMost(0);
  }

  /** At most so many restarts of a node. */
  public static RestartPolicy atMost(int maxRestarts) {
    return builder().maxRestarts(maxRestarts).build();
  }

  public Integer maxRestarts() {
    return maxRestarts;
  }

  public Duration window() {
    return window;
  }

  public Duration initialBackoff() {
    return initialBackoff;
  }

  public Duration maxBackoff() {
    return maxBackoff;
  }

  /** Collects the members. Not thread-safe. */
  public static final class Builder {
    private Integer maxRestarts;
    private Duration window;
    private Duration initialBackoff;
    private Duration maxBackoff;

    private Builder() {}

    /** Restarts that a node may use within the window; the next failure is the cluster's. None. */
    public Builder maxRestarts(int value) {
      maxRestarts = value;
      return this;
    }

    /** Restarts longer ago than this do not count any more. All count. */
    public Builder window(Duration value) {
      window = Objects.requireNonNull(value);
      return this;
    }

    /** From the failure to the restart; doubled with every failure that follows on a short run. 1 s. */
    public Builder initialBackoff(Duration value) {
      initialBackoff = Objects.requireNonNull(value);
      return this;
    }

    /** How long that becomes at most. 30 s. */
    public Builder maxBackoff(Duration value) {
      maxBackoff = Objects.requireNonNull(value);
      return this;
    }

    public RestartPolicy build() {
      return new RestartPolicy(this);
    }
  }
}
