// File: core/client/cluster_watch.h
//
// The watch behind ClusterClient::Watch(): one thread that reads, resumes and tells its state.
//
// Defines: StartClusterWatch().

#ifndef CORE_CLIENT_CLUSTER_WATCH_H_
#define CORE_CLIENT_CLUSTER_WATCH_H_

#include <memory>

#include "core/client/cluster_client.h"

namespace millrace {

// Both options are valid. Thread: "client-watch".
[[nodiscard]] std::unique_ptr<ClusterWatch> StartClusterWatch(const ClientOptions& client,
                                                              const ClusterWatchOptions& options,
                                                              WatchCallbacks callbacks);

}  // namespace millrace

#endif  // CORE_CLIENT_CLUSTER_WATCH_H_
