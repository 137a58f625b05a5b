#include "dashboard/source/cluster_finder.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"

namespace millrace::dashboard {

ClusterFinder::ClusterFinder(ClusterFinderOptions options)
    : options_(std::move(options)), thread_("dash-finder", [this] { Run(); }) {}

ClusterFinder::~ClusterFinder() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    stop_.Signal();
  }
  thread_.Join();
}

std::vector<ClusterFile> ClusterFinder::TakeNew() {
  MutexLock lock(&mu_);
  return std::exchange(found_, {});
}

absl::Status ClusterFinder::problem() const {
  MutexLock lock(&mu_);
  return problem_;
}

bool ClusterFinder::Look(bool first) {
  absl::StatusOr<ClusterFileList> list = ListClusterFiles();
  absl::Status problem = list.status();
  std::vector<ClusterFile> found;
  if (list.ok()) {
    if (!list->problems.empty()) problem = list->problems.front();
    for (size_t i = list->clusters.size(); i-- > 0;) {  // they come newest first
      ClusterFile& cluster = list->clusters[i];
      std::string key = absl::StrCat(cluster.cluster_id, " ", absl::ToUnixNanos(cluster.started));
      const bool wanted = !first || (options_.with_newest && i == 0);
      if (seen_.insert(std::move(key)).second && wanted) found.push_back(std::move(cluster));
    }
  }
  MutexLock lock(&mu_);
  const bool news = !found.empty() || problem != problem_;
  for (ClusterFile& cluster : found) found_.push_back(std::move(cluster));
  problem_ = std::move(problem);
  return news;
}

void ClusterFinder::Run() {
  for (bool first = true;; first = false) {
    if (Look(first) && options_.wake != nullptr) options_.wake();
    const Deadline until(options_.every);
    MutexLock lock(&mu_);
    while (!stopping_ && !until.Passed()) stop_.WaitWithTimeout(&mu_, until.Left());
    if (stopping_) return;
  }
}

}  // namespace millrace::dashboard
