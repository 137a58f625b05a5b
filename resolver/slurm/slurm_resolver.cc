#include "millrace/slurm_resolver.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/local_accelerators.h"
#include "resolver/slurm/hostlist.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {

// What is known of a step; does not change.
struct SlurmStep {
  // One task in the order of ranks (kTensorFlow: in that of host names).
  struct Task {
    std::string address;
    int place = 0;  // among the tasks of its host
  };

  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  int64_t rank = 0;
  SlurmResolver::Jobs jobs;
  std::vector<Task> tasks;
  int64_t gpus_per_node = 0;
  int64_t gpus_per_task = 0;
  std::optional<std::vector<std::string>> inherited;  // ids in CUDA_VISIBLE_DEVICES
  bool own_gpus = false;                              // srun has given each task its own

  SlurmTaskInfo TaskInfo() const;
  absl::StatusOr<ClusterSpec> Spec() const;
  absl::StatusOr<std::string> VisibleDevices() const;
};

namespace {

using Reader = SlurmResolver::Reader;
using TasksOfHosts = SlurmResolver::TasksOfHosts;

constexpr char kRank[] = "SLURM_PROCID";
constexpr char kNumTasks[] = "SLURM_STEP_NUM_TASKS";
constexpr char kNodeList[] = "SLURM_STEP_NODELIST";
constexpr char kTasksPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
constexpr char kDistribution[] = "SLURM_DISTRIBUTION";
constexpr char kNodeId[] = "SLURM_NODEID";
constexpr char kLocalId[] = "SLURM_LOCALID";
constexpr char kGpusPerTask[] = "SLURM_GPUS_PER_TASK";
constexpr char kDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr size_t kMaxQuotedBytes = 200;
constexpr int kMaxPort = 65535;

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::Status WriteEnvironment(const std::string& name, const std::string& value) {
  if (::setenv(name.c_str(), value.c_str(), 1) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot set ", name));
}

absl::StatusOr<int> CountLocalGpus() {
  MILLRACE_ASSIGN_OR_RETURN(const auto accelerators, LocalAccelerators());
  const auto gpus = accelerators.find("GPU");
  return gpus == accelerators.end() ? 0 : gpus->second;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Ellipsize(EscapeControls(text), kMaxQuotedBytes), "\"");
}

absl::Status TooManyTasks() {
  return absl::ResourceExhaustedError(
      absl::StrCat("the Slurm step has more than ", SlurmResolver::kMaxTasks, " tasks"));
}

// The ids of CUDA_VISIBLE_DEVICES, nullopt if it is not set. CUDA itself stops at the first id that
// is none, which "-1" and "NoDevFiles" are for: no GPU.
std::optional<std::vector<std::string>> InheritedDevices(const Reader& read) {
  const std::optional<std::string> value = read(kDevices);
  if (!value.has_value()) return std::nullopt;
  std::vector<std::string> ids;
  for (const absl::string_view part : absl::StrSplit(*value, ',')) {
    const absl::string_view id = absl::StripAsciiWhitespace(part);
    if (id.empty() || id == "-1" || id == "NoDevFiles") break;
    ids.emplace_back(id);
  }
  return ids;
}

absl::StatusOr<std::string> Required(const Reader& read, const std::string& name) {
  std::optional<std::string> value = read(name);
  if (value.has_value()) return *std::move(value);
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is not set: this process is not in a Slurm step; start it by srun"));
}

absl::StatusOr<int> ParseCount(const std::string& name, const std::string& value) {
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be an integer from 0 on, found ", Quoted(value)));
}

absl::StatusOr<std::optional<int>> OptionalCount(const Reader& read, const std::string& name) {
  const std::optional<std::string> value = read(name);
  if (!value.has_value()) return std::nullopt;
  return ParseCount(name, *value);
}

// "2", "a100:2", "a100:1,v100:1".
absl::StatusOr<std::optional<int>> GpusPerTask(const Reader& read) {
  const std::optional<std::string> value = read(kGpusPerTask);
  if (!value.has_value()) return std::nullopt;
  int64_t total = 0;
  for (absl::string_view part : absl::StrSplit(*value, ',')) {
    const size_t colon = part.rfind(':');
    if (colon != absl::string_view::npos) part.remove_prefix(colon + 1);
    int count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(kGpusPerTask, " must be like 2 or a100:2, found ", Quoted(*value)));
    }
    total += count;
  }
  return static_cast<int>(std::min<int64_t>(total, SlurmResolver::kMaxTasks));
}

