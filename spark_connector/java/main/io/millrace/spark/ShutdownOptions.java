package io.millrace.spark;

import java.io.Serializable;

/** How a cluster ends. Immutable. */
public final class ShutdownOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final long graceMillis;
  private final long timeoutMillis;

  private ShutdownOptions(Builder builder) {
    graceMillis = builder.graceMillis;
    timeoutMillis = builder.timeoutMillis;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The defaults. */
  public static ShutdownOptions defaults() {
    return builder().build();
  }

  public long graceMillis() {
    return graceMillis;
  }

  public long timeoutMillis() {
    return timeoutMillis;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private long graceMillis = -1;
    private long timeoutMillis = 259_200_000L;

    private Builder() {}

    /**
     * FEED: how long workers may take to end by themselves after the end of their rows; then they are asked to
     * stop, and the error names them. DIRECT: workers end when their work is done, in the timeout; from then on
     * this is an evaluator's time for its last evaluation. -1: without end, and none for an evaluator.
     */
    public Builder graceMillis(long value) {
      graceMillis = value;
      return this;
    }

    /** How long all of it may take; then everything is killed. -1: without end. 72 hours. */
    public Builder timeoutMillis(long value) {
      timeoutMillis = value;
      return this;
    }

    public ShutdownOptions build() {
      return new ShutdownOptions(this);
    }
  }
}
