package io.millrace.spark;

import io.millrace.spark.internal.cluster.PythonFunction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The program that every node runs: any executable, built on the SDK or not.
 *
 * <pre>{@code
 * NodeProgram.file("digits_node", "--epochs=5").env("OMP_NUM_THREADS", "2")
 * }</pre>
 *
 * Immutable.
 */
public final class NodeProgram {
  private final String program;
  private final boolean shipped;
  private final List<String> args;
  private final Map<String, String> env;
  private final PythonFunction function;

  private NodeProgram(
      String program, boolean shipped, List<String> args, Map<String, String> env, PythonFunction function) {
    this.program = program;
    this.shipped = shipped;
    this.args = Collections.unmodifiableList(args);
    this.env = Collections.unmodifiableMap(env);
    this.function = function;
  }

  /** A file of the driver's host, which is sent to every executor and checked there by its sha256. */
  public static NodeProgram file(String path, String... args) {
    return new NodeProgram(
        Objects.requireNonNull(path), true, new ArrayList<>(Arrays.asList(args)), new LinkedHashMap<>(), null);
  }

  /** A program that is on every host at that path. */
  public static NodeProgram path(String path, String... args) {
    return new NodeProgram(
        Objects.requireNonNull(path), false, new ArrayList<>(Arrays.asList(args)), new LinkedHashMap<>(), null);
  }

  /** The same program with one more variable in its environment. */
  public NodeProgram env(String name, String value) {
    Map<String, String> more = new LinkedHashMap<>(env);
    more.put(Objects.requireNonNull(name), Objects.requireNonNull(value));
    return new NodeProgram(program, shipped, args, more, function);
  }

  /**
   * The same program, an interpreter, with a function of Python that it runs: what the Python package makes of a
   * function that Cluster.run is given. It travels in Spark's tasks.
   */
  public NodeProgram withFunction(PythonFunction given) {
    return new NodeProgram(program, shipped, args, env, Objects.requireNonNull(given));
  }

  public String program() {
    return program;
  }

  /** Whether it is sent from the driver. */
  public boolean isShipped() {
    return shipped;
  }

  public List<String> args() {
    return args;
  }

  public Map<String, String> env() {
    return env;
  }

  /** Null if there is none. */
  public PythonFunction function() {
    return function;
  }
}
