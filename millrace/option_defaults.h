// File: millrace/option_defaults.h
//
// What several structs of options have where a program does not say.
//
// Defines: kDefaultQueue, kDefaultFeedTimeout, kDefaultBatchBytes, kDefaultFeedBudgetBytes,
// kDefaultReservationTimeout, kDefaultWaitTimeout.

#ifndef MILLRACE_OPTION_DEFAULTS_H_
#define MILLRACE_OPTION_DEFAULTS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace millrace {

// The queue that is fed and read.
inline constexpr char kDefaultQueue[] = "input";
// The longest time without progress of a feed.
inline constexpr absl::Duration kDefaultFeedTimeout = absl::Seconds(600);
// Rows' bytes per batch.
inline constexpr int64_t kDefaultBatchBytes = int64_t{1} << 20;
// What one node may hold of the feed.
inline constexpr int64_t kDefaultFeedBudgetBytes = int64_t{256} << 20;
// How long all slots of a cluster may take to be registered.
inline constexpr absl::Duration kDefaultReservationTimeout = absl::Seconds(600);
// How long a resolver waits for members that are missing, where it is to wait.
inline constexpr absl::Duration kDefaultWaitTimeout = absl::Minutes(10);

}  // namespace millrace

#endif  // MILLRACE_OPTION_DEFAULTS_H_
