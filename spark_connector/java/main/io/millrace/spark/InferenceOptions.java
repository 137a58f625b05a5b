package io.millrace.spark;

import java.io.Serializable;
import java.util.Objects;

/** How rows are fed for inference. Immutable. */
public final class InferenceOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final long feedTimeoutMillis;
  private final String queue;

  private InferenceOptions(Builder builder) {
    feedTimeoutMillis = builder.feedTimeoutMillis;
    queue = builder.queue;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The defaults. */
  public static InferenceOptions defaults() {
    return builder().build();
  }

  public long feedTimeoutMillis() {
    return feedTimeoutMillis;
  }

  public String queue() {
    return queue;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private long feedTimeoutMillis = 600_000;
    private String queue = "input";

    private Builder() {}

    /** The longest time without a row received or acknowledged. 600,000 ms. */
    public Builder feedTimeoutMillis(long value) {
      feedTimeoutMillis = value;
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
