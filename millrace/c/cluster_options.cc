#include "millrace/c/cluster_options.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/adopting_launcher.h"
#include "millrace/c/c_support.h"
#include "millrace/c/cluster.h"
#include "millrace/cluster_options.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"
#include "millrace/exit_status.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/resolver.h"
#include "millrace/restart_policy.h"
#include "millrace/sidecar.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using VariableMap = std::map<std::string, std::string>;

absl::Status NullOption(absl::string_view option) {
  return NullArgument("millrace_cluster_run", option);
}

absl::StatusOr<std::vector<std::string>> TextsOf(absl::string_view option, const char* const* texts,
                                                 size_t num_texts) {
  std::vector<std::string> made;
  for (size_t i = 0; i < num_texts; ++i) {
    if (texts == nullptr || texts[i] == nullptr) {
      return NullOption(absl::StrCat(option, "[", i, "]"));
    }
    made.emplace_back(texts[i]);
  }
  return made;
}

absl::StatusOr<VariableMap> VariablesOf(absl::string_view option, const char* const* env,
                                        size_t num_env) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(option, env, num_env));
  VariableMap made;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("millrace_cluster_run: ", option, ": '", text,
                                                     "' is no variable; write NAME=value"));
    }
    made[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return made;
}

// Of a list of structs that can grow.
template <typename T>
absl::StatusOr<std::vector<T>> StructsOf(absl::string_view option, const T* const* structs,
                                         size_t num_structs) {
  std::vector<T> made;
  for (size_t i = 0; i < num_structs; ++i) {
    if (structs == nullptr || structs[i] == nullptr) {
      return NullOption(absl::StrCat(option, "[", i, "]"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const T known, ReadStruct(structs[i]));
    made.push_back(known);
  }
  return made;
}

// Of a group: what this library has no member for, the caller must not set.
template <size_t kSize>
absl::Status CheckReserved(absl::string_view option, const int64_t (&reserved)[kSize]) {
  for (const int64_t member : reserved) {
    if (member == 0) continue;
    return absl::UnimplementedError(
        absl::StrCat("millrace_cluster_run: ", option,
                     ": reserved is not zero; it has an option that needs a newer libmillrace"));
  }
  return absl::OkStatus();
}

absl::Status TakeSidecars(const millrace_cluster_node_options& given, NodeOptions* node) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<millrace_sidecar> sidecars,
      StructsOf("options->node.sidecars", given.sidecars, given.num_sidecars));
  for (const millrace_sidecar& each : sidecars) {
    if (each.name == nullptr) return NullOption("options->node.sidecars: name");
    if (each.program == nullptr) return NullOption("options->node.sidecars: program");
    Sidecar& made = node->sidecars.emplace_back();
    made.name = each.name;
    made.program = each.program;
    TakeOption(each.node, &made.node);
    MILLRACE_ASSIGN_OR_RETURN(made.args,
                              TextsOf("options->node.sidecars: args", each.args, each.num_args));
    MILLRACE_ASSIGN_OR_RETURN(made.env,
                              VariablesOf("options->node.sidecars: env", each.env, each.num_env));
  }
  return absl::OkStatus();
}

absl::Status TakeNode(const millrace_cluster_node_options& given, NodeOptions* node) {
  MILLRACE_RETURN_IF_ERROR(CheckReserved("options->node", given.reserved));
  TakeOption(given.working_dir, &node->working_dir);
  TakeOption(given.default_fs, &node->default_fs);
  node->release_port = given.keep_port == 0;
  node->gpus_per_node = given.gpus_per_node;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::vector<millrace_job_gpus> jobs,
      StructsOf("options->node.gpus_by_job", given.gpus_by_job, given.num_gpus_by_job));
  for (const millrace_job_gpus& each : jobs) {
    if (each.job == nullptr) return NullOption("options->node.gpus_by_job: job");
    node->gpus_by_job[each.job] = each.gpus;
  }
  if (given.log_bytes_per_second != 0) node->log_bytes_per_second = given.log_bytes_per_second;
  return TakeSidecars(given, node);
}

absl::Status TakeFeed(const millrace_cluster_feed_options& given, FeedOptions* feed) {
  MILLRACE_RETURN_IF_ERROR(CheckReserved("options->feed", given.reserved));
  if (given.num_queues > 0) {
    MILLRACE_ASSIGN_OR_RETURN(feed->queues,
                              TextsOf("options->feed.queues", given.queues, given.num_queues));
  }
  TakeOption(given.port_range, &feed->port_range);
  if (given.budget_bytes != 0) feed->budget_bytes = given.budget_bytes;
  feed->curve_only = given.curve_only != 0;
  if (given.shared_memory != 0) feed->shared_memory = given.shared_memory > 0;
  return absl::OkStatus();
}

