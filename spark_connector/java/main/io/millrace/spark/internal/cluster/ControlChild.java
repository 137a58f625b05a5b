package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Interrupts;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A {@code millrace-agent} of this JVM, spoken to in JSON Lines (docs/control_protocol.md). It ends when
 * this JVM does, however it ends: its stdin is then at its end.
 *
 * <p>Thread-safe. Owns the process and two threads, which end with it.
 */
final class ControlChild {
  private static final Logger LOG = LoggerFactory.getLogger(ControlChild.class);
  private static final int MAX_DEPTH = 32;
  private static final int KEPT_LINES = 20;

  /**
   * This JVM is a driver, with a terminal or a notebook maybe, whose interrupts are not for its children. Those of an
   * executor stay in the session of their container, which may be killed by it.
   */
  private static volatile boolean inDriver;

  static void setInDriver() {
    inDriver = true;
  }

  /** What the child tells. Called on its reading thread, in order. */
  interface Listener {
    /** Any event but the first, "ready". */
    void onEvent(String event, JsonObject members) throws BadInputException;

    /** The child is gone, with this exit code (128 + n: killed by signal n); nothing comes after. */
    void onExit(int exitCode);
  }

  private final String name;
  private final Process process;
  private final OutputStream in;
  private final Listener listener;
  private final CompletableFuture<Void> ready = new CompletableFuture<>();
  private final CompletableFuture<Integer> exit = new CompletableFuture<>();
  // Guarded by this.
  private final Map<Long, CompletableFuture<JsonObject>> pending = new LinkedHashMap<>();
  private final ArrayList<String> lastLines = new ArrayList<>();
  private long nextId = 1;
  private volatile boolean gone; // read without the lock too, which a child that reads slowly may hold up

  private ControlChild(String name, Process process, Listener listener) {
    this.name = name;
    this.process = process;
    this.in = process.getOutputStream();
    this.listener = listener;
  }

  /** As {@link #start(String, String, Map, Listener)}, in this JVM's environment. */
  static ControlChild start(String name, String mode, Listener listener) {
    return start(name, mode, Collections.<String, String>emptyMap(), listener);
  }

  /**
   * Starts {@code millrace-agent MODE --parent=stdin} and waits until it speaks.
   *
   * @param name for logs and errors: "coordinator", "agent of worker:1"
   * @param environment besides this JVM's
   * @throws MillraceException NOT_FOUND or PERMISSION_DENIED if the program cannot be run, UNAVAILABLE if it
   *     does not speak
   */
  static ControlChild start(String name, String mode, Map<String, String> environment, Listener listener) {
    String program = AgentProgram.path();
    ProcessBuilder builder = new ProcessBuilder(program, mode, "--parent=stdin");
    if (inDriver) {
      builder.command().add("--new-session");
    }
    // What a task may write to is java.io.tmpdir; Spark removes it with the executor.
    builder.environment().put("TMPDIR", System.getProperty("java.io.tmpdir"));
    builder.environment().putAll(environment);
    Process process;
    try {
      process = builder.start();
    } catch (IOException e) {
      throw new MillraceException(
          StatusCode.PERMISSION_DENIED,
          "the " + name + " cannot be started: " + program + " on " + Hosts.local() + ": " + e.getMessage()
              + "; it must be executable there (is java.io.tmpdir mounted noexec?)");
    }
    ControlChild child = new ControlChild(name, process, listener);
    child.startThread("millrace-" + mode + "-log", child::readLog);
    child.startThread("millrace-" + mode, child::readLines);
    try {
      child.ready.get(60, TimeUnit.SECONDS);
      return child;
    } catch (ExecutionException | TimeoutException e) {
      child.kill();
      throw new EndedException(
          "the " + name + " (" + program + " on " + Hosts.local() + ") "
              + (e instanceof TimeoutException ? "said nothing for 60 s" : "ended at once") + child.lastLines());
    } catch (InterruptedException e) {
      child.kill();
      throw Interrupts.cancelled("interrupted while the " + name + " started", e);
    }
  }

  private void startThread(String threadName, Runnable body) {
    Thread thread = new Thread(body, threadName);
    thread.setDaemon(true);
    thread.start();
  }

  private synchronized String lastLines() {
    return lastLines.isEmpty() ? "" : "; its last lines: " + String.join(" | ", lastLines);
  }

  // ---------------------------------------------------------------------------------------- requests

  /**
   * Sends a request. The future ends with the result, or exceptionally with a {@link MillraceException}: the
   * child's error, or UNAVAILABLE when it is gone.
   */
  CompletableFuture<JsonObject> send(String method, Map<String, ?> params) {
    CompletableFuture<JsonObject> reply = new CompletableFuture<>();
    Map<String, Object> request = new LinkedHashMap<>();
    synchronized (this) {
      if (gone) {
        reply.completeExceptionally(endedError());
        return reply;
      }
      long id = nextId++;
      pending.put(id, reply);
      request.put("id", id);
      request.put("method", method);
      request.put("params", params);
      byte[] line = (Json.write(request) + "\n").getBytes(StandardCharsets.UTF_8);
      try {
        in.write(line);
        in.flush();
      } catch (IOException e) {
        gone = true; // before its end is seen: a process that was killed takes nothing
        pending.remove(id);
        reply.completeExceptionally(endedError());
      }
    }
    return reply;
  }

