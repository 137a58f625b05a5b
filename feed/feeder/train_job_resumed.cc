// The part of TrainJob that goes on where a feeder before it left off.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "feed/feeder/train_job.h"
#include "millrace/status_macros.h"

namespace millrace {

void TrainJob::SkipKnown() {
  const TrainResume& known = options_.resume;
  if (known.begun.empty() && known.done.empty()) return;
  const int64_t partitions = source_->num_partitions();
  while (next_epoch_ < options_.num_epochs) {
    const int64_t next = next_epoch_ * partitions + next_partition_;
    if (known.begun.count(next) == 0 && known.done.count(next) == 0) return;
    if (++next_partition_ == partitions) {
      next_partition_ = 0;
      ++next_epoch_;
    }
  }
}

absl::StatusOr<std::optional<FeedTarget>> TrainJob::ResumedTarget(Work& work) {
  const BegunPartition begun = *std::exchange(work.begun, std::nullopt);
  work.refed_all = begun.refed_all;
  work.refed_from = begun.refed_from;
  work.refed_reason = "its node was gone with a driver";
  work.first_row = source_->deterministic() ? begun.first_row : 0;
  nodes_.AcquireAgain(begun.node);
  MILLRACE_ASSIGN_OR_RETURN(std::optional<FeedTarget> target, nodes_.AcquireClaimed(begun.node));
  if (target.has_value() && target->attempt == begun.node_attempt && source_->deterministic()) {
    work.resumed = true;
    return target;
  }
  if (!target.has_value()) {
    FeedAllAgain(work, work.first_row,
                 absl::StrCat(begun.node, " ended while there was no driver"));
    return nodes_.AcquireNext();
  }
  FeedAllAgain(work, 0,
               target->attempt == begun.node_attempt
                   ? "the driver before had begun to feed it, and its rows come in no fixed order"
                   : absl::StrCat(begun.node, " was restarted"));
  return target;
}

absl::Status TrainJob::TakeUp(Work& work) {
  MILLRACE_RETURN_IF_ERROR(work.session->WaitAccepted());
  const SessionState state = work.session->state();
  work.resumed = false;
  work.first_row = state.first_row;
  if (state.told) return absl::OkStatus();
  FeedAllAgain(work, work.first_row,
               absl::StrCat(work.session->target().node,
                            ", of an earlier version, does not say what it was given"));
  Report(PartitionProgress::State::kFeeding, work);
  return absl::OkStatus();
}

void TrainJob::FeedAllAgain(Work& work, int64_t row, absl::string_view reason) {
  MILLRACE_LOG(WARNING) << "partition " << work.partition << " (queue '" << options_.queue
                        << "'): all rows from row " << row << " on are fed again: " << reason;
  work.first_row = row;
  work.refed_from = work.refed_all == 0 ? row : std::min(row, work.refed_from);
  ++work.refed_all;
  work.refed_reason = std::string(reason);
}

}  // namespace millrace
