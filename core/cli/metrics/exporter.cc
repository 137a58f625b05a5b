#include "core/cli/metrics/exporter.h"

#include <unistd.h>

#include <iterator>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "core/net/socket_address.h"
#include "core/proto/watch.pb.h"
#include "millrace/cluster_file.h"
#include "millrace/status_macros.h"

namespace millrace::cli {

// A cluster, as its watch has told last.
class Exporter::Watched {
 public:
  static absl::StatusOr<std::unique_ptr<Watched>> Start(ClusterClientOptions options, Mutex* mu,
                                                        CondVar* told) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                              RawClusterClient::Connect(std::move(options)));
    std::unique_ptr<Watched> watched(new Watched(mu, told));
    RawWatchCallbacks callbacks;
    callbacks.take_update = [self = watched.get()](std::shared_ptr<v1::WatchUpdate> update) {
      self->Take(*update);
    };
    callbacks.on_state = [self = watched.get()](const WatchState& state) { self->SetState(state); };
    MILLRACE_ASSIGN_OR_RETURN(watched->watch_, client->Watch({}, std::move(callbacks)));
    return watched;
  }

  ~Watched() {
    if (watch_ != nullptr) watch_->Stop();
  }

  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // With `mu` held.
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const ClusterView& view() const { return view_; }

 private:
  Watched(Mutex* mu, CondVar* told) : mu_(mu), told_(told) {}

  void Take(const v1::WatchUpdate& update) {
    MutexLock lock(mu_);
    const absl::Status taken = view_.Apply(update);
    if (!taken.ok()) MILLRACE_LOG(WARNING) << "an update of a cluster is left out: " << taken;
    told_->SignalAll();
  }

  void SetState(const WatchState& state) {
    MutexLock lock(mu_);
    const bool refused = state.kind == WatchState::Kind::kRefused;
    if (refused) MILLRACE_LOG(WARNING) << "a cluster cannot be watched: " << state.reason;
    over_ = refused || state.kind == WatchState::Kind::kGone;
    told_->SignalAll();
  }

  Mutex* const mu_;
  CondVar* const told_;
  ClusterView view_;
  bool over_ = false;
  std::unique_ptr<ClusterWatch> watch_;
};

Exporter::Exporter(std::function<absl::StatusOr<ClustersToWatch>()> find, absl::Duration patience)
    : find_(std::move(find)), patience_(patience) {}

Exporter::~Exporter() = default;

void Exporter::Follow(const std::map<std::string, ClusterClientOptions>& running) {
  for (auto it = watched_.begin(); it != watched_.end();) {
    it = running.contains(it->first) ? std::next(it) : watched_.erase(it);
  }
  for (const auto& [key, options] : running) {
    if (watched_.contains(key)) continue;
    absl::StatusOr<std::unique_ptr<Watched>> watched = Watched::Start(options, &view_mu_, &told_);
    if (watched.ok()) {
      watched_.emplace(key, *std::move(watched));
    } else {
      MILLRACE_LOG(WARNING) << "a cluster cannot be watched: " << watched.status();
    }
  }
}

absl::StatusOr<std::string> Exporter::Scrape(const ClusterMetricsOptions& options) {
  MutexLock scrape(&scrape_mu_);
  MILLRACE_ASSIGN_OR_RETURN(const ClustersToWatch clusters, find_());
  Follow(clusters.running);
  const Deadline deadline(patience_);
  MutexLock lock(&view_mu_);
  std::vector<const ClusterView*> views;
  for (const auto& [key, watched] : watched_) {
    while (watched->view().seq() == 0 && !watched->over()) {
      if (told_.WaitWithTimeout(&view_mu_, deadline.Left())) break;
    }
    if (watched->view().seq() > 0) views.push_back(&watched->view());
  }
  return ClusterMetrics(views, clusters.ended, options);
}

absl::StatusOr<ClustersToWatch> ClustersOfThisUser() {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList list, ListClusterFiles());
  ClustersToWatch clusters;
  for (const ClusterFile& cluster : list.clusters) {
    clusters.running.emplace(cluster.cluster_id, ClusterClientOptionsFrom(cluster));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, ClustersDir());
  clusters.ended = ListEndedClusters(folder);
  return clusters;
}

absl::StatusOr<ClustersToWatch> ClustersOfThisProcess() {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList list, ListClusterFiles());
  ClustersToWatch clusters;
  for (const ClusterFile& cluster : list.clusters) {
    if (cluster.pid != ::getpid() || cluster.host != LocalHostname()) continue;
    clusters.running.emplace(cluster.cluster_id, ClusterClientOptionsFrom(cluster));
  }
  return clusters;
}

}  // namespace millrace::cli
