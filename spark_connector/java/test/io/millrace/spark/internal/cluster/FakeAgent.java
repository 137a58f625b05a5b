package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.binaries.AgentBinary;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;

/**
 * A millrace-agent that does as a test tells it: a shell script, which this JVM starts as its agents, gateways
 * and coordinators from here on.
 */
public final class FakeAgent {
  /** What a node's agent says once its node runs. */
  public static final String RUNNING =
      "echo '{\"event\":\"state\",\"state\":\"running\",\"job_name\":\"worker\",\"task_index\":0,\"attempt\":0}'";

  /** What answers a request with nothing. */
  public static final String ANSWER = "echo \"{\\\"id\\\":$id,\\\"result\\\":{}}\"";

  /**
   * Cases in which the first agent is killed as soon as its node runs, and another is awaited.
   *
   * @param then what that one does once its node runs
   */
  public static String killedOnce(String then) {
    return "'agent start') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"agent_id\\\":\\\"a\\\"}}\"; " + RUNNING
        + "; [ -e \"$0.killed\" ] || { : > \"$0.killed\"; kill -9 $$; }; " + then + ";; "
        + "'gateway agent_gone') echo \"{\\\"id\\\":$id,\\\"result\\\":{\\\"awaits_agent\\\":true}}\";;";
  }

  private final Path log;

  /**
   * Installs one.
   *
   * @param cases of the shell's `case`, each with what is done about a request: the subject is "MODE METHOD"; what
   *     none of them knows is answered
   * @param atEnd what is done once stdin is at its end
   */
  public FakeAgent(Path folder, String cases, String atEnd) throws IOException, ReflectiveOperationException {
    log = folder.resolve("fake_agent.log");
    Path script = folder.resolve("fake_agent");
    String text =
        "#!/bin/sh\n"
            + "note() { echo \"$*\" >> '" + log + "'; }\n"
            + "note \"$* began\"\n"
            + "echo '{\"event\":\"ready\",\"protocol\":1}'\n"
            + "while IFS= read -r line; do\n"
            + "  note \"$1 $line\"\n"
            + "  id=${line#*\\\"id\\\":}; id=${id%%,*}\n"
            + "  method=${line#*\\\"method\\\":\\\"}; method=${method%%\\\"*}\n"
            + "  case \"$1 $method\" in\n"
            + cases + "\n"
            + "    *) " + ANSWER + ";;\n"
            + "  esac\n"
            + "done\n"
            + atEnd + "\n"
            + "note \"$1 ended\"\n";
    Files.write(script, text.getBytes(StandardCharsets.UTF_8));
    Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwx------"));
    Field agent = AgentBinary.class.getDeclaredField("agent");
    agent.setAccessible(true);
    agent.set(null, script);
  }

  /** What its processes were asked and did, a line each: "MODE FLAGS began", "MODE REQUEST", "MODE ended". */
  public String log() throws IOException {
    return Files.exists(log) ? new String(Files.readAllBytes(log), StandardCharsets.UTF_8) : "";
  }

  /** How many of its processes were started in this mode. */
  public long starts(String mode) throws IOException {
    return Arrays.stream(log().split("\n"))
        .filter(line -> line.startsWith(mode + " ") && line.endsWith(" began"))
        .count();
  }

  /** How many threads of this JVM have the name. */
  public static long threads(String name) {
    return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().equals(name)).count();
  }
}
