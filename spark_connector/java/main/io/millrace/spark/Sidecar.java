package io.millrace.spark;

import java.util.Arrays;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A program beside one node: started by the node's agent once the node runs, killed with it, started again with
 * its next attempt. Its URL is published as soon as its port takes connections. How it ends is no failure.
 * Immutable.
 */
public final class Sidecar {
  private final String name;
  private final String node;
  private final String program;
  private final List<String> args;
  private final Map<String, String> env;

  private Sidecar(String name, String node, String program, List<String> args, Map<String, String> env) {
    this.name = Objects.requireNonNull(name);
    this.node = Objects.requireNonNull(node);
    this.program = Objects.requireNonNull(program);
    this.args = Collections.unmodifiableList(new ArrayList<>(args));
    this.env = Collections.unmodifiableMap(new LinkedHashMap<>(env));
  }

  /**
   * Beside the chief or master; worker:0 in clusters without.
   *
   * @param name 1 to 40 of a-z 0-9 -
   * @param program a path on the executor's host, or a name that is looked up in PATH there
   * @param args in which "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced
   */
  public static Sidecar of(String name, String program, String... args) {
    return new Sidecar(name, "", program, Arrays.asList(args), Collections.emptyMap());
  }

  /** The same beside "worker:1". */
  public Sidecar beside(String otherNode) {
    return new Sidecar(name, otherNode, program, args, env);
  }

  /** The same with one more variable in its environment. */
  public Sidecar env(String variable, String value) {
    Map<String, String> more = new LinkedHashMap<>(env);
    more.put(variable, value);
    return new Sidecar(name, node, program, args, more);
  }

  public String name() {
    return name;
  }

  /** "" stands for the chief or master, or worker:0. */
  public String node() {
    return node;
  }

  public String program() {
    return program;
  }

  public List<String> args() {
    return args;
  }

  public Map<String, String> env() {
    return env;
  }
}
