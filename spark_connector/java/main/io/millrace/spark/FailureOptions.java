package io.millrace.spark;

import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * What becomes of nodes that fail, and how long one may take to end (docs/failures.md). What was not set is null and
 * has the default of FailureOptions in C++, which the builder names. Immutable.
 */
public final class FailureOptions {
  private final RestartPolicy restart;
  private final Map<String, RestartPolicy> restartByJob;
  private final QuarantinePolicy quarantine;
  private final Duration stopGrace;
  private final Duration stopTimeout;

  private FailureOptions(Builder builder) {
    restart = builder.restart;
    restartByJob = builder.restartByJob;
    quarantine = builder.quarantine;
    stopGrace = builder.stopGrace;
    stopTimeout = builder.stopTimeout;
  }

  public static Builder builder() {
    return new Builder();
  }

  public RestartPolicy restart() {
    return restart;
  }

  public Map<String, RestartPolicy> restartByJob() {
    return restartByJob;
  }

  public QuarantinePolicy quarantine() {
    return quarantine;
  }

  public Duration stopGrace() {
    return stopGrace;
  }

  public Duration stopTimeout() {
    return stopTimeout;
  }

  /** Collects the members. Not thread-safe. */
  public static final class Builder {
    private RestartPolicy restart;
    private Map<String, RestartPolicy> restartByJob;
    private QuarantinePolicy quarantine;
    private Duration stopGrace;
    private Duration stopTimeout;

    private Builder() {}

    /** How often a node that failed is started again before that is the cluster's failure. Default: never. */
    public Builder restart(RestartPolicy value) {
      restart = Objects.requireNonNull(value);
      return this;
    }

    /** Of the jobs that differ: {"ps": RestartPolicy.never()}. None. */
    public Builder restartByJob(Map<String, RestartPolicy> value) {
      restartByJob = Collections.unmodifiableMap(new LinkedHashMap<>(value));
      return this;
    }

    /** When a host is left alone. See {@link QuarantinePolicy}. */
    public Builder quarantine(QuarantinePolicy value) {
      quarantine = Objects.requireNonNull(value);
      return this;
    }

    /** How long a node that was asked to stop may take. Default: 5 s. */
    public Builder stopGrace(Duration value) {
      stopGrace = Objects.requireNonNull(value);
      return this;
    }

    /** How long a node may stay stopped by a signal (SIGSTOP) before it has failed. Default: 10 s. */
    public Builder stopTimeout(Duration value) {
      stopTimeout = Objects.requireNonNull(value);
      return this;
    }

    public FailureOptions build() {
      return new FailureOptions(this);
    }
  }
}
