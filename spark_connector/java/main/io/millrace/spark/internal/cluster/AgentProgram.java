package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.binaries.AgentBinary;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Where {@code millrace-agent} is on this host. */
final class AgentProgram {
  private static final String VARIABLE = "MILLRACE_AGENT";

  private AgentProgram() {}

  /** What the environment variable MILLRACE_AGENT names, otherwise the one that the connector's jar holds. */
  static String path() {
    String given = System.getenv(VARIABLE);
    if (given == null || given.isEmpty()) {
      return AgentBinary.path().toString();
    }
    if (!Files.isRegularFile(Paths.get(given))) {
      throw new MillraceException(
          StatusCode.NOT_FOUND, VARIABLE + " names " + given + ", which is no file of " + Hosts.local());
    }
    return given;
  }
}