  /** Sends a request and waits for its result. Interruptible: CANCELLED, the flag stays set. */
  JsonObject call(String method, Map<String, ?> params) {
    return await(send(method, params), name + ": " + method);
  }

  /** The result of a request; errors as {@link MillraceException}, with a trace of the calling thread. */
  static JsonObject await(CompletableFuture<JsonObject> reply, String what) {
    try {
      return reply.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof MillraceException) {
        MillraceException error = (MillraceException) e.getCause();
        throw new MillraceException(
            error.code(), error.getMessage(), error.node(), error.exitStatus(), error.stderrLines(), error);
      }
      throw new MillraceException(StatusCode.INTERNAL, what + ": " + e.getCause());
    } catch (InterruptedException e) {
      throw Interrupts.cancelled(what + ": interrupted", e);
    }
  }

  private static final class EndedException extends MillraceException {
    private static final long serialVersionUID = 1L;

    EndedException(String message) {
      super(StatusCode.UNAVAILABLE, message);
    }
  }

  private MillraceException endedError() {
    return new EndedException("the " + name + " has ended" + lastLines());
  }

  /** Whether a request has failed so since the child has ended. */
  static boolean hasEnded(MillraceException e) {
    return e instanceof EndedException || e.getCause() instanceof EndedException;
  }

  // -------------------------------------------------------------------------------------- its output

  private void readLines() {
    InputStream out = process.getInputStream();
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(out, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        onLine(line);
      }
    } catch (IOException e) {
      LOG.debug("{}: {}", name, e.getMessage()); // as at its end
    }
    int exitCode = reap();
    List<CompletableFuture<JsonObject>> unanswered;
    MillraceException error;
    synchronized (this) {
      gone = true;
      unanswered = new ArrayList<>(pending.values());
      pending.clear();
      error = endedError();
    }
    for (CompletableFuture<JsonObject> reply : unanswered) {
      reply.completeExceptionally(error);
    }
    ready.completeExceptionally(error);
    listener.onExit(exitCode);
    exit.complete(exitCode);
  }

  private int reap() {
    while (true) {
      try {
        return process.waitFor();
      } catch (InterruptedException e) {
        LOG.debug("{}: an interrupt that nobody sends", name);
      }
    }
  }

  private void onLine(String line) {
    try {
      JsonObject message = Json.parseObject(line, MAX_DEPTH);
      if (!message.has("event")) {
        onReply(message);
      } else if (message.string("event").equals("ready")) {
        ready.complete(null);
      } else {
        listener.onEvent(message.string("event"), message);
      }
    } catch (BadInputException e) {
      LOG.warn("{}: a line that makes no sense: {}", name, e.getMessage());
    } catch (RuntimeException e) {
      LOG.warn("{}: an event could not be handled", name, e);
    }
  }

  private void onReply(JsonObject message) throws BadInputException {
    CompletableFuture<JsonObject> reply;
    synchronized (this) {
      reply = pending.remove(message.integer("id"));
    }
    if (reply == null) {
      return;
    }
    if (message.has("result")) {
      reply.complete(message.object("result"));
    } else {
      JsonObject error = message.object("error");
      reply.completeExceptionally(
          new MillraceException(StatusCode.fromName(error.string("code")), error.string("message")));
    }
  }

  private void readLog() {
    InputStream err = process.getErrorStream();
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(err, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        LOG.info("{}: {}", name, line);
        synchronized (this) {
          lastLines.add(line);
          if (lastLines.size() > KEPT_LINES) {
            lastLines.remove(0);
          }
        }
      }
    } catch (IOException e) {
      LOG.debug("{}: {}", name, e.getMessage()); // as at its end
    }
  }

  // ------------------------------------------------------------------------------------------ ending

  /** Ends with the exit code when the child is gone. */
  CompletableFuture<Integer> exit() {
    return exit;
  }

  /** False from when requests fail because it is gone: {@link Listener#onExit} may be yet to come. */
  boolean isAlive() {
    return !gone;
  }

  /** Closes its stdin: it ends what it runs and itself. */
  void close() {
    try {
      in.close();
    } catch (IOException e) {
      LOG.debug("{}: {}", name, e.getMessage()); // it is gone already
    }
  }

  /** Waits for its end, also if the thread is interrupted (the flag stays); false if it does not come in time. */
  boolean awaitExit(long millis) {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    boolean interrupted = false;
    try {
      while (true) {
        try {
          exit.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
          return true;
        } catch (InterruptedException e) {
          interrupted = true;
        } catch (ExecutionException | TimeoutException e) {
          return false;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  void kill() {
    process.destroyForcibly();
  }

  static Map<String, ?> noParams() {
    return Collections.emptyMap();
  }
}
