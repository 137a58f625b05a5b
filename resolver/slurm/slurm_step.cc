#include "resolver/slurm/slurm_step.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/slurm/hostlist.h"

namespace millrace {
namespace {

using Reader = SlurmResolverOptions::Reader;
using TasksOfHosts = SlurmResolverOptions::TasksOfHosts;

constexpr char kDistribution[] = "SLURM_DISTRIBUTION";
constexpr char kPlaneSize[] = "SLURM_DIST_PLANESIZE";
constexpr char kNodeId[] = "SLURM_NODEID";
constexpr char kLocalId[] = "SLURM_LOCALID";
constexpr char kGpusPerTask[] = "SLURM_GPUS_PER_TASK";
constexpr size_t kMaxQuotedBytes = 200;
constexpr int kMaxPort = 65535;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Ellipsize(EscapeControls(text), kMaxQuotedBytes), "\"");
}

// The ids of CUDA_VISIBLE_DEVICES, nullopt if it is not set. CUDA itself stops at the first id that
// is none, which "-1" and "NoDevFiles" are for: no GPU.
std::optional<std::vector<std::string>> InheritedDevices(const Reader& read) {
  const std::optional<std::string> value = read(kSlurmDevices);
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
  // As srun itself says it.
  const std::string own = read(kPlaneSize).value_or("");
  if (kind == "plane" && absl::SimpleAtoi(own, &size) && size > 0) return size;
  return absl::FailedPreconditionError(absl::StrCat(
      kDistribution, " is ", Quoted(value),
      ": ranks are known for block, cyclic and plane=N; start the step by srun -m block"));
}

absl::StatusOr<TasksOfHosts> ReadTasksOfHosts(const SlurmResolverOptions& options) {
  TasksOfHosts hosts;
  if (options.tasks_per_node.has_value()) {
    if (const auto* given = std::get_if<TasksOfHosts>(&*options.tasks_per_node)) return *given;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string node_list, Required(options.read, kSlurmNodeList));
  absl::StatusOr<std::vector<std::string>> names = ExpandHostlist(node_list);
  if (!names.ok()) return Annotate(names.status(), kSlurmNodeList);
  std::vector<int> counts;
  std::string counts_text = "tasks_per_node";
  if (options.tasks_per_node.has_value()) {
    counts.assign(names->size(), std::get<int>(*options.tasks_per_node));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Required(options.read, kSlurmTasksPerNode));
    absl::StatusOr<std::vector<int>> expanded = ExpandTasksPerNode(text);
    if (!expanded.ok()) return Annotate(expanded.status(), kSlurmTasksPerNode);
    counts = *std::move(expanded);
    counts_text = absl::StrCat(kSlurmTasksPerNode, " ", Quoted(text));
  }
  if (counts.size() != names->size()) {
    return absl::InvalidArgumentError(absl::StrCat(kSlurmNodeList, " ", Quoted(node_list), " has ",
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
      return absl::InvalidArgumentError(
          absl::StrCat("host ", Quoted(host), " is twice in the hosts of the step (",
                       kSlurmNodeList, "); its tasks would share ports"));
    }
    if (count < 0) {
      return absl::InvalidArgumentError(absl::StrCat("tasks_per_node of host ", Quoted(host),
                                                     " must not be negative, found ", count));
    }
    total += count;
    fullest = std::max(fullest, count);
    if (total > SlurmResolver::kMaxTasks) return TooManySlurmTasks();
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
                                                   kSlurmRank, ") should have ", expected, " by ",
                                                   kSlurmNodeList, " and ", kSlurmTasksPerNode));
  };
  if (node.has_value() && *node != own.host) return mismatch(kNodeId, *node, own.host);
  if (place.has_value() && *place != own.place) return mismatch(kLocalId, *place, own.place);
  return absl::OkStatus();
}

absl::Status CheckJobs(const SlurmResolverOptions::Jobs& jobs, int tasks, bool given) {
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
      absl::StrCat(given ? "jobs" : kSlurmNumTasks, " has ", wanted, " tasks, but ", tasks,
                   " are on the hosts of the step (", kSlurmTasksPerNode, ")"));
}

absl::Status ReadGpus(const SlurmResolverOptions& options, int fullest, SlurmStep* step) {
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
          absl::StrCat(kSlurmDevices, " has ", ids, " ids, but ", kGpusPerTask, " is ", *per_task));
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
        options.gpus_per_node.has_value() ? ""
                                          : absl::StrCat(" (by ", kSlurmDevices, " or the host)")));
  }
  if (step->inherited.has_value() && ids != step->gpus_per_node) {
    if (ids != step->gpus_per_task) {
      return absl::InvalidArgumentError(
          absl::StrCat(kSlurmDevices, " has ", ids, " ids: neither gpus_per_node, ",
                       step->gpus_per_node, ", nor gpus_per_task, ", step->gpus_per_task));
    }
    step->own_gpus = true;
  }
  return absl::OkStatus();
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

std::string SlurmStep::VisibleDevices(size_t task) const {
  const int64_t first = tasks[task].place * gpus_per_task;
  std::vector<std::string> ids;
  for (int64_t id = first; id < first + gpus_per_task; ++id) {
    if (!inherited.has_value()) {
      ids.push_back(absl::StrCat(id));
    } else {
      // ReadGpus() has made sure that there are enough.
      ids.push_back((*inherited)[static_cast<size_t>(own_gpus ? id - first : id)]);
    }
  }
  return absl::StrJoin(ids, ",");
}

absl::StatusOr<SlurmStep> ReadSlurmStep(const SlurmResolverOptions& options) {
  SlurmStep step;
  MILLRACE_ASSIGN_OR_RETURN(const std::string rank, Required(options.read, kSlurmRank));
  MILLRACE_ASSIGN_OR_RETURN(step.rank, ParseCount(kSlurmRank, rank));
  MILLRACE_ASSIGN_OR_RETURN(const TasksOfHosts hosts, ReadTasksOfHosts(options));
  MILLRACE_ASSIGN_OR_RETURN(const int tasks, CheckHosts(hosts, options.port_base));
  if (options.jobs.has_value()) {
    step.jobs = *options.jobs;
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Required(options.read, kSlurmNumTasks));
    MILLRACE_ASSIGN_OR_RETURN(const int count, ParseCount(kSlurmNumTasks, text));
    step.jobs = {{"worker", count}};
  }
  MILLRACE_RETURN_IF_ERROR(CheckJobs(step.jobs, tasks, options.jobs.has_value()));
  if (step.rank >= tasks) {
    return absl::InvalidArgumentError(absl::StrCat(kSlurmRank, " is ", step.rank, ", but ", tasks,
                                                   " tasks are on the hosts of the step (",
                                                   kSlurmTasksPerNode, ")"));
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

absl::Status TooManySlurmTasks() {
  return absl::ResourceExhaustedError(
      absl::StrCat("the Slurm step has more than ", SlurmResolver::kMaxTasks, " tasks"));
}

}  // namespace millrace
