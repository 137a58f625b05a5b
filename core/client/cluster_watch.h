// File: core/client/cluster_watch.h
//
// The watch behind RawClusterClient::Watch(): one thread that reads, resumes and tells its state.
//
// Defines: StartClusterWatch().

#ifndef CORE_CLIENT_CLUSTER_WATCH_H_
#define CORE_CLIENT_CLUSTER_WATCH_H_

#include <memory>

#include "core/client/raw_cluster_client.h"

namespace millrace {

// Both options are valid. Thread: "client-watch".
[[nodiscard]] std::unique_ptr<ClusterWatch> StartClusterWatch(const ClusterClientOptions& client,
                                                              const RawWatchOptions& options,
                                                              RawWatchCallbacks callbacks);

}  // namespace millrace

#endif  // CORE_CLIENT_CLUSTER_WATCH_H_
