package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;
import java.util.ArrayDeque;

/**
 * The credit of one session, in BATCH bytes since OPEN (docs/feed_protocol.md, section 5), and the batches that were
 * sent and whose memory is not free yet. Guarded by the session's lock.
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

  private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
  private long sentBytes;
  private long limit;
  private long released;
  private long needed; // of the last BLOCKED

  /** Credit that a batch costs. */
  static long bytesOf(EncodedBatch batch) {
    return BatchPrefix.BYTES + batch.bytes();
  }

  /** Whether a batch of that size may go. */
  boolean fits(long bytes) {
    return bytes <= limit - sentBytes;
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
    outstanding.addLast(new Outstanding(endRow, batch));
  }

  /** A copy of the batch was sent: its memory is free. */
  void sentCopy(EncodedBatch batch) {
    sentBytes += bytesOf(batch);
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
    while (!outstanding.isEmpty() && outstanding.peekFirst().endRow <= row) {
      outstanding.pollFirst().batch.release();
    }
  }

  /** Some may still be on their way to a socket: their memory is left to the garbage collector. */
  void forget() {
    outstanding.clear();
  }
}
