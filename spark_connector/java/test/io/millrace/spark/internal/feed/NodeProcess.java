package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A real node program (//spark_connector/testing:feed_node), which ends with this. */
final class NodeProcess implements AutoCloseable {
  private final Process process;
  private final OutputStream in;
  private final BlockingQueue<JsonObject> lines = new LinkedBlockingQueue<>();
  private final FeedTarget target;
  private final FeedTarget remoteTarget; // null without --curve

  NodeProcess(String... flags) throws IOException, InterruptedException, BadInputException {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("feed_node"));
    command.addAll(Arrays.asList(flags));
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    in = process.getOutputStream();
    Thread reader = new Thread(this::read, "node-output");
    reader.setDaemon(true);
    reader.start();
    JsonObject ready = await("ready");
    target =
        new FeedTarget("worker:0", ready.string("nonce"), ready.string("endpoint"), ready.string("key"));
    remoteTarget =
        ready.string("curve").isEmpty()
            ? null
            : FeedTarget.remote("worker:0", ready.string("nonce"), ready.string("curve"), ready.string("curve_key"));
  }

  private void read() {
    try (BufferedReader out =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        lines.add(Json.parseObject(line, 8));
      }
    } catch (IOException e) {
      lines.clear(); // it was killed
    } catch (BadInputException e) {
      throw new AssertionError(e);
    }
  }

  FeedTarget target() {
    return target;
  }

  /** As a feeder of another host sees it. */
  FeedTarget remoteTarget() {
    return remoteTarget;
  }

  /** The next line, which must be this event and come within 20 s. */
  JsonObject await(String event) throws InterruptedException, BadInputException {
    JsonObject line = lines.poll(20, TimeUnit.SECONDS);
    if (line == null || !line.string("event").equals(event)) {
      throw new AssertionError(line + " came, wanted " + event);
    }
    return line;
  }

  /** Reads `rows` events until they add up to {@code rows}; returns the sum of the ids. */
  long awaitRows(long rows) throws InterruptedException, BadInputException {
    long sum = 0;
    long seen = 0;
    while (seen < rows) {
      JsonObject line = await("rows");
      seen += line.integer("rows");
      sum += line.integer("sum");
    }
    if (seen != rows) {
      throw new AssertionError(seen + " rows came, wanted " + rows);
    }
    return sum;
  }

  void say(String line) throws IOException {
    in.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    in.flush();
  }

  void kill() {
    process.destroyForcibly();
  }

  int exitCode() throws InterruptedException {
    if (!process.waitFor(20, TimeUnit.SECONDS)) {
      throw new AssertionError("the node did not end");
    }
    return process.exitValue();
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
