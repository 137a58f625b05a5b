package io.millrace.spark.internal.feed;

import java.io.IOException;
import java.nio.channels.Pipe;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.zeromq.ZMQ;

/**
 * The thread of a {@link FeedHub}, which alone touches its sockets: it hands what other threads ask for
 * ({@link HubQueue}) and what nodes say to {@link HubSessions}.
 */
final class HubLoop implements Runnable {
  private static final int REPLIES_PER_TURN = 1000;
  private static final int COMMANDS_PER_TURN = 1000;

  private final HubQueue queue;
  private final Consumer<String> warnings;
  private final FeederIdentity identity = new FeederIdentity();
  private final HubStatus status = new HubStatus();
  private final ReplyAdmission admission = new ReplyAdmission(identity.principal);
  private final BoundedLines refusals = new BoundedLines();
  private final BoundedLines shortages = new BoundedLines();
  private final ZMQ.Context context;
  private final ReplySockets replies;
  private final HubSessions sessions;

  HubLoop(HubQueue queue, Consumer<String> warnings) throws IOException {
    this.queue = queue;
    this.warnings = warnings;
    context = ZMQ.context(1);
    // Called on JeroMQ's thread as it ends, perhaps for want of memory: nothing goes over a socket any more.
    context.setUncaughtExceptionHandler(
        (thread, e) -> {
          status.setDeath(e);
          queue.post(() -> {});
        });
    try {
      replies = new ReplySockets(context, identity, this::onReplyEvent);
    } catch (RuntimeException e) {
      context.close();
      queue.free();
      throw new IOException(e.getMessage(), e);
    }
    sessions = new HubSessions(context, queue, identity, admission, replies, status, warnings);
  }

  // ------------------------------------------------------------------------------- for any thread

  HubQueue queue() {
    return queue;
  }

  HubStatus status() {
    return status;
  }

  String principal() {
    return identity.principal;
  }

  String curveKey() {
    return identity.curveKeys.publicKey;
  }

  /** For what is posted to the queue. */
  HubSessions sessions() {
    return sessions;
  }

  ReplySockets repliesForTest() {
    return replies;
  }

  // ----------------------------------------------------------------------------------- the thread

  @Override
  public void run() {
    String why = "the feeder was stopped";
    try {
      ZMQ.Poller poller = context.poller(4);
      Pipe.SourceChannel wake = queue.wake();
      poller.register(wake, ZMQ.Poller.POLLIN);
      poller.register(replies.zap(), ZMQ.Poller.POLLIN);
      for (ZMQ.Socket socket : replies.replies()) {
        poller.register(socket, ZMQ.Poller.POLLIN);
      }
      boolean more = false;
      while (!queue.closed() && status.death() == null) {
        poller.poll(more ? 0 : pollTimeoutMillis());
        answerZap();
        queue.rest();
        if (wake != queue.wake()) {
          poller.unregister(wake);
          wake = queue.wake();
          poller.register(wake, ZMQ.Poller.POLLIN);
        }
        more = runCommands();
        for (ZMQ.Socket socket : replies.replies()) {
          more |= drain(socket);
        }
        sessions.onTime();
      }
      poller.close();
      if (status.death() != null) {
        why = "the feeder's I/O thread ended: " + status.death();
        warnings.accept(why + "; its sessions are broken, and a new feeder takes its place");
      }
    } catch (RuntimeException e) {
      why = "the feeder's thread ended: " + e;
      warnings.accept(why);
    } finally {
      end(why);
    }
  }

  private void end(String why) {
    queue.close();
    runCommands();
    sessions.end(why);
    replies.close();
    if (status.death() == null) {
      context.close(); // it waits for the I/O thread
    }
    queue.free();
  }

  private long pollTimeoutMillis() {
    long nanos = Math.min(sessions.pauseNanos(), queue.pauseNanos());
    return nanos == Long.MAX_VALUE ? -1 : Math.max(0, TimeUnit.NANOSECONDS.toMillis(nanos) + 1);
  }

  private boolean runCommands() {
    for (int i = 0; i < COMMANDS_PER_TURN; i++) {
      Runnable command = queue.take();
      if (command == null) {
        return false;
      }
      command.run();
    }
    return true;
  }

  private boolean drain(ZMQ.Socket from) {
    for (int i = 0; i < REPLIES_PER_TURN; i++) {
      HubSockets.Received received = HubSockets.receive(from);
      if (received == null) {
        return false;
      }
      sessions.onMessage(received);
    }
    return true;
  }

  private void answerZap() {
    ZMQ.Socket zap = replies.zap();
    for (List<byte[]> request = HubSockets.receiveZap(zap); request != null; request = HubSockets.receiveZap(zap)) {
      String admitted = admission.principalOf(request);
      if (admitted == null) {
        warn(refusals, "refused a reply connection of " + ReplyAdmission.describe(request));
        String named = admission.falselyNamed(request);
        if (named != null) {
          sessions.onFalselyLinked(named);
        }
      } else {
        sessions.onLinked(admitted);
      }
      HubSockets.answerZap(zap, request, admitted);
    }
  }

  private void warn(BoundedLines kind, String what) {
    String line = kind.line(what);
    if (line != null) {
      warnings.accept(line);
    }
  }

  /** Called on JeroMQ's thread. */
  private void onReplyEvent(int event) {
    // Death closes both connections of a node: the second event says that nothing more will come.
    queue.post(event == ZMQ.EVENT_DISCONNECTED ? this::onReplyConnectionClosed : this::tellShortage);
  }

  private void onReplyConnectionClosed() {
    sessions.onReplyConnectionClosed();
  }

  /** The listeners stand still for a moment: peers wait to be taken. */
  private void tellShortage() {
    warn(
        shortages,
        "too many peers have connected and not logged in, or no file descriptor is left for one; others wait "
            + "until there is room (ulimit -n; who connects?)");
  }
}
