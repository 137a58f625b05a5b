// File: resolver/spark/spark_cluster.h
//
// Executors to tasks: deals the active executors of an application to jobs and gives each task its
// address. The rules stand in spark_resolver.h.
//
// Defines: SparkJob, SparkCluster, MakeSparkCluster(), CheckSparkJobs().

#ifndef RESOLVER_SPARK_SPARK_CLUSTER_H_
#define RESOLVER_SPARK_SPARK_CLUSTER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/spark_executor.h"
#include "resolver/spark/spark_application.h"

namespace millrace {

struct SparkJob {
  std::string name;
  std::optional<int> num_tasks;  // nullopt: all executors that other jobs leave
  int port = 0;                  // of the first of its tasks on a host, 1 to 65535
};

struct SparkCluster {
  using Task = SparkTask;
  ClusterSpec spec;
  std::vector<Task> tasks;  // by executor
};

// The jobs in the order in which they are dealt. Returns INVALID_ARGUMENT, saying what to do, if a
// name is empty or there twice, a number is below 1, a port is none, or two jobs take what is left.
[[nodiscard]] absl::StatusOr<std::vector<SparkJob>> CheckSparkJobs(std::vector<SparkJob> jobs);

// `jobs` as CheckSparkJobs() returned them. Returns FAILED_PRECONDITION if executors are missing
// (never with kAvailable) or have no host; INVALID_ARGUMENT if two tasks would have one address, or
// ports run out.
// Thread safety: both are pure functions.
[[nodiscard]] absl::StatusOr<SparkCluster> MakeSparkCluster(const SparkApplication& application,
                                                            const std::vector<SparkJob>& jobs,
                                                            MemberCompleteness completeness);

}  // namespace millrace

#endif  // RESOLVER_SPARK_SPARK_CLUSTER_H_
