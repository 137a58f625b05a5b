#include "core/coordinator/state/barrier_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxNamed = 10;

std::string Quoted(absl::string_view name) {
  return absl::StrCat("barrier '", EscapeControls(Ellipsize(name, 100)), "'");
}

}  // namespace

std::string BarrierSet::Missing(const Barrier& barrier) const {
  std::vector<std::string> names;
  size_t more = 0;
  for (const auto& [executor_id, name] : participants_) {
    if (barrier.contains(executor_id)) continue;
    if (names.size() < kMaxNamed) {
      names.push_back(name);
    } else {
      ++more;
    }
  }
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

std::vector<BarrierSet::Completion> BarrierSet::Arrive(absl::string_view name, int executor_id,
                                                       Waiter waiter, absl::Duration timeout,
                                                       absl::Duration now) {
  auto refuse = [&](absl::Status status) {
    return std::vector<Completion>{{waiter, std::move(status)}};
  };
  if (name.empty() || name.size() > kMaxNameBytes) {
    return refuse(absl::InvalidArgumentError(absl::StrCat(
        "a barrier's name of ", name.size(), " bytes: must have 1 to ", kMaxNameBytes)));
  }
  if (!participants_.contains(executor_id)) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat(Quoted(name), ": executor ", executor_id,
                     " takes no part; barriers are among chief or master and workers")));
  }
  if (!ended_.empty()) {
    const auto& [gone, how] = *ended_.begin();
    return refuse(absl::AbortedError(
        absl::StrCat(Quoted(name), ": ", participants_.find(gone)->second, " ", how)));
  }
  auto it = barriers_.find(name);
  if (it == barriers_.end()) {
    if (barriers_.size() >= kMaxBarriers) {
      return refuse(absl::ResourceExhaustedError(
          absl::StrCat(Quoted(name), ": ", kMaxBarriers, " barriers are being waited at")));
    }
    it = barriers_.try_emplace(std::string(name)).first;
  }
  Barrier& barrier = it->second;
  barrier.insert_or_assign(executor_id, Arrival{waiter, now + timeout, timeout});
  std::vector<Completion> completions;
  if (barrier.size() == participants_.size()) {
    for (const auto& [id, arrival] : barrier) {
      completions.push_back({arrival.waiter, absl::OkStatus()});
    }
    barriers_.erase(it);
  } else if (timeout <= absl::ZeroDuration()) {
    return Expire(now);
  }
  return completions;
}

std::vector<BarrierSet::Completion> BarrierSet::Ended(int executor_id, absl::string_view how) {
  std::vector<Completion> completions;
  auto who = participants_.find(executor_id);
  if (who == participants_.end()) return completions;
  ended_.insert_or_assign(executor_id, std::string(how));
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    for (const auto& [id, arrival] : it->second) {
      completions.push_back({arrival.waiter, absl::AbortedError(absl::StrCat(
                                                 Quoted(it->first), ": ", who->second, " ", how))});
    }
    barriers_.erase(it++);
  }
  return completions;
}

void BarrierSet::Returned(int executor_id) {
  ended_.erase(executor_id);
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    it->second.erase(executor_id);
    if (it->second.empty()) {
      barriers_.erase(it++);
    } else {
      ++it;
    }
  }
}

void BarrierSet::DropOwner(uint64_t owner) {
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    std::erase_if(it->second,
                  [owner](const auto& entry) { return entry.second.waiter.owner == owner; });
    if (it->second.empty()) {
      barriers_.erase(it++);
    } else {
      ++it;
    }
  }
}

std::vector<BarrierSet::Completion> BarrierSet::Expire(absl::Duration now) {
  std::vector<Completion> completions;
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    const std::string missing = Missing(it->second);  // before anybody is taken away
    for (auto arrival = it->second.begin(); arrival != it->second.end();) {
      if (arrival->second.deadline > now) {
        ++arrival;
        continue;
      }
      completions.push_back(
          {arrival->second.waiter,
           absl::DeadlineExceededError(absl::StrCat(
               Quoted(it->first), ": ", missing, " did not come within ",
               absl::FormatDuration(std::max(arrival->second.timeout, absl::ZeroDuration()))))});
      arrival = it->second.erase(arrival);
    }
    if (it->second.empty()) {
      barriers_.erase(it++);
    } else {
      ++it;
    }
  }
  return completions;
}

absl::Duration BarrierSet::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [name, barrier] : barriers_) {
    for (const auto& [id, arrival] : barrier) next = std::min(next, arrival.deadline);
  }
  return next;
}

}  // namespace millrace
