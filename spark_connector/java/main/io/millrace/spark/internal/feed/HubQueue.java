package io.millrace.spark.internal.feed;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Work for the hub's thread, and what wakes it. Thread-safe; {@link #wake}, {@link #pauseNanos}, {@link #take},
 * {@link #rest} and {@link #free} are the hub's.
 *
 * <p>Waking the hub, its socket's thread and the node costs more than the frame that names a batch in shared memory.
 * While such frames come one after another, a few of them are held for a moment and then go together.
 *
 * <p>Java closes a channel whose writer is interrupted, and Spark interrupts tasks: a pipe that was closed so
 * wakes the hub too, by its end, and is replaced.
 */
final class HubQueue {
  static final long HOLD_NANOS = TimeUnit.MILLISECONDS.toNanos(3);
  private static final int MOST_HELD = 4;

  private final ConcurrentLinkedQueue<Runnable> work = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean woken = new AtomicBoolean();
  private final AtomicInteger held = new AtomicInteger(); // posted by postSoon since the last rest
  private volatile boolean holding; // the hub looks soon by itself
  private long holdUntil; // the hub's
  private volatile Pipe pipe = openPipe();
  private volatile boolean closed;

  HubQueue() throws IOException {}

  private static Pipe openPipe() throws IOException {
    Pipe pipe = Pipe.open();
    pipe.source().configureBlocking(false);
    pipe.sink().configureBlocking(false);
    return pipe;
  }

  /** For the hub's poller: readable once there is work. Another one after a {@link #rest} that replaced it. */
  Pipe.SourceChannel wake() {
    return pipe.source();
  }

  /** Returns false, and does nothing, once the queue is closed. */
  boolean post(Runnable command) {
    if (closed) {
      return false;
    }
    work.add(command);
    signal();
    return true;
  }

  /**
   * As {@link #post}, for what may wait a moment if the hub has had such work a moment ago: the hub takes it before
   * whatever is posted later, with the fourth of its kind, with {@link #flush}, or after 3 ms.
   */
  void postSoon(Runnable command) {
    if (closed) {
      return;
    }
    work.add(command);
    if (held.incrementAndGet() >= MOST_HELD || !holding) {
      signal();
    }
  }

  /** What is held goes now: somebody waits for its effect. */
  void flush() {
    if (held.get() > 0) {
      signal();
    }
  }

  void close() {
    closed = true;
    signal();
  }

  boolean closed() {
    return closed;
  }

  private void signal() {
    if (!woken.compareAndSet(false, true)) {
      return;
    }
    boolean interrupted = Thread.interrupted();
    try {
      pipe.sink().write(ByteBuffer.allocate(1));
    } catch (IOException e) {
      // Closed by an interrupt, which wakes the hub, or freed: the hub runs no more.
      woken.set(false);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** The next command, null if there is none. Call {@link #rest} before the first of a round. */
  Runnable take() {
    return work.poll();
  }

  /** How long the hub may sleep at most, unless it is woken. */
  long pauseNanos() {
    return holding ? Math.max(0, holdUntil - System.nanoTime()) : Long.MAX_VALUE;
  }

  /** From here on the next post wakes the hub again. */
  void rest() {
    long now = System.nanoTime();
    if (held.getAndSet(0) > 0) {
      holdUntil = now + HOLD_NANOS;
      holding = true;
    } else {
      // What is posted before this is taken in this round, and what is posted after it wakes the hub.
      holding = holding && holdUntil - now > 0;
    }
    try {
      // Also when nobody is known to have signalled: a byte may come after the flag was taken back.
      ByteBuffer sink = ByteBuffer.allocate(16);
      int read = pipe.source().read(sink);
      while (read > 0) {
        sink.clear();
        read = pipe.source().read(sink);
      }
      if (read < 0) {
        Pipe broken = pipe;
        pipe = openPipe();
        broken.source().close();
      }
    } catch (IOException e) {
      throw new IllegalStateException("the hub's pipe is broken", e);
    }
    woken.set(false);
  }

  void free() {
    closed = true;
    try {
      pipe.sink().close();
      pipe.source().close();
    } catch (IOException e) {
      // Nothing depends on it.
      woken.set(false);
    }
  }
}
