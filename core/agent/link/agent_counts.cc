#include "core/agent/link/agent_counts.h"

#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A place in the event, by which writer and reader go.
struct Field {
  const char* group;  // nullptr: the event itself
  const char* name;
  uint64_t AgentCounts::*count;
};

constexpr Field kFields[] = {
    {nullptr, "started", &AgentCounts::started},
    {nullptr, "restarted", &AgentCounts::restarted},
    {"ended", "finished", &AgentCounts::finished},
    {"ended", "failed", &AgentCounts::failed},
    {"ended", "killed", &AgentCounts::killed},
    {"ended", "stopped", &AgentCounts::stopped},
    {"ended", "unstarted", &AgentCounts::unstarted},
    {"log_bytes", "written", &AgentCounts::log_written_bytes},
    {"log_bytes", "lost", &AgentCounts::log_lost_bytes},
    {"lines", "relayed", &AgentCounts::relayed_lines},
    {"lines", "dropped", &AgentCounts::dropped_lines},
};

absl::StatusOr<uint64_t> Count(const Json& object, absl::string_view name,
                               absl::string_view where) {
  if (!object.contains(std::string(name))) return 0;
  MILLRACE_ASSIGN_OR_RETURN(
      const int64_t count,
      GetIntInRange(object, name, 0, std::numeric_limits<int64_t>::max(), where));
  return static_cast<uint64_t>(count);
}

}  // namespace

OrderedJson AgentCountsJson(const AgentCounts& counts) {
  OrderedJson members = OrderedJson::object();
  for (const Field& field : kFields) {
    OrderedJson& group = field.group == nullptr ? members : members[field.group];
    group[field.name] = counts.*field.count;
  }
  if (counts.gpus.has_value()) {
    members["gpus"] = {
        {"own", counts.gpus->own}, {"others", counts.gpus->others}, {"free", counts.gpus->free}};
  }
  return members;
}

absl::StatusOr<AgentCounts> ParseAgentCounts(const Json& event) {
  AgentCounts counts;
  for (const Field& field : kFields) {
    const Json* group = &event;
    if (field.group != nullptr) {
      if (!event.contains(field.group)) continue;
      MILLRACE_ASSIGN_OR_RETURN(group, GetObject(event, field.group, "counts"));
    }
    MILLRACE_ASSIGN_OR_RETURN(
        counts.*field.count,
        Count(*group, field.name, field.group == nullptr ? "counts" : field.group));
  }
  if (event.contains("gpus")) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* const gpus, GetObject(event, "gpus", "counts"));
    GpuCounts& found = counts.gpus.emplace();
    MILLRACE_ASSIGN_OR_RETURN(found.own, Count(*gpus, "own", "gpus"));
    MILLRACE_ASSIGN_OR_RETURN(found.others, Count(*gpus, "others", "gpus"));
    MILLRACE_ASSIGN_OR_RETURN(found.free, Count(*gpus, "free", "gpus"));
  }
  return counts;
}

}  // namespace millrace
