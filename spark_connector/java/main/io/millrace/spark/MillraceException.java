package io.millrace.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * An error of Millrace: what happened, where, and what to do about it. If a node caused it, its name, how it
 * ended and the last lines that it wrote to stderr are here too.
 *
 * <p>Immutable and serializable.
 */
public class MillraceException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final StatusCode code;
  private final String node;
  private final String exitStatus;
  private final ArrayList<String> stderrLines;

  /** An error that no node caused. */
  public MillraceException(StatusCode code, String message) {
    this(code, message, "", "", Collections.<String>emptyList(), null);
  }

  /**
   * An error with everything known about its cause.
   *
   * @param node "worker:1", or "" if no node caused it
   * @param exitStatus "exit code 3", "killed by SIGKILL", or ""
   * @param stderrLines oldest first
   * @param cause may be null
   */
  public MillraceException(
      StatusCode code,
      String message,
      String node,
      String exitStatus,
      List<String> stderrLines,
      Throwable cause) {
    super(message, cause);
    this.code = Objects.requireNonNull(code);
    this.node = Objects.requireNonNull(node);
    this.exitStatus = Objects.requireNonNull(exitStatus);
    this.stderrLines = new ArrayList<>(stderrLines);
  }

  /** The kind of error. */
  public StatusCode code() {
    return code;
  }

  /** The node that caused it, "worker:1"; "" if none did. */
  public String node() {
    return node;
  }

  /** How that node's process ended: "exit code 3", "killed by SIGKILL"; "" if unknown or still running. */
  public String exitStatus() {
    return exitStatus;
  }

  /** The last lines of that node's stderr, oldest first; empty if unknown. */
  public List<String> stderrLines() {
    return Collections.unmodifiableList(stderrLines);
  }

  /** The same error with "prefix: " before its message. */
  public MillraceException annotated(String prefix) {
    return new MillraceException(code, prefix + ": " + getMessage(), node, exitStatus, stderrLines, this);
  }

  @Override
  public String toString() {
    return getClass().getName() + ": " + code + ": " + getMessage();
  }
}
