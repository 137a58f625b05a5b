#include "core/balance/step_grants.h"

#include <algorithm>
#include <limits>

namespace millrace {

StepGrants::StepGrants(const std::vector<int>& ranks, int64_t batch_rows, AtEnd at_end,
                       uint64_t generation)
    : batch_rows_(batch_rows),
      at_end_(at_end),
      first_generation_(generation),
      generation_(generation) {
  for (const int rank : ranks) ranks_[rank];
}

void StepGrants::Tell(int rank, const RankRows& rows) {
  if (rows.generation != generation_) return;
  Rank& told = ranks_.at(rank);
  told.rows = rows.rows;
  told.dropped = rows.dropped;
  told.repeated = rows.repeated;
  told.can_repeat = rows.can_repeat;
  told.exact = told.question != 0 && rows.answer == told.question;
  Update();
}

void StepGrants::SetFed(int rank, bool fed) {
  Rank& asked = ranks_.at(rank);
  if (fed == (asked.question != 0)) return;
  asked.question = fed ? ++questions_ : 0;
  asked.exact = false;
}

void StepGrants::End(int rank) {
  Rank& gone = ranks_.at(rank);
  const bool had_rows = gone.rows > 0 || gone.dropped > 0 || gone.repeated > 0 || gone.can_repeat;
  gone = {.untold = gone.untold || had_rows || last_};
  ++generation_;
  for (auto& [id, each] : ranks_) {
    each.rows = 0;
    each.exact = false;
  }
  without_rows_.clear();
  steps_ = 0;
  last_ = left_;
}

void StepGrants::Leave(int /*rank*/) {
  left_ = true;
  last_ = true;
}

void StepGrants::Update() {
  if (last_) return;
  if (at_end_ == AtEnd::kDrop) {
    UpdateDrop();
  } else {
    UpdatePad();
  }
}

void StepGrants::UpdateDrop() {
  int64_t all = std::numeric_limits<int64_t>::max();
  int64_t most = all;  // that there can be
  for (const auto& [id, rank] : ranks_) {
    const int64_t steps = rank.rows / batch_rows_;
    all = std::min(all, steps);
    if (rank.exact) most = std::min(most, steps);
  }
  steps_ = std::max(steps_, all);
  last_ = steps_ >= most;
}

void StepGrants::UpdatePad() {
  int64_t all = std::numeric_limits<int64_t>::max();  // full batches of each rank that may get more
  int64_t most = 0;                                   // batches of the others
  bool open = false;
  bool any_rows = false;
  without_rows_.clear();
  for (const auto& [id, rank] : ranks_) {
    any_rows = any_rows || rank.rows > 0;
    if (!rank.exact) {
      open = true;
      all = std::min(all, rank.rows / batch_rows_);
      continue;
    }
    most = std::max(most, (rank.rows + batch_rows_ - 1) / batch_rows_);
    if (!rank.can_repeat) without_rows_.push_back(id);
  }
  if (!any_rows) without_rows_.clear();
  if (!without_rows_.empty()) {
    if (generation_ == first_generation_) return;
    // What it could repeat has died with its process.
    without_rows_.clear();
    last_ = true;
    return;
  }
  steps_ = std::max(steps_, open ? all : most);
  last_ = !open;
}

bool StepGrants::settled() const {
  return last_ && std::all_of(ranks_.begin(), ranks_.end(),
                              [](const auto& item) { return item.second.exact; });
}

int64_t StepGrants::dropped(int rank) const {
  const Rank& of = ranks_.at(rank);
  if (!last_ || !of.exact) return of.dropped;
  return of.dropped + std::max<int64_t>(0, of.rows - steps_ * batch_rows_);
}

int64_t StepGrants::repeated(int rank) const {
  const Rank& of = ranks_.at(rank);
  if (!last_ || !of.exact) return of.repeated;
  const int64_t now = at_end_ == AtEnd::kPad ? steps_ * batch_rows_ - of.rows : 0;
  return of.repeated + std::max<int64_t>(0, now);
}

bool StepGrants::complete(int rank) const {
  const Rank& of = ranks_.at(rank);
  return last_ && of.exact && !of.untold;
}

}  // namespace millrace
