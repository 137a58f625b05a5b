// File: core/cli/metrics/exporter.h
//
// Watches clusters, and says in numbers how they are.
//
// Defines: ClustersToWatch, Exporter, ClustersOfThisUser(), ClustersOfThisProcess().
//
//   Exporter exporter(ClustersOfThisUser);
//   WriteAnswer(exporter.Scrape({.format = MetricsFormat::kOpenMetrics}));
#ifndef CORE_CLI_METRICS_EXPORTER_H_
#define CORE_CLI_METRICS_EXPORTER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/cli/metrics/cluster_metrics.h"
#include "core/client/ended_cluster.h"
#include "millrace/client.h"

namespace millrace::cli {

struct ClustersToWatch {
  std::map<std::string, ClusterClientOptions> running;  // by a key of the caller's, as the id
  std::vector<EndedCluster> ended;
};

// One watch a cluster, from the first Scrape() that finds it until the first that does not, or
// until it is gone: a scrape reads what the watches have told, and asks nobody.
//
// Thread safety: thread-safe; one scrape at a time. Blocking: Scrape(), for the disk, and for at
// most `patience` where a cluster is new.
class Exporter {
 public:
  // `find` is called by each Scrape().
  explicit Exporter(std::function<absl::StatusOr<ClustersToWatch>()> find,
                    absl::Duration patience = absl::Seconds(2));
  ~Exporter();

  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Returns the error of `find`. A cluster that cannot be reached is left out.
  [[nodiscard]] absl::StatusOr<std::string> Scrape(const ClusterMetricsOptions& options);

 private:
  class Watched;

  // Watches of clusters that are new begin, those of clusters that are gone end.
  void Follow(const std::map<std::string, ClusterClientOptions>& running)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(scrape_mu_);

  const std::function<absl::StatusOr<ClustersToWatch>()> find_;
  const absl::Duration patience_;
  Mutex scrape_mu_;  // around view_mu_
  Mutex view_mu_;    // what watches tell
  CondVar told_;
  std::map<std::string, std::unique_ptr<Watched>> watched_ ABSL_GUARDED_BY(scrape_mu_);
};

// Those of this user on this machine, by their files. Blocking: disk.
[[nodiscard]] absl::StatusOr<ClustersToWatch> ClustersOfThisUser();
// Those of them that this process drives, while they run.
[[nodiscard]] absl::StatusOr<ClustersToWatch> ClustersOfThisProcess();

}  // namespace millrace::cli

#endif  // CORE_CLI_METRICS_EXPORTER_H_
