package example;

import io.millrace.spark.ClusterOptions;
import io.millrace.spark.InputMode;
import io.millrace.spark.NodeProgram;

/** Describes a cluster with what the dependency brings. */
public final class UsesMillrace {
  private UsesMillrace() {}

  public static void main(String[] args) {
    ClusterOptions options =
        ClusterOptions.builder().numExecutors(4).numPs(1).inputMode(InputMode.FEED).build();
    NodeProgram program = NodeProgram.path("/bin/true", "--x");
    System.out.println(options.numExecutors() + " executors run " + program.program());
  }
}
