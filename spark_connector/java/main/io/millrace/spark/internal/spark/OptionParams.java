package io.millrace.spark.internal.spark;

import io.millrace.spark.FailureOptions;
import io.millrace.spark.FeedOptions;
import io.millrace.spark.NodeOptions;
import io.millrace.spark.QuarantinePolicy;
import io.millrace.spark.RestartPolicy;
import io.millrace.spark.Sidecar;
import io.millrace.spark.internal.base.Durations;
import io.millrace.spark.internal.cluster.Params;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The groups of a cluster's options as the coordinator takes them (docs/control_protocol.md, section 5). What was not
 * set is left out, so that the coordinator has the only default.
 */
final class OptionParams {
  private OptionParams() {}

  /** Without what the agents are told: workingDir and portRange. */
  static Params of(NodeOptions node) {
    return Params.of("default_fs", node.defaultFs())
        .and("release_port", node.releasePort())
        .and("gpus_per_node", node.gpusPerNode())
        .and("gpus_by_job", node.gpusByJob())
        .and("log_bytes_per_second", node.logBytesPerSecond())
        .and("sidecars", sidecars(node.sidecars()));
  }

  static Params of(FeedOptions feed) {
    return Params.of("queues", feed.queues())
        .and("port_range", feed.portRange())
        .and("budget_bytes", feed.budgetBytes())
        .and("shared_memory", feed.sharedMemory());
  }

  static Params of(FailureOptions failure) {
    return Params.of("restart", restart(failure.restart()))
        .and("restart_by_job", restarts(failure.restartByJob()))
        .and("quarantine", quarantine(failure.quarantine()))
        .and("stop_grace_ms", millis(failure.stopGrace()))
        .and("stop_timeout_ms", millis(failure.stopTimeout()));
  }

  static Long millis(Duration duration) {
    return duration == null ? null : Durations.millis(duration);
  }

  private static Params restart(RestartPolicy policy) {
    return policy == null
        ? null
        : Params.of("max_restarts", policy.maxRestarts())
            .and("window_ms", millis(policy.window()))
            .and("initial_backoff_ms", millis(policy.initialBackoff()))
            .and("max_backoff_ms", millis(policy.maxBackoff()));
  }

  private static Params restarts(Map<String, RestartPolicy> policies) {
    if (policies == null) {
      return null;
    }
    Params jobs = new Params();
    policies.forEach((job, policy) -> jobs.and(job, restart(policy)));
    return jobs;
  }

  private static Params quarantine(QuarantinePolicy policy) {
    return policy == null
        ? null
        : Params.of("failures", policy.failures())
            .and("window_ms", millis(policy.window()))
            .and("duration_ms", millis(policy.duration()));
  }

  private static List<Params> sidecars(List<Sidecar> sidecars) {
    if (sidecars == null) {
      return null;
    }
    List<Params> all = new ArrayList<>();
    for (Sidecar sidecar : sidecars) {
      all.add(
          Params.of("name", sidecar.name())
              .and("node", sidecar.node())
              .and("program", sidecar.program())
              .and("args", sidecar.args())
              .and("env", sidecar.env()));
    }
    return all;
  }
}
