// File: dashboard/source/live_source.h
//
// A running cluster, watched over the network.
//
// Defines: LiveOptions, LiveOptionsFrom(), MakeLiveSource().
//
//   MILLRACE_ASSIGN_OR_RETURN(ClusterFile cluster, FindClusterFile(""));
//   MILLRACE_ASSIGN_OR_RETURN(auto source, MakeLiveSource(LiveOptionsFrom(cluster)));
//
// Threads: "client-watch" reads and splits updates, "dash-action" carries out an operator's
// requests (docs/threads.md). The window never waits for either; a window that does not poll fills
// the queue, and the reader then waits, which the coordinator does not mind.

#ifndef DASHBOARD_SOURCE_LIVE_SOURCE_H_
#define DASHBOARD_SOURCE_LIVE_SOURCE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/client/cluster_file.h"
#include "core/client/raw_cluster_client.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

struct LiveOptions {
  ClusterClientOptions client;
  std::string title;  // empty: the address
  absl::Duration interval = RawWatchOptions().interval;
  int log_lines = 200;  // of each node at first
  // Updates that wait for Poll(); the reader waits while there are more.
  size_t max_queued = 256;
  // Called from the reader's thread whenever something can be polled: wakes a sleeping window.
  // Null: nobody sleeps.
  std::function<void()> wake;
};

[[nodiscard]] LiveOptions LiveOptionsFrom(const ClusterFile& cluster);

// Does not wait for the cluster. Returns the errors of RawClusterClient::Connect().
[[nodiscard]] absl::StatusOr<std::unique_ptr<UpdateSource>> MakeLiveSource(LiveOptions options);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_LIVE_SOURCE_H_
