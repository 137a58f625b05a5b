#include "millrace/membership.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr absl::Duration kMinPollInterval = absl::Milliseconds(1);

}  // namespace

absl::Status CheckWatch(const MembershipCallback& callback, const WatchOptions& options) {
  if (callback == nullptr) {
    return absl::InvalidArgumentError("a watch needs a callback to call with the members");
  }
  if (options.poll_interval < kMinPollInterval) {
    return absl::InvalidArgumentError(
        absl::StrCat("poll_interval of a watch must be at least 1ms, found ",
                     absl::FormatDuration(options.poll_interval)));
  }
  return absl::OkStatus();
}

MembershipTracker::MembershipTracker(MembershipCallback callback)
    : callback_(std::move(callback)) {}

void MembershipTracker::Observe(const absl::StatusOr<ClusterSpec>& answer, absl::Time now) {
  if (answer.ok()) return ObservePartial(*answer, absl::OkStatus(), now);
  last_.diff = {};
  SetStatusAndTell(answer.status(), false);
}

void MembershipTracker::ObservePartial(const ClusterSpec& spec, const absl::Status& status,
                                       absl::Time confirmed) {
  const bool changed = last_.epoch == 0 || !(spec == last_.spec);
  last_.confirmed = confirmed;
  last_.diff = {};
  if (changed) {
    last_.diff = DiffClusterSpecs(last_.spec, spec);
    last_.spec = spec;
    ++last_.epoch;
  }
  SetStatusAndTell(status, changed);
}

void MembershipTracker::SetStatusAndTell(const absl::Status& status, bool changed) {
  const bool same =
      told_ && status.code() == last_.status.code() && status.message() == last_.status.message();
  last_.status = status;
  if (same && !changed) return;
  told_ = true;
  callback_(last_);
}

}  // namespace millrace
