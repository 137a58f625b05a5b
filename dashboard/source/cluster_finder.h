// File: dashboard/source/cluster_finder.h
//
// Clusters of this user that begin on this host, by their cluster files.
//
// Defines: ClusterFinder.
//
//   ClusterFinder finder({.wake = [] { Window::Wake(); }});
//   for (ClusterFile& cluster : finder.TakeNew()) Show(cluster);       // at each frame
//
// It looks on a thread, since a home folder may be far away. Those that ran when it began to look
// are not new, except the newest if `with_newest` is set.

#ifndef DASHBOARD_SOURCE_CLUSTER_FINDER_H_
#define DASHBOARD_SOURCE_CLUSTER_FINDER_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/client/cluster_file.h"

namespace millrace::dashboard {

struct ClusterFinderOptions {
  absl::Duration every = absl::Seconds(1);
  bool with_newest = true;
  // Called from the finder's thread when TakeNew() or problem() would give something else.
  // Null: nobody sleeps.
  std::function<void()> wake;
};

// Thread safety: thread-safe. Threads: "dash-finder" (docs/threads.md). Blocking: the destructor
// waits for a look that is under way.
class ClusterFinder {
 public:
  explicit ClusterFinder(ClusterFinderOptions options);
  ~ClusterFinder();
  ClusterFinder(const ClusterFinder&) = delete;
  ClusterFinder& operator=(const ClusterFinder&) = delete;

  // Clusters that have begun since the last call, oldest first.
  [[nodiscard]] std::vector<ClusterFile> TakeNew();
  // Why the last look may have missed some: the folder's or a file's error, as ListClusterFiles().
  [[nodiscard]] absl::Status problem() const;

 private:
  void Run();
  // Returns whether there is something to tell.
  bool Look(bool first);

  const ClusterFinderOptions options_;
  std::set<std::string> seen_;  // the thread's: ids with when they began
  mutable Mutex mu_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<ClusterFile> found_ ABSL_GUARDED_BY(mu_);
  absl::Status problem_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_CLUSTER_FINDER_H_
