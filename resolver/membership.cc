#include "resolver/membership.h"

#include <utility>

namespace millrace {

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
  const bool same = told_ && status.code() == last_.status.code() &&
                    status.message() == last_.status.message();
  last_.status = status;
  if (same && !changed) return;
  told_ = true;
  callback_(last_);
}

}  // namespace millrace
