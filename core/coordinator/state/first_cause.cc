#include "core/coordinator/state/first_cause.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxNamed = 8;
constexpr size_t kMaxNamedBytes = 120;
// Where a wait goes on as long as others do not change: how often they are looked at.
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);

// `failure` is a better cause than `cause`, which is not published.
bool IsBetter(const NodeFailure& failure, const NodeFailure& cause) {
  if (cause.consequence) return !failure.consequence;
  return cause.unexplained && !failure.consequence && failure.first_sign < cause.first_sign;
}

}  // namespace

void FirstCause::Name(const NodeFailure& other) {
  if (cause_->others.size() >= kMaxNamed) return;
  cause_->others.push_back(absl::StrCat(
      other.role.ToString(), " ", Ellipsize(FirstLine(other.status.message()), kMaxNamedBytes)));
}

void FirstCause::Record(NodeFailure failure, absl::Duration now) {
  look_at_ = now;
  if (recorded_++ == 0) {
    recorded_at_ = now;
    cause_ = std::move(failure);
  } else if (!settled_ && IsBetter(failure, *cause_)) {
    // The failure that was taken for the cause until now is listed first among the others.
    const NodeFailure before = std::exchange(*cause_, std::move(failure));
    Name(before);
    for (const std::string& other : before.others) {
      if (cause_->others.size() < kMaxNamed) cause_->others.push_back(other);
    }
  } else {
    Name(failure);
  }
}

absl::Duration FirstCause::Wait() const {
  if (cause_->consequence) return waits_.echo;
  return cause_->unexplained ? waits_.unexplained : absl::ZeroDuration();
}

bool FirstCause::MayGiveWay(absl::Duration waited, const Others& others) const {
  if (cause_->consequence) return waited < waits_.echo || others.missing;
  if (!cause_->unexplained || !others.live) return false;
  if (waited < waits_.unexplained) return true;
  return others.signs && waited * others.processor_share < waits_.unexplained &&
         waited < waits_.echo;
}

bool FirstCause::Settle(absl::Duration now, const Others& others) {
  if (settled_ || !cause_.has_value()) return false;
  if (MayGiveWay(now - recorded_at_, others)) {
    look_at_ = now + kLookAgain;
    return false;
  }
  settled_ = true;
  return true;
}

absl::Duration FirstCause::NextDeadline() const {
  if (settled_ || !cause_.has_value()) return absl::InfiniteDuration();
  return std::max(recorded_at_ + Wait(), look_at_);
}

absl::Status FirstCause::status() const {
  return settled_ ? FailureStatus(*cause_, folded()) : absl::OkStatus();
}

}  // namespace millrace
