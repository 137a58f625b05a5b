#include "dashboard/source/follower.h"

#include <cstddef>

#include "core/base/deadline.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kUpdatesAtOnce = 2;
// What came so long ago is a past that is caught up with.
constexpr absl::Duration kBacklog = absl::Seconds(2);

}  // namespace

bool Follower::Poll(absl::Time now, absl::Duration budget) {
  const Deadline stop(budget);
  bool any = false;
  behind_ = false;
  for (;;) {
    updates_.clear();
    source_->Poll(now, kUpdatesAtOnce, &updates_);
    for (const SourceUpdate& update : updates_) {
      if (seen_ != nullptr) seen_(update);
      model_->Apply(update);
      // A backlog lets time pass as it came, so that what is kept per second has no gap; not within
      // a transaction, of which a model makes no totals.
      if (update.restart) advanced_ = absl::InfinitePast();
      if (!update.more && update.arrived >= advanced_ + absl::Milliseconds(500)) {
        model_->Advance(update.arrived);
        advanced_ = update.arrived;
      }
    }
    any = any || !updates_.empty();
    if (updates_.size() < kUpdatesAtOnce) break;
    if (stop.Passed()) {
      behind_ = true;
      // Time goes on as far as it has been told.
      if (updates_.back().arrived < now - kBacklog) return true;
      break;
    }
  }
  advanced_ = source_->ModelTime(now);
  model_->Advance(advanced_);
  return any;
}

}  // namespace millrace::dashboard
