// What this agent has done, for a parent that keeps count.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/agent/agent.h"

namespace millrace {
namespace {

// The output of nodes may change its counts at any time; what else does is told at once.
constexpr absl::Duration kCountInterval = absl::Seconds(1);

}  // namespace

void Agent::KeepCount() {
  if (!params_.count_events) return;
  count_timer_ = loop_->After(kCountInterval, [this] {
    TellCounts();
    KeepCount();
  });
}

void Agent::TellCounts() {
  if (!params_.count_events || parent_.congested()) return;
  counts_.log_written_bytes = log_counts_->written_bytes;
  counts_.log_lost_bytes = log_counts_->lost_bytes;
  counts_.gpus.reset();
  if (gpus_ != nullptr) {
    if (const std::optional<GpuUse> use = gpus_->CountUse(); use.has_value()) {
      const auto own = static_cast<uint64_t>(gpus_->ids().size());
      const auto claimed = std::max(own, static_cast<uint64_t>(use->claimed));
      counts_.gpus =
          GpuCounts{.own = own, .others = claimed - own, .free = static_cast<uint64_t>(use->free)};
    }
  }
  if (counts_ == told_counts_) return;
  told_counts_ = counts_;
  parent_.Event("counts", AgentCountsJson(counts_));
}

void Agent::CountStart() {
  ++counts_.started;
  if (registered_->attempt() > 0) ++counts_.restarted;
  TellCounts();
}

void Agent::CountEnd(const ExitStatus& exit) {
  if (EndsAsAsked() || attempt_->restart_asked() || end_reason_.has_value()) {
    ++counts_.stopped;
  } else if (exit.kind == ExitStatus::Kind::kSignaled) {
    ++counts_.killed;
  } else {
    ++(exit.ok() ? counts_.finished : counts_.failed);
  }
  TellCounts();
}

}  // namespace millrace
