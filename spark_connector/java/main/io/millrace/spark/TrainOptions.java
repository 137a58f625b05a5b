package io.millrace.spark;

import io.millrace.spark.internal.base.Defaults;
import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/** How rows are fed for training. Immutable. */
public final class TrainOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int numEpochs;
  private final Duration feedTimeout;
  private final String queue;
  private final boolean endOfFeed;

  private TrainOptions(Builder builder) {
    numEpochs = builder.numEpochs;
    feedTimeout = builder.feedTimeout;
    queue = builder.queue;
    endOfFeed = builder.endOfFeed;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The defaults. */
  public static TrainOptions defaults() {
    return builder().build();
  }

  public int numEpochs() {
    return numEpochs;
  }

  public Duration feedTimeout() {
    return feedTimeout;
  }

  public String queue() {
    return queue;
  }

  public boolean endOfFeed() {
    return endOfFeed;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private int numEpochs = Defaults.NUM_EPOCHS;
    private Duration feedTimeout = Defaults.FEED_TIMEOUT;
    private String queue = Defaults.QUEUE;
    private boolean endOfFeed = Defaults.END_OF_FEED;

    private Builder() {}

    /** How often the rows are fed; at least 1. 1. */
    public Builder numEpochs(int value) {
      numEpochs = value;
      return this;
    }

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

    /** Whether the queue ends with this call: the program may serve inference on it then. false. */
    public Builder endOfFeed(boolean value) {
      endOfFeed = value;
      return this;
    }

    public TrainOptions build() {
      return new TrainOptions(this);
    }
  }
}
