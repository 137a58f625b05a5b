package io.millrace.spark.internal.feed;

/** What a {@link FeedHub} has done since its start. Immutable. */
public final class FeedStats {
  public final long batchesSent;
  /** Of them, through shared memory. */
  public final long batchesPlaced;
  public final long bytesSent;
  public final long resultsReceived;
  /** Of them, through shared memory. */
  public final long resultsPlaced;
  /** Frames that broke the rules, each of which barred its sender. */
  public final long badFrames;
  /** Logins that nodes refused. */
  public final long refusals;

  FeedStats(
      long batchesSent,
      long batchesPlaced,
      long bytesSent,
      long resultsReceived,
      long resultsPlaced,
      long badFrames,
      long refusals) {
    this.batchesSent = batchesSent;
    this.batchesPlaced = batchesPlaced;
    this.bytesSent = bytesSent;
    this.resultsReceived = resultsReceived;
    this.resultsPlaced = resultsPlaced;
    this.badFrames = badFrames;
    this.refusals = refusals;
  }
}
