package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Where {@code millrace-agent} is on this host. */
final class AgentProgram {
  private static final String PROPERTY = "millrace.agent";
  private static final String VARIABLE = "MILLRACE_AGENT";

  private AgentProgram() {}

  /** The system property millrace.agent, otherwise the environment variable MILLRACE_AGENT. */
  static String path() {
    String given = System.getProperty(PROPERTY, System.getenv(VARIABLE));
    if (given == null || given.isEmpty()) {
      throw new MillraceException(
          StatusCode.NOT_FOUND,
          "no millrace-agent on " + Hosts.local() + ": set " + VARIABLE + ", or -D" + PROPERTY + "=PATH");
    }
    if (!Files.isRegularFile(Paths.get(given))) {
      throw new MillraceException(
          StatusCode.NOT_FOUND, "millrace-agent is not on " + Hosts.local() + ": no file " + given);
    }
    return given;
  }
}
