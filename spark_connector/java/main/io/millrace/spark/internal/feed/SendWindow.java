package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;
import java.util.ArrayDeque;

/**
 * The credit of one session, in BATCH bytes since OPEN (docs/feed_protocol.md, section 5), and the batches that were
 * sent and whose memory is not free yet, with their share of what the process may have. Guarded by the session's lock.
 */
final class SendWindow {
  /** A batch that was sent, until the node has it: its memory is used again then. */
  private static final class Outstanding {
    final long endRow;
    final EncodedBatch batch;

    Outstanding(long endRow, EncodedBatch batch) {
      this.endRow = endRow;
      this.batch = batch;
    }
  }

  private final SendBudget.Share share;
  private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
  private long sentBytes;
  private long limit;
  private long released;
  private long needed; // of the last BLOCKED

  SendWindow(SendBudget.Share share) {
    this.share = share;
  }

  /** Credit that a batch costs. */
  static long bytesOf(EncodedBatch batch) {
    return BatchPrefix.BYTES + batch.bytes();
  }

  /** Whether the node has room for a batch of that size. */
  boolean fits(long bytes) {
    return bytes <= limit - sentBytes;
  }

  /** Whether the process has room for another batch; if so, it is kept until that is sent, or {@link #leave}. */
  boolean reserve() {
    return share.reserve();
  }

  /** Whether the process has none. */
  boolean isWaitingForRoom() {
    return share.isWaiting();
  }

  /** Nobody waits to send, or is about to. */
  void leave() {
    share.leave();
  }

  /** END_PARTITION was sent. */
  void sentEnd() {
    share.followed();
  }

  /** The limit that the node is to be told for a batch of that size; 0 if it knows. */
  long need(long bytes) {
    if (needed == sentBytes + bytes) {
      return 0;
    }
    needed = sentBytes + bytes;
    return needed;
  }

  /** Whether a batch waits for the node to raise the limit. */
  boolean isBlocked() {
    return needed > limit;
  }

  /** {@code endRow}: the row after the batch's last. */
  void sent(long endRow, EncodedBatch batch) {
    sentBytes += bytesOf(batch);
    share.sent(bytesOf(batch));
    outstanding.addLast(new Outstanding(endRow, batch));
  }

  /** A copy of the batch was sent: its memory is free. */
  void sentCopy(EncodedBatch batch) {
    sentBytes += bytesOf(batch);
    share.followed();
    batch.release();
  }

  /** CREDIT; returns whether the batch that waited may go now. */
  boolean onCredit(Counts credit) throws BadInputException {
    Counts.require(credit.first >= limit, "CREDIT: the limit fell: now and before", credit.first, limit);
    Counts.require(credit.second >= released, "CREDIT: released fell: now and before", credit.second, released);
    Counts.require(credit.second <= sentBytes, "CREDIT: more released than sent:", credit.second, sentBytes);
    boolean freed = isBlocked() && needed <= credit.first;
    limit = credit.first;
    released = credit.second;
    return freed;
  }

  /** The node has the rows before this one. */
  void releaseUpTo(long row) {
    long bytes = 0;
    while (!outstanding.isEmpty() && outstanding.peekFirst().endRow <= row) {
      EncodedBatch batch = outstanding.pollFirst().batch;
      bytes += bytesOf(batch);
      batch.release();
    }
    if (bytes > 0) {
      share.release(bytes);
    }
  }

  /** Some may still be on their way to a socket: their memory is left to the garbage collector. */
  void forget() {
    long bytes = 0;
    for (Outstanding one : outstanding) {
      bytes += bytesOf(one.batch);
    }
    outstanding.clear();
    if (bytes > 0) {
      share.release(bytes);
    }
  }
}
