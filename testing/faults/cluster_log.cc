#include "testing/faults/cluster_log.h"

#include "absl/strings/match.h"
#include "absl/time/clock.h"

namespace millrace::faults {

void ClusterLog::Listen(ClusterOptions* options) {
  options->observer.on_output = [this](const NodeOutput& output) {
    MutexLock lock(&mu_);
    for (const std::string& line : output.lines) lines_.emplace_back(output.node, line);
    changed_.SignalAll();
  };
  options->observer.on_slot = [this](const SlotStatus& slot) {
    MutexLock lock(&mu_);
    slots_.push_back(slot);
    changed_.SignalAll();
  };
}

bool ClusterLog::Find(absl::string_view node, absl::string_view prefix, std::string* line) const {
  for (const auto& [who, what] : lines_) {
    if ((!node.empty() && who != node) || !absl::StartsWith(what, prefix)) continue;
    *line = what;
    return true;
  }
  return false;
}

bool ClusterLog::WaitForLine(absl::string_view node, absl::string_view prefix,
                             absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::string line;
  MutexLock lock(&mu_);
  while (!Find(node, prefix, &line)) {
    if (changed_.WaitWithDeadline(&mu_, deadline)) return Find(node, prefix, &line);
  }
  return true;
}

std::string ClusterLog::Line(absl::string_view node, absl::string_view prefix) {
  if (!WaitForLine(node, prefix)) return "";
  std::string line;
  MutexLock lock(&mu_);
  Find(node, prefix, &line);
  return line;
}

bool ClusterLog::WaitForSlot(int executor_id, const std::function<bool(const SlotStatus&)>& is,
                             absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (true) {
    for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {
      if (slot->executor_id != executor_id) continue;
      if (is(*slot)) return true;
      break;
    }
    if (changed_.WaitWithDeadline(&mu_, deadline)) return false;
  }
}

}  // namespace millrace::faults
