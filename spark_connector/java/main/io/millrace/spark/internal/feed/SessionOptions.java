package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Defaults;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** What one session feeds: one partition, or the rest of one, to one queue. Immutable. */
public final class SessionOptions {
  final String feedId;
  final String queue;
  final FeedMode mode;
  final long partition;
  final long dataEpoch;
  final long feederAttempt;
  final long firstRow;
  final long feedTimeoutMillis;
  final long budgetBytes;
  final long maxBatchBytes;
  final boolean sharedMemory;
  final FeedProgress progress;
  final BooleanSupplier cancelled;

  private SessionOptions(Builder builder) {
    feedId = builder.feedId;
    queue = builder.queue;
    mode = builder.mode;
    partition = builder.partition;
    dataEpoch = builder.dataEpoch;
    feederAttempt = builder.feederAttempt;
    firstRow = builder.firstRow;
    feedTimeoutMillis = builder.feedTimeoutMillis;
    budgetBytes = builder.budgetBytes;
    maxBatchBytes = builder.maxBatchBytes;
    sharedMemory = builder.sharedMemory;
    progress = builder.progress == null ? new FeedProgress() : builder.progress;
    cancelled = builder.cancelled;
  }

  public static Builder builder(String feedId, FeedMode mode) {
    return new Builder(feedId, mode);
  }

  /** Collects the options; what is not set is 0, or what {@link Defaults} has. */
  public static final class Builder {
    private final String feedId;
    private final FeedMode mode;
    private String queue = Defaults.QUEUE;
    private long partition;
    private long dataEpoch;
    private long feederAttempt;
    private long firstRow;
    private long feedTimeoutMillis = Defaults.FEED_TIMEOUT.toMillis();
    private long budgetBytes = Defaults.BUDGET_BYTES;
    private long maxBatchBytes = FrameHeader.MAX_BATCH_BYTES;
    private boolean sharedMemory = Defaults.SHARED_MEMORY;
    private FeedProgress progress;
    private BooleanSupplier cancelled = () -> false;

    private Builder(String feedId, FeedMode mode) {
      this.feedId = Objects.requireNonNull(feedId);
      this.mode = Objects.requireNonNull(mode);
    }

    public Builder queue(String value) {
      queue = Objects.requireNonNull(value);
      return this;
    }

    public Builder partition(long value) {
      partition = value;
      return this;
    }

    public Builder dataEpoch(long value) {
      dataEpoch = value;
      return this;
    }

    /** The attempt of the task that feeds; for logs and the ledger. */
    public Builder feederAttempt(long value) {
      feederAttempt = value;
      return this;
    }

    /** Training only: the row to resume at. */
    public Builder firstRow(long value) {
      firstRow = value;
      return this;
    }

    /** The longest wait without progress (docs/feed_protocol.md, section 6). */
    public Builder feedTimeoutMillis(long value) {
      feedTimeoutMillis = value;
      return this;
    }

    /**
     * The session waits while those of this process, all together, have so many bytes on their way to nodes, beside one
     * batch each ({@link SendBudget}).
     */
    public Builder budgetBytes(long value) {
      budgetBytes = value;
      return this;
    }

    /** What a batch may have, metadata and body; fewer bytes than the protocol allows are for tests. */
    Builder maxBatchBytes(long value) {
      maxBatchBytes = value;
      return this;
    }

    /**
     * Rows for a node of this host are written into its memory, where the node offers that and the system lets this
     * process (docs/feed_protocol.md, section 10).
     */
    public Builder sharedMemory(boolean value) {
      sharedMemory = value;
      return this;
    }

    /** Shared by the sessions of one call with one attempt of a node; otherwise each has its own. */
    public Builder progress(FeedProgress value) {
      progress = value;
      return this;
    }

    /**
     * Asked about ten times a second while a thread waits for the session; once it is true, the wait and the
     * session end with CANCELLED. A task gives its own isInterrupted().
     */
    public Builder cancelled(BooleanSupplier value) {
      cancelled = Objects.requireNonNull(value);
      return this;
    }

    public SessionOptions build() {
      return new SessionOptions(this);
    }
  }
}
