// File: core/coordinator/state/first_cause.h
//
// Which of many failures is the cause. The first one is, unless it may be the echo of another
// node's that has not been noticed yet.
//
// Defines: FirstCause.
//
//   FirstCause causes({.echo = absl::Seconds(6), .unexplained = absl::Milliseconds(500)});
//   causes.Record(failure, clock->SteadyNow());
//   if (causes.Settle(clock->SteadyNow(), {.missing = table.AnyoneMissing(), ...})) {
//     Publish(*causes.cause());
//   }

#ifndef CORE_COORDINATOR_STATE_FIRST_CAUSE_H_
#define CORE_COORDINATOR_STATE_FIRST_CAUSE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "millrace/cluster_status.h"

namespace millrace {

// A program that returns UNAVAILABLE usually saw its peer die, and may say so before the peer's
// agent or the silence of its host does (NodeFailure::consequence). So such a failure waits for
// `Waits::echo`, and for as long as somebody is missing, whether a better cause comes. A program
// that says nothing (NodeFailure::unexplained) may have seen a peer's connections break that takes
// a moment longer to end: such a failure waits for `Waits::unexplained`, while others live, and the
// one whose first sign came first is the cause. Where the processors are busy such a moment takes
// longer, for one that has given a sign before and still runs: then the wait is over when a program
// could have run for so long, and after `Waits::echo` at the latest. Any other is the cause at
// once. A cause that was published never changes; the others are counted and named with it. Times
// are steady. Thread safety: not thread-safe.
class FirstCause {
 public:
  struct Waits {
    absl::Duration echo;
    absl::Duration unexplained;
  };
  struct Others {
    bool missing = false;  // an agent is out of reach and it is not decided yet whether it is lost
    bool live = false;     // some node has not ended
    bool signs = false;    // one of these gave its first sign before first_sign()
    // The part of the time in which a program that wants to run does.
    double processor_share = 1;
  };

  explicit FirstCause(const Waits& waits) : waits_(waits) {}

  void Record(NodeFailure failure, absl::Duration now);

  // Returns true once: when the cause is known.
  bool Settle(absl::Duration now, const Others& others);

  // When Settle() is worth a call; InfiniteDuration() if nothing waits.
  [[nodiscard]] absl::Duration NextDeadline() const;

  // What Others::signs is about: the first sign of the best cause so far.
  [[nodiscard]] absl::Duration first_sign() const {
    return cause_.has_value() ? cause_->first_sign : absl::InfiniteDuration();
  }

  // The published cause; nullptr before.
  [[nodiscard]] const NodeFailure* cause() const { return settled_ ? &*cause_ : nullptr; }
  // Failures besides the cause.
  [[nodiscard]] int folded() const { return cause_.has_value() ? recorded_ - 1 : 0; }
  // FailureStatus() of the cause; OK before.
  [[nodiscard]] absl::Status status() const;

 private:
  // How long the present cause may have to give way to another, at least where others live.
  [[nodiscard]] absl::Duration Wait() const;
  [[nodiscard]] bool MayGiveWay(absl::Duration waited, const Others& others) const;
  void Name(const NodeFailure& other);

  const Waits waits_;
  std::optional<NodeFailure> cause_;
  absl::Duration recorded_at_;                          // of the first failure
  absl::Duration look_at_ = -absl::InfiniteDuration();  // not before, beyond Wait()
  int recorded_ = 0;
  bool settled_ = false;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_FIRST_CAUSE_H_
