#include "core/coordinator/first_cause.h"

#include <utility>

namespace millrace {

void FirstCause::Record(NodeFailure failure, absl::Duration now) {
  if (recorded_++ == 0) recorded_at_ = now;
  const bool better = !cause_.has_value() ||
                      (!settled_ && cause_->consequence && !failure.consequence);
  if (better) cause_ = std::move(failure);
}

bool FirstCause::Settle(absl::Duration now, bool anyone_missing) {
  if (settled_ || !cause_.has_value()) return false;
  if (cause_->consequence && (now - recorded_at_ < settle_ || anyone_missing)) return false;
  settled_ = true;
  return true;
}

absl::Duration FirstCause::NextDeadline() const {
  if (settled_ || !cause_.has_value()) return absl::InfiniteDuration();
  return cause_->consequence ? recorded_at_ + settle_ : recorded_at_;
}

absl::Status FirstCause::status() const {
  return settled_ ? FailureStatus(*cause_, folded()) : absl::OkStatus();
}

}  // namespace millrace