// --- kCorrect ---

// How srun deals ranks: `plane` tasks to a host, then to the next, and round again. Block is a
// plane as large as the host, cyclic one of a single task.
absl::StatusOr<int> Plane(const Reader& read) {
  constexpr int kWholeHost = std::numeric_limits<int>::max();
  const std::string value = read(kDistribution).value_or("");
  absl::string_view kind = value;
  kind = absl::StripAsciiWhitespace(kind.substr(0, kind.find_first_of(":,")));
  if (kind.empty() || kind == "*" || kind == "block") return kWholeHost;
  if (kind == "cyclic") return 1;
  int size = 0;
  if (absl::ConsumePrefix(&kind, "plane=") && absl::SimpleAtoi(kind, &size) && size > 0) {
    return size;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      kDistribution, " is ", Quoted(value),
      ": ranks are known for block, cyclic and plane=N; start the step by srun -m block"));
}

absl::StatusOr<TasksOfHosts> ReadTasksOfHosts(const SlurmResolver::Options& options) {
  TasksOfHosts hosts;
  if (options.tasks_per_node.has_value()) {
    if (const auto* given = std::get_if<TasksOfHosts>(&*options.tasks_per_node)) return *given;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string node_list, Required(options.read, kNodeList));
  absl::StatusOr<std::vector<std::string>> names = ExpandHostlist(node_list);
  if (!names.ok()) return Annotate(names.status(), kNodeList);
  std::vector<int> counts;
  std::string counts_text = "tasks_per_node";
  if (options.tasks_per_node.has_value()) {
    counts.assign(names->size(), std::get<int>(*options.tasks_per_node));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Required(options.read, kTasksPerNode));
    absl::StatusOr<std::vector<int>> expanded = ExpandTasksPerNode(text);
    if (!expanded.ok()) return Annotate(expanded.status(), kTasksPerNode);
    counts = *std::move(expanded);
    counts_text = absl::StrCat(kTasksPerNode, " ", Quoted(text));
  }
  if (counts.size() != names->size()) {
    return absl::InvalidArgumentError(absl::StrCat(kNodeList, " ", Quoted(node_list), " has ",
                                                   names->size(), " hosts, but ", counts_text,
                                                   " has ", counts.size(), " counts"));
  }
  for (size_t i = 0; i < counts.size(); ++i) hosts.emplace_back((*names)[i], counts[i]);
  return hosts;
}

absl::StatusOr<int> CheckHosts(const TasksOfHosts& hosts, int port_base) {
  std::set<absl::string_view> known;
  int64_t total = 0;
  int fullest = 0;
  for (const auto& [host, count] : hosts) {
    if (!known.insert(host).second) {
      return absl::InvalidArgumentError(absl::StrCat("host ", Quoted(host),
                                                     " is twice in the hosts of the step (",
                                                     kNodeList, "); its tasks would share ports"));
    }
    if (count < 0) {
      return absl::InvalidArgumentError(absl::StrCat("tasks_per_node of host ", Quoted(host),
                                                     " must not be negative, found ", count));
    }
    total += count;
    fullest = std::max(fullest, count);
    if (total > SlurmResolver::kMaxTasks) return TooManyTasks();
  }
  if (total == 0) return absl::InvalidArgumentError("the Slurm step has no task");
  if (port_base < 1 || port_base > kMaxPort - fullest + 1) {
    return absl::InvalidArgumentError(absl::StrCat("port_base must be in 1..",
                                                   kMaxPort - fullest + 1, " for ", fullest,
                                                   " tasks on a host, found ", port_base));
  }
  return static_cast<int>(total);
}

// Where a rank is: host by its place in the list, and place among the tasks of the host.
struct Placement {
  int host = 0;
  int place = 0;
};

