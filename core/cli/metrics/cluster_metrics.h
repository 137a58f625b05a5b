// File: core/cli/metrics/cluster_metrics.h
//
// Clusters as numbers, for Prometheus: docs/observability.md lists them.
//
// Defines: ClusterMetricsOptions, ClusterMetrics().
#ifndef CORE_CLI_METRICS_CLUSTER_METRICS_H_
#define CORE_CLI_METRICS_CLUSTER_METRICS_H_

#include <string>
#include <vector>

#include "core/client/cluster_view.h"
#include "core/client/ended_cluster.h"
#include "core/metrics/metrics_text.h"

namespace millrace::cli {

struct ClusterMetricsOptions {
  MetricsFormat format = MetricsFormat::kOpenMetrics;
  // Also a handful of samples for each node and GPU. Without it the text is as long for 10,000
  // nodes as for two: labels are clusters, roles, queues and fixed words.
  bool nodes = false;
};

// The newest of each of these clusters, which have different ids, and how others have ended. A view
// that nothing has come for is left out. Blocking: never; 10,000 nodes take some milliseconds.
[[nodiscard]] std::string ClusterMetrics(const std::vector<const ClusterView*>& clusters,
                                         const std::vector<EndedCluster>& ended,
                                         const ClusterMetricsOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_METRICS_CLUSTER_METRICS_H_
