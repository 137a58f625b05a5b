package io.millrace.spark.internal.feed;

import java.util.ArrayDeque;

/**
 * What the sessions of a process have sent, all of them together, and the nodes have not received: a batch's memory is
 * in use until then. Credit bounds it for each node; this is the bound for the process.
 *
 * <p>A node confirms the last batch of a session only once the next one or END_PARTITION has followed it
 * (docs/feed_protocol.md, section 4). So each session may have one batch beside the limit, which counts as soon as it
 * is not the last any more. All that counts is confirmed without anybody's doing, whatever the programs do: who waits
 * for room gets it, the first comes first, and no session waits for another one to go on. A batch that is larger than
 * the limit counts alone. A process has as many sessions that send as tasks.
 *
 * <p>Thread-safe; the lock is held for a few instructions, and {@code wake} is called with it.
 */
final class SendBudget {
  // Guarded by this.
  private final ArrayDeque<Share> waiting = new ArrayDeque<>();
  private long countedBytes;
  private long lastBytes; // of the sessions' last batches, which do not count
  private long releasedNanos = System.nanoTime();

  /** One session's part. Each of its methods is for who holds the session's lock. */
  final class Share {
    private final long limitBytes;
    private final Runnable wake;
    private boolean waits;
    private boolean mayGo; // the last batch counts already, and another one is about to go
    private long sent; // not received
    private long last; // of it, what does not count

    private Share(long limitBytes, Runnable wake) {
      this.limitBytes = limitBytes;
      this.wake = wake;
    }

    /** Whether another batch may be sent; if not, {@code wake} is called when to ask again. */
    boolean reserve() {
      synchronized (SendBudget.this) {
        if (mayGo) {
          return true;
        }
        if (last > 0) {
          if (!waits) {
            waits = true;
            waiting.addLast(this);
          }
          if (!hasRoom(this)) {
            return false;
          }
          stopWaiting();
          count();
        }
        mayGo = true;
        return true;
      }
    }

    /** Neither waits nor sends now. */
    void leave() {
      synchronized (SendBudget.this) {
        mayGo = false;
        stopWaiting();
      }
    }

    /** A batch of that size went out. */
    void sent(long bytes) {
      synchronized (SendBudget.this) {
        count();
        mayGo = false;
        last = bytes;
        lastBytes += bytes;
        sent += bytes;
      }
    }

    /** A batch whose memory is free, or the partition's end, went out. */
    void followed() {
      synchronized (SendBudget.this) {
        count();
        mayGo = false;
      }
    }

    /** The node has so many bytes of what was sent. */
    void release(long bytes) {
      synchronized (SendBudget.this) {
        sent -= bytes;
        long left = Math.min(last, sent); // the node may have used the last one too
        countedBytes -= bytes - (last - left);
        lastBytes -= last - left;
        last = left;
        releasedNanos = System.nanoTime();
        wakeFirst();
      }
    }

    /** Whether it waits for room. */
    boolean isWaiting() {
      synchronized (SendBudget.this) {
        return waits;
      }
    }

    private void count() {
      countedBytes += last;
      lastBytes -= last;
      last = 0;
    }

    private void stopWaiting() {
      if (waits) {
        waits = false;
        waiting.remove(this);
        wakeFirst();
      }
    }
  }

  /**
   * A session's part.
   *
   * @param limitBytes that may count, of all sessions together, where this one is to send more
   * @param wake called, with this budget's lock, when a share that waits may ask again
   */
  Share share(long limitBytes, Runnable wake) {
    return new Share(limitBytes, wake);
  }

  /** All that was sent and not received. */
  synchronized long bytes() {
    return countedBytes + lastBytes;
  }

  /** When bytes were last released: who waits has not waited in vain until then. */
  synchronized long releasedNanos() {
    return releasedNanos;
  }

  private boolean hasRoom(Share share) {
    return waiting.peekFirst() == share && (countedBytes == 0 || countedBytes + share.last <= share.limitBytes);
  }

  private void wakeFirst() {
    Share first = waiting.peekFirst();
    if (first != null && hasRoom(first)) {
      first.wake.run();
    }
  }
}
