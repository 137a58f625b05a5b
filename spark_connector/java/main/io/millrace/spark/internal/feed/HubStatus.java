package io.millrace.spark.internal.feed;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What any thread may ask about a hub. Thread-safe; what counts is called by the hub's thread alone. */
final class HubStatus {
  private final Set<String> unproven = ConcurrentHashMap.newKeySet();
  private volatile Throwable death;
  private volatile long batchesSent;
  private volatile long batchesPlaced;
  private volatile long bytesSent;
  private volatile long resultsReceived;
  private volatile long resultsPlaced;
  private volatile long badFrames;
  private volatile long refusals;

  /** What has ended JeroMQ's I/O thread, so that nothing can be sent any more; null while it runs. */
  Throwable death() {
    return death;
  }

  void setDeath(Throwable why) {
    death = why;
  }

  /** Somebody else was met at the local address of the node with this nonce. */
  void addUnproven(String nonce) {
    unproven.add(nonce);
  }

  boolean isUnproven(String nonce) {
    return unproven.contains(nonce);
  }

  void countBatch(long bytes) {
    batchesSent++;
    bytesSent += bytes;
  }

  /** As {@link #countBatch}, for one in shared memory. */
  void countPlaced(long bytes) {
    batchesPlaced++;
    countBatch(bytes);
  }

  void countResult() {
    resultsReceived++;
  }

  /** As {@link #countResult}, for one in shared memory. */
  void countPlacedResult() {
    resultsPlaced++;
    countResult();
  }

  void countBadFrame() {
    badFrames++;
  }

  void countRefusal() {
    refusals++;
  }

  FeedStats stats() {
    return new FeedStats(batchesSent, batchesPlaced, bytesSent, resultsReceived, resultsPlaced, badFrames, refusals);
  }
}
