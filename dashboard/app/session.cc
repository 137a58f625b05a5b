#include "dashboard/app/session.h"

#include <utility>

#include "absl/time/clock.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kUpdatesAtOnce = 2;
// What came so long ago is a past that is caught up with.
constexpr absl::Duration kBacklog = absl::Seconds(2);

}  // namespace

Session::Session(std::unique_ptr<UpdateSource> source, std::unique_ptr<RecordingWriter> recording)
    : source_(std::move(source)), recording_(std::move(recording)) {}

Session::~Session() = default;

bool Session::Poll(absl::Time now, absl::Duration budget) {
  const absl::Time stop = absl::Now() + budget;
  bool any = false;
  behind_ = false;
  for (;;) {
    updates_.clear();
    source_->Poll(now, kUpdatesAtOnce, &updates_);
    for (const SourceUpdate& update : updates_) {
      if (recording_ != nullptr) {
        if (const absl::Status status = recording_->Add(update); !status.ok()) {
          recording_error_ = status;
          recording_.reset();
        }
      }
      model_.Apply(update);
      // A backlog lets time pass as it came, so that what is kept per second has no gap.
      if (update.restart || update.arrived >= advanced_ + absl::Milliseconds(500)) {
        model_.Advance(update.arrived);
        advanced_ = update.arrived;
      }
    }
    any = any || !updates_.empty();
    if (updates_.size() < kUpdatesAtOnce) break;
    if (absl::Now() >= stop) {
      behind_ = true;
      // Time goes on as far as it has been told.
      if (updates_.back().arrived < now - kBacklog) return true;
      break;
    }
  }
  advanced_ = source_->ModelTime(now);
  model_.Advance(advanced_);
  return any;
}

absl::Status Session::TakeRecordingError() {
  return std::exchange(recording_error_, absl::OkStatus());
}

bool Session::operator_allowed() const {
  OperatorActions* actions = source_->actions();
  return actions != nullptr && actions->allowed();
}

}  // namespace millrace::dashboard