absl::Status TakeRestart(absl::string_view option, const millrace_restart_policy& given,
                         RestartPolicy* policy) {
  MILLRACE_RETURN_IF_ERROR(CheckReserved(option, given.reserved));
  policy->max_restarts = given.max_restarts;
  TakeOption(given.window_ms, &policy->window);
  TakeOption(given.initial_backoff_ms, &policy->initial_backoff);
  TakeOption(given.max_backoff_ms, &policy->max_backoff);
  return absl::OkStatus();
}

absl::Status TakeFailure(const millrace_cluster_failure_options& given, FailureOptions* failure) {
  MILLRACE_RETURN_IF_ERROR(CheckReserved("options->failure", given.reserved));
  MILLRACE_RETURN_IF_ERROR(
      TakeRestart("options->failure.restart", given.restart, &failure->restart));
  constexpr absl::string_view kByJob = "options->failure.restart_by_job";
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<millrace_job_restart> jobs,
                            StructsOf(kByJob, given.restart_by_job, given.num_restart_by_job));
  for (const millrace_job_restart& each : jobs) {
    if (each.job == nullptr) return NullOption(absl::StrCat(kByJob, ": job"));
    MILLRACE_RETURN_IF_ERROR(TakeRestart(kByJob, each.policy, &failure->restart_by_job[each.job]));
  }
  const millrace_quarantine_policy& quarantine = given.quarantine;
  MILLRACE_RETURN_IF_ERROR(CheckReserved("options->failure.quarantine", quarantine.reserved));
  if (quarantine.failures != 0) failure->quarantine.failures = quarantine.failures;
  TakeOption(quarantine.window_ms, &failure->quarantine.window);
  TakeOption(quarantine.duration_ms, &failure->quarantine.duration);
  TakeOption(given.stop_grace_ms, &failure->stop_grace);
  TakeOption(given.stop_timeout_ms, &failure->stop_timeout);
  return absl::OkStatus();
}

absl::Status TakeObserver(const millrace_cluster_observer& given, ClusterObserver* observer) {
  MILLRACE_RETURN_IF_ERROR(CheckReserved("options->observer", given.reserved));
  void* const user_data = given.user_data;
  if (given.on_output != nullptr) {
    observer->on_output = [on_output = given.on_output, user_data](const NodeOutput& output) {
      const std::string node(output.node);
      if (output.dropped > 0) {
        const std::string note =
            absl::StrCat("(", output.dropped, " lines left out here; log_dir has them)");
        on_output(node.c_str(), note.c_str(), user_data);
      }
      for (const std::string& line : output.lines) on_output(node.c_str(), line.c_str(), user_data);
    };
  }
  if (given.on_metric != nullptr) {
    observer->on_metric = [on_metric = given.on_metric, user_data](absl::string_view node,
                                                                   absl::string_view name,
                                                                   int64_t step, double value) {
      on_metric(std::string(node).c_str(), std::string(name).c_str(), step, value, user_data);
    };
  }
  if (given.on_slot != nullptr) {
    observer->on_slot = [on_slot = given.on_slot, user_data](const SlotStatus& slot) {
      const std::string state(SlotStateName(slot.state));
      const std::string error = slot.error.ok() ? "" : slot.error.ToString();
      millrace_slot told = {};
      told.struct_size = sizeof(told);
      told.executor_id = slot.executor_id;
      told.job_name = slot.role.job_name.c_str();
      told.task_index = slot.role.task_index;
      told.state = state.c_str();
      told.attempt = static_cast<int32_t>(slot.attempt);
      told.host = slot.host.c_str();
      told.address = slot.address.c_str();
      told.pid = slot.node_pid;
      told.error = error.c_str();
      on_slot(&told, user_data);
    };
  }
  if (given.on_restart != nullptr) {
    observer->on_restart = [on_restart = given.on_restart, user_data](const NodeRestart& restart) {
      const FailureForC failure(restart.failure);
      millrace_restart told = {};
      told.struct_size = sizeof(told);
      told.failure = &failure.get();
      told.after_ms = absl::ToInt64Milliseconds(restart.after);
      told.used = restart.used;
      told.max = restart.max;
      on_restart(&told, user_data);
    };
  }
  return absl::OkStatus();
}

}  // namespace

FailureForC::FailureForC(const NodeFailure& failure)
    : node_(failure.role.ToString()),
      exit_(failure.exit.ended() ? DescribeExit(failure.exit) : "") {
  for (const std::string& line : failure.stderr_tail) lines_.push_back(line.c_str());
  told_.struct_size = sizeof(told_);
  told_.node = node_.c_str();
  told_.executor_id = failure.executor_id;
  told_.attempt = static_cast<int32_t>(failure.attempt);
  told_.host = failure.host.c_str();
  told_.pid = failure.pid;
  told_.exit_status = exit_.c_str();
  told_.stderr_lines = lines_.data();
  told_.num_stderr_lines = lines_.size();
}

