// File: core/coordinator/first_cause.h
//
// Which of many failures is the cause. The first one is, unless it looks like the echo of another
// node's death that has not been noticed yet.
//
// Defines: FirstCause.
//
//   FirstCause causes(/*settle=*/absl::Seconds(6));
//   causes.Record(failure, clock->SteadyNow());
//   if (causes.Settle(clock->SteadyNow(), table.AnyoneMissing())) Publish(*causes.cause());

#ifndef CORE_COORDINATOR_FIRST_CAUSE_H_
#define CORE_COORDINATOR_FIRST_CAUSE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/coordinator/cluster_status.h"

namespace millrace {

// A program that returns UNAVAILABLE usually saw its peer die, and may say so before the peer's
// agent or the silence of its host does (NodeFailure::consequence). So such a failure waits for
// `settle`, and for as long as somebody is missing, whether a better cause comes; any other is the
// cause at once. A cause that was published never changes; later failures are counted.
// Times are steady. Thread safety: not thread-safe.
class FirstCause {
 public:
  explicit FirstCause(absl::Duration settle) : settle_(settle) {}

  void Record(NodeFailure failure, absl::Duration now);

  // Returns true once: when the cause is known. `anyone_missing`: an agent is out of reach and it
  // is not decided yet whether it is lost.
  bool Settle(absl::Duration now, bool anyone_missing);

  // When Settle() is worth a call; InfiniteDuration() if nothing waits.
  [[nodiscard]] absl::Duration NextDeadline() const;

  // The published cause; nullptr before.
  [[nodiscard]] const NodeFailure* cause() const { return settled_ ? &*cause_ : nullptr; }
  // Failures besides the cause.
  [[nodiscard]] int folded() const { return cause_.has_value() ? recorded_ - 1 : 0; }
  // FailureStatus() of the cause; OK before.
  [[nodiscard]] absl::Status status() const;

 private:
  const absl::Duration settle_;
  std::optional<NodeFailure> cause_;
  absl::Duration recorded_at_;  // of the first failure
  int recorded_ = 0;
  bool settled_ = false;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_FIRST_CAUSE_H_
