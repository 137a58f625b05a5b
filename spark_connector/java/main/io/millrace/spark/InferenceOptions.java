package io.millrace.spark;

import io.millrace.spark.internal.base.Defaults;
import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/** How rows are fed for inference. Immutable. */
public final class InferenceOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Duration feedTimeout;
  private final String queue;

  private InferenceOptions(Builder builder) {
    feedTimeout = builder.feedTimeout;
    queue = builder.queue;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The defaults. */
  public static InferenceOptions defaults() {
    return builder().build();
  }

  public Duration feedTimeout() {
    return feedTimeout;
  }

  public String queue() {
    return queue;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private Duration feedTimeout = Defaults.FEED_TIMEOUT;
    private String queue = Defaults.QUEUE;

    private Builder() {}

    /** The longest time without a row received or acknowledged. Ten minutes. */
    public Builder feedTimeout(Duration value) {
      feedTimeout = Objects.requireNonNull(value);
      return this;
    }

    /** One of the cluster's queues. "input". */
    public Builder queue(String value) {
      queue = Objects.requireNonNull(value);
      return this;
    }

    public InferenceOptions build() {
      return new InferenceOptions(this);
    }
  }
}