std::vector<Placement> DealRanks(const TasksOfHosts& hosts, int plane) {
  std::vector<Placement> ranks;
  std::vector<int> dealt(hosts.size(), 0);
  for (bool again = true; again;) {
    again = false;
    for (size_t host = 0; host < hosts.size(); ++host) {
      const int left = hosts[host].second - dealt[host];
      for (int i = 0; i < std::min(plane, left); ++i) {
        ranks.push_back({.host = static_cast<int>(host), .place = dealt[host]++});
        again = true;
      }
    }
  }
  return ranks;
}

// What srun says of this process's place, where it says so, must be what was made of the lists.
absl::Status CheckOwnPlace(const Reader& read, int64_t rank, const Placement& own) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int> node, OptionalCount(read, kNodeId));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int> place, OptionalCount(read, kLocalId));
  const auto mismatch = [rank](const char* name, int found, int expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", found, ", but rank ", rank, " (",
                                                   kRank, ") should have ", expected, " by ",
                                                   kNodeList, " and ", kTasksPerNode));
  };
  if (node.has_value() && *node != own.host) return mismatch(kNodeId, *node, own.host);
  if (place.has_value() && *place != own.place) return mismatch(kLocalId, *place, own.place);
  return absl::OkStatus();
}

absl::Status CheckJobs(const SlurmResolver::Jobs& jobs, int tasks, bool given) {
  std::set<absl::string_view> known;
  int64_t wanted = 0;
  for (const auto& [job, count] : jobs) {
    if (job.empty() || !known.insert(job).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a job of jobs has no name or the name of another: ", Quoted(job)));
    }
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("jobs[", Quoted(job), "] must not be negative, found ", count));
    }
    wanted += count;
  }
  if (wanted == tasks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(given ? "jobs" : kNumTasks, " has ", wanted, " tasks, but ", tasks,
                   " are on the hosts of the step (", kTasksPerNode, ")"));
}

