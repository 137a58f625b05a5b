package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The feeder of a JVM: one thread that owns every socket (docs/feed_protocol.md, section 1). Other threads
 * hand it frames through a queue; no interrupted task ever breaks off a send.
 *
 * <p>Thread-safe. Sessions may outlive it; they end as ABORTED when it is closed.
 */
public final class FeedHub implements AutoCloseable {
  private static final long OPEN_TIMEOUT_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final HubQueue queue;
  private final SendBudget budget = new SendBudget();
  private final HubLoop loop;
  private final Thread thread;
  private final Consumer<String> warnings;
  private final long openTimeoutNanos;

  private FeedHub(HubLoop loop, Thread thread, Consumer<String> warnings, long openTimeoutNanos) {
    this.queue = loop.queue();
    this.loop = loop;
    this.thread = thread;
    this.warnings = warnings;
    this.openTimeoutNanos = openTimeoutNanos;
  }

  /**
   * Starts the thread and binds the reply socket. An interrupt of the caller's is kept for later.
   *
   * @param warnings what a log should say: peers that break the rules, called on the hub's thread, and what sessions
   *     wait for, called on the threads that feed
   * @throws MillraceException RESOURCE_EXHAUSTED if the system gives no sockets
   */
  public static FeedHub start(Consumer<String> warnings) {
    return start(warnings, OPEN_TIMEOUT_NANOS);
  }

  /** {@code openTimeoutNanos}: how long each step to a node's first answer may take. */
  static FeedHub start(Consumer<String> warnings, long openTimeoutNanos) {
    Objects.requireNonNull(warnings);
    // On the hub's thread: a task may be interrupted at any time, which closes the channels that it opens.
    FutureTask<HubLoop> opening = new FutureTask<>(() -> new HubLoop(new HubQueue(), warnings));
    Thread thread = new Thread(() -> run(opening), "millrace-feed-hub");
    thread.setDaemon(true);
    thread.start();
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return new FeedHub(opening.get(), thread, warnings, openTimeoutNanos);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } catch (ExecutionException e) {
      throw new MillraceException(
          StatusCode.RESOURCE_EXHAUSTED, "the feed's sockets cannot be opened: " + e.getCause().getMessage());
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static void run(FutureTask<HubLoop> opening) {
    opening.run();
    HubLoop loop;
    try {
      loop = opening.get();
    } catch (InterruptedException | ExecutionException e) {
      return; // start() tells; nobody interrupts this thread
    }
    loop.run();
  }

  /** "feeder/&lt;hex&gt;". */
  public String principal() {
    return loop.principal();
  }

  /**
   * The public key under which this feeder comes to nodes of other hosts, 40 characters of Z85; to be
   * announced with the principal before a session with one of them is opened.
   */
  public String curveKey() {
    return loop.curveKey();
  }

  /**
   * Whether somebody else was met at the local address of the node with this nonce: it is to be reached by its
   * CURVE endpoint, if it has one.
   */
  public boolean hasMetAnother(String nonce) {
    return loop.status().isUnproven(nonce);
  }

  void noteUnproven(String nonce) {
    loop.status().addUnproven(nonce);
  }

  /** False once it can send no more and has ended its sessions as BROKEN: another one is to take its place. */
  public boolean isAlive() {
    return loop.status().death() == null;
  }

  /** Batches sent since the start, and their bytes. */
  public FeedStats stats() {
    return loop.status().stats();
  }

  /**
   * Opens a session with the attempt of the node that {@code target} names. Returns without waiting for the
   * node: that it cannot be reached, refuses or does not answer is told by the session.
   */
  public FeedSession open(FeedTarget target, SessionOptions options) {
    SessionRecord session = new SessionRecord(this, Text.randomNonZero(), target, options);
    SessionReplies replies = new SessionReplies(session);
    if (!queue.post(() -> loop.sessions().open(replies))) {
      replies.onEnd(SessionEnd.ABORTED, StatusCode.CANCELLED, "the feeder was stopped");
      replies.onClosed();
    }
    return new FeedSession(session, openTimeoutNanos);
  }

  SendBudget budget() {
    return budget;
  }

  /** On the hub's thread. */
  void later(Runnable command) {
    queue.post(command);
  }

  /** A line for the log, from a thread that feeds. */
  void warn(String line) {
    warnings.accept(line);
  }

  // ----------------------------------------------------------------------- for sessions, by number

  void sendFrame(long session, FrameType type, byte[] metadata, List<ByteBuffer> parts) {
    queue.post(() -> loop.sessions().send(session, type, metadata, parts));
  }

  /** As {@link #sendFrame}, where it may wait a moment for others ({@link #flush}). */
  void sendFrameSoon(long session, FrameType type, byte[] metadata) {
    queue.postSoon(() -> loop.sessions().send(session, type, metadata, Collections.<ByteBuffer>emptyList()));
  }

  /** Sends what waits for others. */
  void flush() {
    queue.flush();
  }

  /** As {@link HubSessions#close}. */
  void closeSession(long session, byte[] abort, boolean giveUp) {
    queue.post(() -> loop.sessions().close(session, abort, giveUp));
  }

  /** As {@link HubSessions#poison}. */
  void poison(String principal, String reason) {
    queue.post(() -> loop.sessions().poison(principal, reason));
  }

  ReplySockets repliesForTest() {
    return loop.repliesForTest();
  }

  /** Ends every session with CANCELLED and waits for the thread. Idempotent. */
  @Override
  public void close() {
    queue.close();
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
