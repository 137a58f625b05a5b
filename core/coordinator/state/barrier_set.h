// File: core/coordinator/state/barrier_set.h
//
// Named barriers among the fed nodes. A pure state machine like KvStore: what ends comes back as
// values.
//
// Defines: BarrierSet.
//
//   BarrierSet barriers({{0, "chief:0"}, {1, "worker:0"}});
//   barriers.Arrive("epoch-1", 0, {.owner = 7, .request_id = 1}, absl::Minutes(1), now);
//   // The first waits; with the second, both waits end.
//   barriers.Arrive("epoch-1", 1, {.owner = 9, .request_id = 4}, absl::Minutes(1), now);

#ifndef CORE_COORDINATOR_STATE_BARRIER_SET_H_
#define CORE_COORDINATOR_STATE_BARRIER_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>  // for std::less
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

// Participants are the fed nodes, all of them, by executor id. A barrier exists while somebody
// waits at it; once passed, its name is free for the next time. Times are steady.
// Thread safety: not thread-safe.
class BarrierSet {
 public:
  static constexpr size_t kMaxNameBytes = 1024;
  static constexpr size_t kMaxBarriers = 4096;  // with somebody waiting

  struct Waiter {
    uint64_t owner = 0;
    uint64_t request_id = 0;
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };
  struct Completion {
    Waiter waiter;
    absl::Status status;
  };

  // `participants`: executor id to name ("worker:1").
  explicit BarrierSet(std::map<int, std::string> participants)
      : participants_(std::move(participants)) {}

  // The node arrives and waits at most `timeout`. Returns what ends by it: all waits with OK if the
  // node is the last; the node's own with INVALID_ARGUMENT (bad name), FAILED_PRECONDITION (it is
  // no participant), ABORTED (a participant has ended, named), RESOURCE_EXHAUSTED (too many
  // barriers) or DEADLINE_EXCEEDED (timeout of zero or less and not the last). Arriving again
  // replaces the node's earlier arrival, which gets no answer.
  std::vector<Completion> Arrive(absl::string_view name, int executor_id, Waiter waiter,
                                 absl::Duration timeout, absl::Duration now);

  // The node has ended: every wait, at every barrier where it has not arrived, ends with ABORTED.
  // So does every later arrival, until Returned(). `how`: "has failed".
  std::vector<Completion> Ended(int executor_id, absl::string_view how);

  // A new attempt of the node is there. Arrivals of the old one are forgotten.
  void Returned(int executor_id);

  // Forgets the arrivals of this owner, which is gone, without an answer: its place is empty again.
  void DropOwner(uint64_t owner);

  // Ends the waits whose time is over with DEADLINE_EXCEEDED, naming those that did not come. A
  // waiter whose time is over no longer counts as having come; the others go on waiting.
  std::vector<Completion> Expire(absl::Duration now);
  [[nodiscard]] absl::Duration NextDeadline() const;

  [[nodiscard]] size_t size() const { return barriers_.size(); }

 private:
  struct Arrival {
    Waiter waiter;
    absl::Duration deadline;
    absl::Duration timeout;
  };
  using Barrier = std::map<int, Arrival>;  // by executor id; never empty

  // "worker:1, worker:2 and 7 more".
  std::string Missing(const Barrier& barrier) const;

  const std::map<int, std::string> participants_;
  std::map<int, std::string> ended_;  // a subset of participants_, with how they ended
  // In the order of names, so that answers are in the same order in every run.
  std::map<std::string, Barrier, std::less<>> barriers_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_BARRIER_SET_H_