absl::Status ReadGpus(const SlurmResolver::Options& options, int fullest, SlurmStep* step) {
  for (const auto& [name, value] : {std::pair("gpus_per_node", options.gpus_per_node),
                                    {"gpus_per_task", options.gpus_per_task}}) {
    if (value.has_value() && *value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must not be negative, found ", *value));
    }
  }
  step->inherited = InheritedDevices(options.read);
  std::optional<int> per_task = options.gpus_per_task;
  if (!per_task.has_value() && !options.gpus_per_node.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(per_task, GpusPerTask(options.read));
    step->own_gpus = per_task.has_value();
  }
  const int64_t ids =
      step->inherited.has_value() ? static_cast<int64_t>(step->inherited->size()) : 0;
  if (step->own_gpus) {
    step->gpus_per_task = *per_task;
    step->gpus_per_node = int64_t{fullest} * *per_task;
    if (step->inherited.has_value() && ids != *per_task) {
      return absl::InvalidArgumentError(
          absl::StrCat(kDevices, " has ", ids, " ids, but ", kGpusPerTask, " is ", *per_task));
    }
    return absl::OkStatus();
  }
  if (options.gpus_per_node.has_value()) {
    step->gpus_per_node = *options.gpus_per_node;
  } else if (step->inherited.has_value()) {
    step->gpus_per_node = ids;
    // One task's GPUs in place of the host's.
    if (per_task.has_value() && ids == *per_task) step->gpus_per_node = int64_t{fullest} * ids;
  } else if (per_task != 0) {
    MILLRACE_ASSIGN_OR_RETURN(step->gpus_per_node, options.count_gpus());
  }
  step->gpus_per_task =
      per_task.has_value() ? *per_task : step->gpus_per_node / std::max(fullest, 1);
  if (fullest * step->gpus_per_task > step->gpus_per_node) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpus_per_task is ", step->gpus_per_task, " and a host has ", fullest,
        " tasks, but gpus_per_node is ", step->gpus_per_node,
        options.gpus_per_node.has_value() ? "" : absl::StrCat(" (by ", kDevices, " or the host)")));
  }
  if (step->inherited.has_value() && ids != step->gpus_per_node) {
    if (ids != step->gpus_per_task) {
      return absl::InvalidArgumentError(
          absl::StrCat(kDevices, " has ", ids, " ids: neither gpus_per_node, ", step->gpus_per_node,
                       ", nor gpus_per_task, ", step->gpus_per_task));
    }
    step->own_gpus = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<SlurmStep> ReadStep(const SlurmResolver::Options& options) {
  SlurmStep step;
  MILLRACE_ASSIGN_OR_RETURN(const std::string rank, Required(options.read, kRank));
  MILLRACE_ASSIGN_OR_RETURN(step.rank, ParseCount(kRank, rank));
  MILLRACE_ASSIGN_OR_RETURN(const TasksOfHosts hosts, ReadTasksOfHosts(options));
  MILLRACE_ASSIGN_OR_RETURN(const int tasks, CheckHosts(hosts, options.port_base));
  if (options.jobs.has_value()) {
    step.jobs = *options.jobs;
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Required(options.read, kNumTasks));
    MILLRACE_ASSIGN_OR_RETURN(const int count, ParseCount(kNumTasks, text));
    step.jobs = {{"worker", count}};
  }
  MILLRACE_RETURN_IF_ERROR(CheckJobs(step.jobs, tasks, options.jobs.has_value()));
  if (step.rank >= tasks) {
    return absl::InvalidArgumentError(absl::StrCat(kRank, " is ", step.rank, ", but ", tasks,
                                                   " tasks are on the hosts of the step (",
                                                   kTasksPerNode, ")"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const int plane, Plane(options.read));
  const std::vector<Placement> ranks = DealRanks(hosts, plane);
  if (!options.tasks_per_node.has_value()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckOwnPlace(options.read, step.rank, ranks[static_cast<size_t>(step.rank)]));
  }
  int fullest = 0;
  for (const Placement& at : ranks) {
    const auto& [host, count] = hosts[static_cast<size_t>(at.host)];
    step.tasks.push_back(
        {.address = absl::StrCat(host, ":", options.port_base + at.place), .place = at.place});
    fullest = std::max(fullest, count);
  }
  MILLRACE_RETURN_IF_ERROR(ReadGpus(options, fullest, &step));
  return step;
}

// --- kTensorFlow ---

absl::Status RuntimeError(absl::string_view message) {
  return PythonError("RuntimeError", message);
}

absl::StatusOr<std::string> PythonVariable(const Reader& read, const std::string& name) {
  std::optional<std::string> value = read(name);
  if (value.has_value()) return *std::move(value);
  return RuntimeError(
      absl::StrCat(name, " not found in environment. Not running inside a SLURM step?"));
}

absl::StatusOr<int64_t> PythonIntVariable(const Reader& read, const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string value, PythonVariable(read, name));
  return PythonIntOf(OrderedJson(value));
}

// A dict: a host that comes again has its later count.
absl::StatusOr<std::map<std::string, int>> PythonTasksOfHosts(
    const SlurmResolver::Options& options) {
  const HostlistOptions limits = {.behavior = ResolverBehavior::kTensorFlow};
  std::map<std::string, int> hosts;
  if (options.tasks_per_node.has_value()) {
    if (const auto* given = std::get_if<TasksOfHosts>(&*options.tasks_per_node)) {
      for (const auto& [host, count] : *given) hosts[host] = count;
      return hosts;
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string list, PythonVariable(options.read, kNodeList));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandHostlist(list, limits));
  if (options.tasks_per_node.has_value()) {
    for (const std::string& host : names) hosts[host] = std::get<int>(*options.tasks_per_node);
    return hosts;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, PythonVariable(options.read, kTasksPerNode));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> counts, ExpandTasksPerNode(text, limits));
  for (size_t i = 0; i < std::min(names.size(), counts.size()); ++i) hosts[names[i]] = counts[i];
  return hosts;
}

