package io.millrace.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * How nodes are fed, with {@link InputMode#FEED}. What was not set is null and has the default of FeedOptions in C++,
 * which the builder names. Immutable.
 */
public final class FeedOptions {
  private final List<String> queues;
  private final String portRange;
  private final Long budgetBytes;
  private final Boolean sharedMemory;

  private FeedOptions(Builder builder) {
    queues = builder.queues;
    portRange = builder.portRange;
    budgetBytes = builder.budgetBytes;
    sharedMemory = builder.sharedMemory;
  }

  public static Builder builder() {
    return new Builder();
  }

  public List<String> queues() {
    return queues;
  }

  public String portRange() {
    return portRange;
  }

  public Long budgetBytes() {
    return budgetBytes;
  }

  public Boolean sharedMemory() {
    return sharedMemory;
  }

  /** Collects the members. Not thread-safe. */
  public static final class Builder {
    private List<String> queues;
    private String portRange;
    private Long budgetBytes;
    private Boolean sharedMemory;

    private Builder() {}

    /** Names that train, inference and the nodes may use. "input", "output", "error". */
    public Builder queues(String... value) {
      queues = Collections.unmodifiableList(new ArrayList<>(Arrays.asList(value)));
      return this;
    }

    /** "9000-9100": where nodes are fed. Default: any. */
    public Builder portRange(String value) {
      portRange = Objects.requireNonNull(value);
      return this;
    }

    /** What one node may hold of the feed. Default: 256 MiB. */
    public Builder budgetBytes(long value) {
      budgetBytes = value;
      return this;
    }

    /**
     * An executor writes rows into the memory of a node of its host, where the system lets it, instead of sending them
     * through a socket. Default: true.
     */
    public Builder sharedMemory(boolean value) {
      sharedMemory = value;
      return this;
    }

    public FeedOptions build() {
      return new FeedOptions(this);
    }
  }
}
