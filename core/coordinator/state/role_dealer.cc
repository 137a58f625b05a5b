#include "core/coordinator/state/role_dealer.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr int kMaxExecutors = 1 << 17;

}  // namespace

bool IsFedRole(absl::string_view job_name) {
  return job_name == "worker" || job_name == "chief" || job_name == "master";
}

absl::StatusOr<std::vector<NodeRole>> DealRoles(const RoleOptions& options) {
  if (options.num_executors < 1 || options.num_executors > kMaxExecutors) {
    return absl::InvalidArgumentError(absl::StrCat("num_executors is ", options.num_executors,
                                                   ": it must be in 1..", kMaxExecutors));
  }
  if (options.num_ps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_ps is ", options.num_ps, ": it must not be negative"));
  }
  if (!options.master_node.empty() && options.master_node != "chief" &&
      options.master_node != "master") {
    return absl::InvalidArgumentError(absl::StrCat("master_node is \"", options.master_node,
                                                   "\": must be \"chief\", \"master\" or empty"));
  }
  // 64 bits: num_ps may be near the largest int.
  const int64_t others = int64_t{options.num_ps} + (options.eval_node ? 1 : 0);
  if (others >= options.num_executors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_executors is ", options.num_executors, ", of which num_ps takes ", options.num_ps,
        options.eval_node ? " and eval_node 1" : "",
        ": none is left for a chief, master or worker; raise num_executors to at least ",
        others + 1));
  }

  std::vector<NodeRole> roles;
  roles.reserve(options.num_executors);
  for (int i = 0; i < options.num_ps; ++i) roles.push_back({"ps", i});
  if (!options.master_node.empty()) roles.push_back({options.master_node, 0});
  if (options.eval_node) roles.push_back({"evaluator", 0});
  for (int i = 0; static_cast<int>(roles.size()) < options.num_executors; ++i) {
    roles.push_back({"worker", i});
  }
  return roles;
}

}  // namespace millrace