void TakeOption(const char* text, std::string* into) {
  if (text != nullptr) *into = text;
}

void TakeOption(int64_t ms, absl::Duration* into) {
  if (ms != 0) *into = DurationOf(ms);
}

absl::StatusOr<NodeProgram> ProgramOf(const millrace_cluster_options& given) {
  if (given.program == nullptr) return NullArgument("millrace_cluster_run", "options->program");
  MILLRACE_ASSIGN_OR_RETURN(const millrace_agents agents, ReadStruct(given.agents));
  std::string path = given.program;
  if (given.agents == nullptr && path.find('/') != std::string::npos) {
    // All nodes are on this host: nothing is shipped, and what lies beside the program is found.
    std::error_code failed;
    const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
    if (!failed) path = absolute.string();
  }
  NodeProgram program =
      agents.ship != 0 ? NodeProgram::File(std::move(path)) : NodeProgram::Path(std::move(path));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> args,
                            TextsOf("options->args", given.args, given.num_args));
  MILLRACE_ASSIGN_OR_RETURN(VariableMap env, VariablesOf("options->env", given.env, given.num_env));
  program.Args(std::move(args)).Env(std::move(env));
  return program;
}

absl::StatusOr<ClusterOptions> OptionsOf(const millrace_cluster_options& given) {
  ClusterOptions options;
  if (given.num_executors != 0) options.num_executors = given.num_executors;
  options.num_ps = given.num_ps;
  TakeOption(given.master_node, &options.master_node);
  options.eval_node = given.eval_node != 0;
  if (given.input_mode != MILLRACE_INPUT_DIRECT && given.input_mode != MILLRACE_INPUT_FEED) {
    return absl::InvalidArgumentError(absl::StrCat("millrace_cluster_run: options->input_mode is ",
                                                   given.input_mode,
                                                   ", which is no millrace_input_mode"));
  }
  options.input_mode =
      given.input_mode == MILLRACE_INPUT_FEED ? InputMode::kFeed : InputMode::kDirect;
  TakeOption(given.name, &options.name);
  TakeOption(given.log_dir, &options.log_dir);
  options.tensorboard = given.tensorboard != 0;
  TakeOption(given.reservation_timeout_ms, &options.reservation_timeout);
  MILLRACE_RETURN_IF_ERROR(TakeNode(given.node, &options.node));
  MILLRACE_RETURN_IF_ERROR(TakeFeed(given.feed, &options.feed));
  MILLRACE_RETURN_IF_ERROR(TakeFailure(given.failure, &options.failure));
  MILLRACE_RETURN_IF_ERROR(TakeObserver(given.observer, &options.observer));
  TakeOption(given.coordinator_port_range, &options.coordinator_port_range);
  options.cluster_file = given.no_cluster_file == 0;
  if (given.progress != 0) options.progress = given.progress > 0;
  return options;
}

absl::StatusOr<Agents> AgentsOf(const millrace_cluster_options& given) {
  Agents made;
  if (given.agents == nullptr) {
    LocalLauncherOptions local;
    TakeOption(given.agent_path, &local.agent_path);
    made.launcher = std::make_unique<LocalLauncher>(std::move(local));
    return made;
  }
  MILLRACE_ASSIGN_OR_RETURN(const millrace_agents known, ReadStruct(given.agents));
  if (known.resolver == nullptr) return NullOption("options->agents->resolver");
  if ((known.secret_file == nullptr) == (known.secret_dir == nullptr)) {
    return absl::InvalidArgumentError(
        "millrace_cluster_run: options->agents names the secret of the agents by one of "
        "secret_file "
        "and secret_dir (`millrace agent-secret` makes one)");
  }
  AdoptingLauncherOptions adopting;
  TakeOption(known.secret_file, &adopting.secret.file);
  TakeOption(known.secret_dir, &adopting.secret.dir);
  TakeOption(known.bind_address, &adopting.bind_address);
  TakeOption(known.driver_host, &adopting.driver_host);
  TakeOption(known.poll_interval_ms, &adopting.poll_interval);
  adopting.adoption.fixed_members = known.fixed_members != 0;
  MILLRACE_ASSIGN_OR_RETURN(made.resolver, ResolverFromJson(known.resolver));
  made.launcher = std::make_unique<AdoptingLauncher>(*made.resolver, std::move(adopting));
  return made;
}

absl::Status TakeShape(const millrace_cluster_options& given, const Agents& agents,
                       ClusterOptions* options) {
  if (agents.resolver == nullptr || given.num_executors != 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec members, agents.resolver->cluster_spec());
  MILLRACE_ASSIGN_OR_RETURN(const ClusterShape shape, ShapeOf(members));
  options->num_executors = shape.num_executors;
  options->num_ps = shape.num_ps;
  options->master_node = shape.master_node;
  options->eval_node = shape.eval_node;
  return absl::OkStatus();
}

}  // namespace millrace
