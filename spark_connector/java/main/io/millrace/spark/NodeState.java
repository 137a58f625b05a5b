package io.millrace.spark;

import java.util.Locale;

/** A step of a node's life (docs/control_protocol.md), in their order. */
public enum NodeState {
  /** Nobody is there yet. */
  REQUESTED,
  /** Its agent was started. */
  STARTED,
  /** Its agent has come. */
  CONNECTED,
  /** Its agent has its role. */
  REGISTERED,
  /** Its program is about to start. */
  READY,
  /** Its program runs. */
  RUNNING,
  /** Its program was asked to end. */
  DRAINING,
  /** Its program has ended with exit code 0, or as it was asked to. */
  FINISHED,
  /** Its program or its agent has failed. */
  FAILED,
  /** Its agent does not answer any more. */
  LOST;

  /** "running". */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
