#include "dashboard/model/warnings.h"

#include <algorithm>

namespace millrace::dashboard {

void WarningBoard::Begin(absl::Time now) { now_ = now; }

void WarningBoard::Raise(absl::string_view id, Mood mood, absl::string_view text, const Jump& jump,
                         bool at_once) {
  auto found = conditions_.find(id);
  if (found == conditions_.end()) {
    found = conditions_.emplace(std::string(id), Condition()).first;
    found->second.warning.id = std::string(id);
    found->second.warning.since = now_;
  }
  Condition& condition = found->second;
  condition.warning.mood = mood;
  condition.warning.text = std::string(text);
  condition.warning.jump = jump;
  condition.last_raised = now_;
  if (at_once || now_ - condition.warning.since >= on_after_) condition.active = true;
}

void WarningBoard::End() {
  for (auto at = conditions_.begin(); at != conditions_.end();) {
    const Condition& condition = at->second;
    const absl::Duration quiet = now_ - condition.last_raised;
    // A warning that is not shown yet goes as soon as its condition does.
    const bool over = condition.active ? quiet >= off_after_ : quiet > absl::ZeroDuration();
    at = over ? conditions_.erase(at) : std::next(at);
  }
}

std::vector<const Warning*> WarningBoard::active() const {
  std::vector<const Warning*> active;
  for (const auto& [id, condition] : conditions_) {
    if (condition.active) active.push_back(&condition.warning);
  }
  std::stable_sort(active.begin(), active.end(), [](const Warning* a, const Warning* b) {
    return a->mood != b->mood ? a->mood > b->mood : a->since < b->since;
  });
  return active;
}

}  // namespace millrace::dashboard
