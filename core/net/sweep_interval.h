// File: core/net/sweep_interval.h
//
// How often ConnectionAcceptor looks whether a connection's time is over.
//
// Defines: SweepInterval().

#ifndef CORE_NET_SWEEP_INTERVAL_H_
#define CORE_NET_SWEEP_INTERVAL_H_

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"

namespace millrace {

// A look asks the kernel about each connection in its handshake: ten times a second, but of many
// no more than 2,000 questions a second. Once a second at least, which is a fifth of the shortest
// limit.
[[nodiscard]] inline absl::Duration SweepInterval(size_t handshakes) {
  constexpr size_t kQuestionsPerSecond = 2'000;
  return std::clamp(absl::Seconds(1) * handshakes / kQuestionsPerSecond, absl::Milliseconds(100),
                    absl::Seconds(1));
}

}  // namespace millrace

#endif  // CORE_NET_SWEEP_INTERVAL_H_
