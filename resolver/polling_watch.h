// File: resolver/polling_watch.h
//
// The watch of a source that does not push: it is asked at intervals.
//
// Defines: AskForMembers, PollMembers().

#ifndef RESOLVER_POLLING_WATCH_H_
#define RESOLVER_POLLING_WATCH_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"

namespace millrace {

// Must end within a limit.
using AskForMembers = std::function<absl::StatusOr<ClusterSpec>()>;

// Calls `ask` every `options.poll_interval` in a thread "resolver-poll", from now until the watch
// is destroyed. Returns the errors of CheckWatch().
[[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> PollMembers(
    AskForMembers ask, MembershipCallback callback, const WatchOptions& options);

}  // namespace millrace

#endif  // RESOLVER_POLLING_WATCH_H_
