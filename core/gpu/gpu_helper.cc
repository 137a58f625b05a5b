#include "core/gpu/gpu_helper.h"

#include <unistd.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

absl::StatusOr<std::string> FindGpuHelper(const std::string& named, const std::string& agent) {
  std::vector<std::string> candidates;
  if (!named.empty()) {
    candidates.push_back(named);
  } else if (!agent.empty()) {
    const std::string folder = agent.substr(0, agent.rfind('/'));
    candidates.push_back(folder + "/millrace-gpu");
    candidates.push_back(agent + ".runfiles/millrace/core/gpu/millrace-gpu");
    // Bazel's output tree, from core/agent and from testing/NAME alike.
    candidates.push_back(folder + "/../gpu/millrace-gpu");
    candidates.push_back(folder + "/../../core/gpu/millrace-gpu");
  }
  for (const std::string& path : candidates) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat(
      "no millrace-gpu: looked at ", absl::StrJoin(candidates, ", "),
      named.empty() ? absl::StrCat("; put it beside millrace-agent or set ", kGpuHelperVariable)
                    : absl::StrCat(" (", kGpuHelperVariable, ")")));
}

}  // namespace millrace