absl::StatusOr<int64_t> PythonGpusPerNode(const SlurmResolver::Options& options) {
  if (options.gpus_per_node.has_value()) return *options.gpus_per_node;
  const std::optional<std::string> devices = options.read(kDevices);
  if (devices.has_value()) return 1 + std::count(devices->begin(), devices->end(), ',');
  const absl::StatusOr<int> gpus = options.count_gpus();
  if (gpus.ok()) return *gpus;
  return RuntimeError(
      absl::StrCat("Could not get number of GPUs from nvidia-smi. Maybe it is missing?\nOutput: ",
                   gpus.status().message()));
}

absl::StatusOr<SlurmStep> ReadPythonStep(const SlurmResolver::Options& options) {
  SlurmStep step;
  step.behavior = ResolverBehavior::kTensorFlow;
  MILLRACE_ASSIGN_OR_RETURN(step.rank, PythonIntVariable(options.read, kRank));
  int64_t wanted = 0;
  if (options.jobs.has_value()) {
    step.jobs = *options.jobs;
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count, PythonIntVariable(options.read, kNumTasks));
    if (count > SlurmResolver::kMaxTasks) return TooManyTasks();
    step.jobs = {{"worker", static_cast<int>(count)}};
  }
  for (const auto& [job, count] : step.jobs) wanted += count;
  std::sort(step.jobs.begin(), step.jobs.end());

  MILLRACE_ASSIGN_OR_RETURN(const auto hosts, PythonTasksOfHosts(options));
  if (hosts.empty()) return PythonError("ValueError", "max() arg is an empty sequence");
  int64_t fullest = std::numeric_limits<int64_t>::min();
  int64_t total = 0;
  for (const auto& [host, count] : hosts) {
    fullest = std::max<int64_t>(fullest, count);
    total += count;
    if (total > SlurmResolver::kMaxTasks) return TooManyTasks();
  }
  MILLRACE_ASSIGN_OR_RETURN(step.gpus_per_node, PythonGpusPerNode(options));
  if (options.gpus_per_task.has_value()) {
    step.gpus_per_task = *options.gpus_per_task;
  } else {
    if (fullest == 0) {
      return PythonError("ZeroDivisionError", "integer division or modulo by zero");
    }
    step.gpus_per_task = step.gpus_per_node / fullest;
  }
  if (fullest * step.gpus_per_task > step.gpus_per_node) {
    return RuntimeError("Requested more GPUs per node than available.");
  }
  if (wanted != total) {
    return RuntimeError(
        absl::StrCat("Requested ", wanted, " tasks but only ", total, " were assigned."));
  }
  for (const auto& [host, count] : hosts) {
    for (int place = 0; place < count; ++place) {
      step.tasks.push_back(
          {.address = absl::StrCat(host, ":", options.port_base + place), .place = place});
    }
  }
  return step;
}

}  // namespace

SlurmTaskInfo SlurmStep::TaskInfo() const {
  int64_t first = 0;
  for (const auto& [job, count] : jobs) {
    if (first <= rank && rank < first + count) {
      return {.task_type = job, .task_id = static_cast<int>(rank - first)};
    }
    first += count;
  }
  return {};
}

absl::StatusOr<ClusterSpec> SlurmStep::Spec() const {
  if (behavior == ResolverBehavior::kTensorFlow && gpus_per_task == 0) {
    return PythonError("ValueError", "range() arg 3 must not be zero");
  }
  ClusterSpec spec;
  size_t next = 0;
  for (const auto& [job, count] : jobs) {
    ClusterSpec::TaskList addresses;
    for (int i = 0; i < count && next < tasks.size(); ++i) {
      addresses.push_back(tasks[next++].address);
    }
    MILLRACE_RETURN_IF_ERROR(spec.AddJob(job, std::move(addresses)));
  }
  return spec;
}

