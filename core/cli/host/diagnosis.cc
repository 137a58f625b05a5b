#include "core/cli/host/diagnosis.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/cli/output/duration_text.h"
#include "millrace/option_defaults.h"

namespace millrace::cli {
namespace {

using Level = Finding::Level;

// For agents' files, nodes' contexts and sockets, and what is left of their output if there is no
// --log-dir.
constexpr uint64_t kFolderBytes = uint64_t{64} << 20;
// Programs of several nodes share processors well up to here.
constexpr int kNodesPerProcessor = 8;

Finding CheckMachineLimits(const MachineFacts& facts, int num_nodes) {
  const absl::Status status = CheckLimits(facts.limits, num_nodes);
  if (!status.ok()) {
    // It ends with what to do.
    return {Level::kProblem, "", "limits", FirstLine(status.message()), ""};
  }
  return {Level::kOk, "", "limits",
          absl::StrCat("descriptors, processes, file sizes and loopback suffice for ",
                       num_nodes == 0 ? "a driver" : NodesText(num_nodes)),
          ""};
}

Finding CheckProcessors(const MachineFacts& facts, int num_nodes) {
  const bool limited = facts.processor_quota > 0 && facts.processor_quota < facts.processors;
  const double processors = limited ? facts.processor_quota : facts.processors;
  const std::string text =
      absl::StrFormat("%g%s", processors, limited ? " (the quota of a control group)" : "");
  if (num_nodes > processors * kNodesPerProcessor) {
    return {Level::kWarning, "", "processors", absl::StrCat(text, " for ", NodesText(num_nodes)),
            "heartbeats may come late: run fewer nodes here, or give them more processors"};
  }
  return {Level::kOk, "", "processors", text, ""};
}

Finding CheckMemory(const MachineFacts& facts, int num_nodes) {
  if (facts.memory_bytes == MachineFacts::kUnknown) {
    return {Level::kOk, "", "memory", "the system does not say how much is left", ""};
  }
  const std::string text = absl::StrCat(
      BytesText(facts.memory_bytes), " left",
      facts.memory_group.empty() ? "" : absl::StrCat(" in the control group ", facts.memory_group));
  const auto budget = static_cast<uint64_t>(kDefaultFeedBudgetBytes);
  const uint64_t most = budget * static_cast<uint64_t>(std::max(num_nodes, 1));
  if (facts.memory_bytes < most) {
    return {Level::kWarning, "", "memory", text,
            absl::StrCat("a feed may hold ", BytesText(budget),
                         " for each node, besides what programs need: a smaller "
                         "FeedOptions::budget_bytes, fewer nodes, or more memory")};
  }
  return {Level::kOk, "", "memory", text, ""};
}

Finding CheckSharedMemory(const MachineFacts& facts) {
  if (facts.shared_memory) return {Level::kOk, "", "shared memory", "memfd_create works", ""};
  return {Level::kWarning, "", "shared memory", "memfd_create is refused",
          "feeds here go over sockets, at half the speed: allow it in the seccomp profile"};
}

Finding CheckFolder(const MachineFacts& facts) {
  if (!facts.folder_status.ok()) {
    return {Level::kProblem, "", "temporary files",
            absl::StrCat("no file can be made: ", facts.folder_status.message()),
            "set TMPDIR to a folder on a disk with room that this user may write to"};
  }
  const std::string free = facts.folder_bytes == MachineFacts::kUnknown
                               ? ""
                               : absl::StrCat(", ", BytesText(facts.folder_bytes), " free");
  const std::string text = absl::StrCat(facts.folder, free);
  if (facts.folder_bytes < kFolderBytes) {
    return {Level::kWarning, "", "temporary files", text,
            "files of nodes and the output of programs go there: make room, or set TMPDIR"};
  }
  return {Level::kOk, "", "temporary files", text, ""};
}

Finding CheckClusters(const MachineFacts& facts) {
  if (facts.clusters.ok()) return {Level::kOk, "", "cluster files", *facts.clusters, ""};
  return {Level::kWarning, "", "cluster files",
          absl::StrCat("none can be written: ", facts.clusters.status().message()),
          "clusters run, but millrace status and the dashboard do not find them: set HOME, or "
          "MILLRACE_CLUSTERS_DIR to a folder of this user's own"};
}

Finding CheckClock(const MachineFacts& facts) {
  if (facts.clock_synchronized) return {Level::kOk, "", "clock", "synchronized", ""};
  return {Level::kWarning, "", "clock", "the kernel does not know that it is synchronized",
          "hosts whose clocks differ by a day refuse each other, and times in logs do not match: "
          "run chrony or ntpd"};
}

Finding CheckAgent(const MachineFacts& facts, int num_nodes) {
  if (!facts.agent.ok()) {
    return {num_nodes == 0 ? Level::kWarning : Level::kProblem, "", "millrace-agent",
            std::string(facts.agent.status().message()),
            "nodes on this machine need it: install it beside millrace"};
  }
  if (*facts.agent != kMillraceVersion) {
    return {Level::kWarning, "", "millrace-agent",
            absl::StrCat("it is version ", *facts.agent, ", and this is ", kMillraceVersion),
            "install both from one release"};
  }
  return {Level::kOk, "", "millrace-agent", absl::StrCat("version ", *facts.agent), ""};
}

// A machine without GPUs is in order; one whose driver hangs is not.
Finding CheckGpus(const MachineFacts& facts) {
  if (facts.gpus.ok()) return {Level::kOk, "", "GPUs", *facts.gpus, ""};
  const std::string why(facts.gpus.status().message());
  if (absl::IsNotFound(facts.gpus.status())) {
    return {Level::kOk, "", "GPUs", absl::StrCat("none: ", why), ""};
  }
  return {Level::kProblem, "", "GPUs", why,
          "nvidia-smi -q says more; dmesg names the fault (Xid); a reset or a restart may help"};
}

}  // namespace

absl::string_view LevelName(Finding::Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "?";
}

std::vector<Finding> DiagnoseMachine(const MachineFacts& facts, int num_nodes) {
  return {CheckMachineLimits(facts, num_nodes),
          CheckProcessors(facts, num_nodes),
          CheckMemory(facts, num_nodes),
          CheckSharedMemory(facts),
          CheckFolder(facts),
          CheckClusters(facts),
          CheckClock(facts),
          CheckAgent(facts, num_nodes),
          CheckGpus(facts)};
}

}  // namespace millrace::cli
