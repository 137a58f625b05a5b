#include "core/agent/node/node_environment.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Set by us for some nodes only: never taken over from the agent's own environment, where they
// would be those of another job.
constexpr const char* kOwnVariables[] = {"MILLRACE_CONTROL_FD",
                                         "MILLRACE_CONTEXT_FILE",
                                         "MILLRACE_CONTEXT",
                                         "TF_CONFIG",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",
                                         "NODE_RANK"};

struct Ranks {
  std::optional<int> rank;        // of this node, if it is fed
  std::optional<int> local_rank;  // among the fed nodes of its host
  int local_world_size = 0;       // those nodes
  int host_rank = 0;              // of its host, among those that have fed nodes
  std::string master;             // address of rank 0; empty if there is none
};

// Chief or master first, then workers, each by index; hosts by their first rank.
Ranks RanksOf(const ClusterSpec& spec, const std::string& job, int index,
              const std::string& own_address) {
  const std::string own_host = HostOf(own_address);
  Ranks ranks;
  int next_rank = 0;
  std::set<std::string> hosts;
  for (const char* fed_job : {"chief", "master", "worker"}) {
    const auto tasks = spec.TaskMapOf(fed_job);
    if (!tasks.ok()) continue;
    for (const auto& [task_index, address] : **tasks) {
      if (next_rank == 0) ranks.master = address;
      if (job == fed_job && index == task_index) {
        ranks.rank = next_rank;
        ranks.local_rank = ranks.local_world_size;
      }
      std::string host = HostOf(address);
      if (host == own_host) {
        if (ranks.local_world_size == 0) ranks.host_rank = static_cast<int>(hosts.size());
        ++ranks.local_world_size;
      }
      hosts.insert(std::move(host));
      ++next_rank;
    }
  }
  return ranks;
}

// The context without its secrets.
OrderedJson PublicContext(const NodeEnvironmentInputs& inputs, const Ranks& ranks) {
  const v1::Registered& registered = inputs.registered;
  const v1::NodeSpec& node = registered.node();
  OrderedJson context = {
      {"protocol", 1},
      {"cluster_id", registered.cluster_id()},
      {"executor_id", registered.executor_id()},
      {"job_name", registered.job_name()},
      {"task_index", registered.task_index()},
      {"attempt", registered.attempt()},
      {"epoch", inputs.epoch},
      {"cluster_spec", ClusterSpecToJson(inputs.cluster_spec)},
      {"num_workers", node.num_workers()},
      {"input_mode", node.input_mode() == v1::INPUT_MODE_FEED ? "FEED" : "DIRECT"},
      {"queues", std::vector<std::string>(node.queues().begin(), node.queues().end())},
      {"default_fs", node.default_fs()},
      {"working_dir", inputs.working_dir},
      {"log_dir", inputs.log_dir},
      {"gpus", inputs.gpus.value_or(std::vector<std::string>())},
      {"address", inputs.address},
      {"port", inputs.port},
      {"feed_budget_bytes", node.feed_budget_bytes()},
      {"feed_shared_memory", node.feed_shared_memory()},
  };
  if (!node.feed_port_range().empty()) context["feed_port_range"] = node.feed_port_range();
  if (inputs.port_fd.has_value()) context["port_fd"] = *inputs.port_fd;
  if (ranks.rank.has_value()) context["rank"] = *ranks.rank;
  if (ranks.local_rank.has_value()) context["local_rank"] = *ranks.local_rank;
  return context;
}

absl::Status CheckVariable(const std::string& name, const std::string& value) {
  if (name.empty() || absl::StrContains(name, "=") || name.find('\0') != std::string::npos ||
      value.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("the node's environment variable \"",
                                                   Ellipsize(EscapeControls(name), 100),
                                                   "\" cannot be set: a name must not be empty or "
                                                   "hold \"=\", and neither may hold a zero byte"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> UserVariables(
    const NodeEnvironmentInputs& inputs) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : inputs.inherited) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    if (!IsNodeVariable(name)) variables[name] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : inputs.registered.node().env()) {
    MILLRACE_RETURN_IF_ERROR(CheckVariable(name, value));
    variables[name] = value;
  }
  for (const auto& [name, value] : inputs.host_env) {
    MILLRACE_RETURN_IF_ERROR(CheckVariable(name, value));
    variables[name] = value;
  }
  return variables;
}

}  // namespace

bool IsNodeVariable(absl::string_view name) {
  return std::find(std::begin(kOwnVariables), std::end(kOwnVariables), name) !=
         std::end(kOwnVariables);
}

std::string HostOf(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() ? parsed->host : address;
}

absl::StatusOr<NodeEnvironment> MakeNodeEnvironment(const NodeEnvironmentInputs& inputs) {
  const v1::Registered& registered = inputs.registered;
  const Ranks ranks =
      RanksOf(inputs.cluster_spec, registered.job_name(), registered.task_index(), inputs.address);
  MILLRACE_ASSIGN_OR_RETURN(auto variables, UserVariables(inputs));
  NodeEnvironment made;

  OrderedJson context = PublicContext(inputs, ranks);
  const std::string inline_context = DumpJson(context);
  context["nonce"] = registered.nonce();
  context["tls"] = {{"ca", inputs.ca_pem},
                    {"certificate", registered.certificate_pem()},
                    {"key", inputs.key_pem}};
  made.context_json = DumpJson(context);

  MILLRACE_ASSIGN_OR_RETURN(
      const std::string tf_config,
      TfConfig(inputs.cluster_spec, registered.job_name(), registered.task_index()));
  const auto set_if_small = [&](const std::string& name, const std::string& value) {
    if (value.size() < kMaxInlineBytes) {
      variables[name] = value;
    } else {
      variables.erase(name);
      made.left_out.push_back(name);
    }
  };
  set_if_small("MILLRACE_CONTEXT", inline_context);
  set_if_small("TF_CONFIG", tf_config);
  variables["MILLRACE_CONTROL_FD"] = absl::StrCat(inputs.control_fd);
  variables["MILLRACE_CONTEXT_FILE"] = inputs.context_path;
  if (const auto master = ParseHostPort(ranks.master); master.ok()) {
    variables["MASTER_ADDR"] = master->host;
    variables["MASTER_PORT"] = absl::StrCat(master->port);
  }
  if (inputs.gpus.has_value()) {
    variables["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(*inputs.gpus, ",");
    // For programs that count devices: as nvidia-smi does.
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  }
  if (ranks.rank.has_value()) {
    variables["RANK"] = absl::StrCat(*ranks.rank);
    variables["WORLD_SIZE"] = absl::StrCat(registered.node().num_workers());
    variables["LOCAL_RANK"] = absl::StrCat(*ranks.local_rank);
    variables["LOCAL_WORLD_SIZE"] = absl::StrCat(ranks.local_world_size);
    // What torchrun calls the first, Lightning calls the second.
    variables["GROUP_RANK"] = absl::StrCat(ranks.host_rank);
    variables["NODE_RANK"] = absl::StrCat(ranks.host_rank);
  }
  for (const auto& [name, value] : variables) {
    made.variables.push_back(absl::StrCat(name, "=", value));
  }
  return made;
}

}  // namespace millrace