absl::StatusOr<std::string> SlurmStep::VisibleDevices() const {
  int64_t own = rank;
  const int64_t size = static_cast<int64_t>(tasks.size());
  if (own < 0 && own >= -size) own += size;  // of Python's lists
  if (own < 0 || own >= size) return PythonError("IndexError", "list index out of range");
  const int64_t first = tasks[static_cast<size_t>(own)].place * gpus_per_task;
  std::vector<std::string> ids;
  for (int64_t id = first; id < first + gpus_per_task; ++id) {
    if (behavior == ResolverBehavior::kTensorFlow || !inherited.has_value()) {
      ids.push_back(absl::StrCat(id));
    } else {
      // ReadGpus() has made sure that there are enough.
      ids.push_back((*inherited)[static_cast<size_t>(own_gpus ? id - first : id)]);
    }
  }
  return absl::StrJoin(ids, ",");
}

absl::StatusOr<std::unique_ptr<SlurmResolver>> SlurmResolver::Create(Options options) {
  if (options.read == nullptr) options.read = ReadEnvironment;
  if (options.write == nullptr) options.write = WriteEnvironment;
  if (options.count_gpus == nullptr) options.count_gpus = CountLocalGpus;
  const bool tensorflow = options.behavior == ResolverBehavior::kTensorFlow;
  if (!tensorflow) MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.task_id));
  MILLRACE_ASSIGN_OR_RETURN(SlurmStep step,
                            tensorflow ? ReadPythonStep(options) : ReadStep(options));
  BaseOptions base = {.behavior = options.behavior,
                      .properties = {.task_type = std::move(options.task_type),
                                     .task_id = options.task_id,
                                     .rpc_layer = std::move(options.rpc_layer)},
                      .count_accelerators = nullptr};
  return std::unique_ptr<SlurmResolver>(
      new SlurmResolver(std::move(base), std::make_unique<const SlurmStep>(std::move(step)),
                        options.auto_set_gpu.value_or(tensorflow) ? options.write : Writer()));
}

SlurmResolver::SlurmResolver(BaseOptions base, std::unique_ptr<const SlurmStep> step, Writer write)
    : ResolverBase(std::move(base)), step_(std::move(step)), write_(std::move(write)) {}

SlurmResolver::~SlurmResolver() = default;

absl::StatusOr<ClusterSpec> SlurmResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, step_->Spec());
  if (tensorflow()) {
    if (const SlurmTaskInfo info = step_->TaskInfo(); info.task_type.has_value()) {
      MILLRACE_RETURN_IF_ERROR(set_task_type(info.task_type));
      MILLRACE_RETURN_IF_ERROR(set_task_id(info.task_id));
    }
  }
  if (write_ != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string devices, step_->VisibleDevices());
    MILLRACE_RETURN_IF_ERROR(write_(kDevices, devices));
  }
  return spec;
}

absl::StatusOr<std::map<std::string, int>> SlurmResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  const int gpus = static_cast<int>(step_->gpus_per_task);
  if (tensorflow()) return std::map<std::string, int>{{"GPU", gpus}};
  if (task_type.has_value() || task_id.has_value()) {
    const SlurmTaskInfo own = step_->TaskInfo();
    if (!task_type.has_value()) task_type = own.task_type;
    if (!task_id.has_value()) task_id = own.task_id;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, step_->Spec());
    MILLRACE_RETURN_IF_ERROR(ResolvedTaskAddress(spec, task_type, task_id, behavior()));
  }
  if (gpus == 0) return std::map<std::string, int>();
  return std::map<std::string, int>{{"GPU", gpus}};
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> SlurmResolver::Watch(MembershipCallback callback,
                                                                      const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return TellOnce(cluster_spec(), std::move(callback));
}

SlurmTaskInfo SlurmResolver::GetTaskInfo() const {
  if (!tensorflow()) return step_->TaskInfo();
  const TaskProperties set = overrides();
  return {.task_type = set.task_type, .task_id = set.task_id};
}

absl::StatusOr<std::string> SlurmResolver::VisibleDevices() const {
  return step_->VisibleDevices();
}

absl::StatusOr<std::optional<std::string>> SlurmResolver::SourceTaskType() {
  if (tensorflow()) return std::nullopt;
  return step_->TaskInfo().task_type;
}

absl::StatusOr<std::optional<int>> SlurmResolver::SourceTaskId() {
  if (tensorflow()) return std::nullopt;
  return step_->TaskInfo().task_id;
}

}  // namespace millrace
