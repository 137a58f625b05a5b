package io.millrace.spark.internal.cluster;

import io.millrace.spark.ClusterObserver;
import io.millrace.spark.NodeOutput;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What nodes write and measure, and how they are, on its way to an observer: the thread that reads the coordinator's
 * lines must not wait for it. Thread-safe.
 */
final class Observations implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Observations.class);
  /** Events that wait for the observer: beyond them lines are counted, and metrics forgotten; a slot always waits. */
  private static final int MAX_WAITING = 1024;

  private final ClusterObserver observer;
  // Guarded by this.
  private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
  private final Map<String, Long> droppedLines = new HashMap<>();
  private boolean closed;

  Observations(ClusterObserver observer) {
    this.observer = observer;
    Thread thread = new Thread(this::run, "millrace-observer");
    thread.setDaemon(true);
    thread.start();
  }

  /** An event "output" or "metric". */
  void take(String event, JsonObject members) throws BadInputException {
    if (event.equals("output")) {
      takeOutput(members);
    } else {
      takeMetric(members);
    }
  }

  /** An event "slot". */
  void takeSlot(Slot slot) {
    add(() -> observer.onSlot(slot.info()));
  }

  private void takeOutput(JsonObject members) throws BadInputException {
    NodeOutput said = outputOf(members);
    synchronized (this) {
      if (waiting.size() >= MAX_WAITING) {
        droppedLines.merge(said.node(), said.dropped() + said.lines().size(), Long::sum);
        return;
      }
      Long before = droppedLines.remove(said.node());
      NodeOutput output =
          before == null
              ? said
              : new NodeOutput(said.node(), said.source(), said.lines(), said.dropped() + before);
      add(() -> observer.onOutput(output));
    }
  }

  /** What an event "output" says, of the coordinator or of an agent. */
  static NodeOutput outputOf(JsonObject members) throws BadInputException {
    List<String> lines = new ArrayList<>();
    for (Object line : members.list("lines")) {
      lines.add((String) line);
    }
    return new NodeOutput(
        members.string("node"), sourceOf(members.string("source")), lines, members.count("dropped"));
  }

  private void takeMetric(JsonObject members) throws BadInputException {
    String node = members.string("node");
    String name = members.string("name");
    long step = members.integer("step");
    Object value = members.members().get("value");
    // JSON has no number for what is none.
    double number = value instanceof Number ? ((Number) value).doubleValue() : Double.NaN;
    synchronized (this) {
      if (waiting.size() < MAX_WAITING) {
        add(() -> observer.onMetric(node, name, step, number));
      }
    }
  }

  private static NodeOutput.Source sourceOf(String name) throws BadInputException {
    try {
      return NodeOutput.Source.valueOf(name.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw new BadInputException("\"source\" is " + name);
    }
  }

  private synchronized void add(Runnable call) {
    waiting.add(call);
    notifyAll();
  }

  /** What waits is told still; null at the end. */
  private synchronized Runnable next() throws InterruptedException {
    while (waiting.isEmpty() && !closed) {
      wait();
    }
    return waiting.poll();
  }

  private void run() {
    try {
      for (Runnable call = next(); call != null; call = next()) {
        try {
          call.run();
        } catch (RuntimeException e) {
          LOG.warn("the cluster's observer failed", e);
        }
      }
    } catch (InterruptedException e) {
      LOG.warn("the cluster's observer was interrupted: it hears no more");
    }
  }

  /** The observer hears what has come until now. Does not wait for it. */
  @Override
  public synchronized void close() {
    closed = true;
    notifyAll();
  }
}
