package io.millrace.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Lines that a node wrote, in its order. Immutable. */
public final class NodeOutput {
  /** Who wrote them: the program, or the agent about it. */
  public enum Source {
    STDOUT,
    STDERR,
    AGENT
  }

  private final String node;
  private final Source source;
  private final List<String> lines;
  private final long dropped;

  public NodeOutput(String node, Source source, List<String> lines, long dropped) {
    this.node = node;
    this.source = source;
    this.lines = Collections.unmodifiableList(new ArrayList<>(lines));
    this.dropped = dropped;
  }

  /** "worker:1". */
  public String node() {
    return node;
  }

  public Source source() {
    return source;
  }

  public List<String> lines() {
    return lines;
  }

  /** How many lines before these were left out here; logDir has them. */
  public long dropped() {
    return dropped;
  }
}
