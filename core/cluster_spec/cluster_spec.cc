#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxQuotedBytes = 200;  // of foreign text in a message

std::string Quote(absl::string_view text) { return PythonRepr(Ellipsize(text, kMaxQuotedBytes)); }

bool IsDense(const ClusterSpec::TaskMap& tasks) {
  // Indices are distinct and not negative, so the largest one decides.
  return !tasks.empty() && static_cast<size_t>(tasks.rbegin()->first) + 1 == tasks.size();
}

absl::Status CheckIndex(absl::string_view job, int64_t index) {
  if (index >= 0 && index <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Task index ", index, " of job ", Quote(job), " must be in 0..2147483647."));
}

absl::Status NoSuchJob(absl::string_view job) {
  return absl::NotFoundError(absl::StrCat("No such job in cluster: ", Quote(job)));
}

template <typename JsonType>
absl::StatusOr<std::string> AddressFromJson(const JsonType& value, absl::string_view job,
                                            int64_t index) {
  if (value.is_string()) return value.template get_ref<const std::string&>();
  return absl::InvalidArgumentError(absl::StrCat("Task address of task ", index, " of job ",
                                                 Quote(job), " must be a string, found ",
                                                 JsonTypeName(value), "."));
}

template <typename JsonType>
absl::StatusOr<ClusterSpec::TaskMap> TasksFromJson(const JsonType& value, absl::string_view job) {
  ClusterSpec::TaskMap tasks;
  if (value.is_array()) {
    for (const JsonType& item : value) {
      const int index = static_cast<int>(tasks.size());
      MILLRACE_ASSIGN_OR_RETURN(std::string address, AddressFromJson(item, job, index));
      tasks.emplace_hint(tasks.end(), index, std::move(address));
    }
    return tasks;
  }
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("The tasks for job ", Quote(job),
                     " must be a list or a dictionary from integers to strings, found ",
                     JsonTypeName(value), "."));
  }
  for (const auto& [key, item] : value.items()) {
    const std::optional<int64_t> index = PythonInt(key);
    if (!index.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Task index ", Quote(key), " of job ", Quote(job), " is no integer."));
    }
    MILLRACE_RETURN_IF_ERROR(CheckIndex(job, *index));
    MILLRACE_ASSIGN_OR_RETURN(std::string address, AddressFromJson(item, job, *index));
    tasks.insert_or_assign(static_cast<int>(*index), std::move(address));
  }
  return tasks;
}

template <typename JsonType>
absl::StatusOr<ClusterSpec> FromAnyJson(const JsonType& value) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`cluster` must be a dictionary mapping one or more job names to lists of "
                     "network addresses, found ",
                     JsonTypeName(value), "."));
  }
  ClusterSpec spec;
  for (const auto& [job, tasks] : value.items()) {
    MILLRACE_ASSIGN_OR_RETURN(ClusterSpec::TaskMap map, TasksFromJson(tasks, job));
    MILLRACE_RETURN_IF_ERROR(spec.AddSparseJob(job, std::move(map)));
  }
  return spec;
}

OrderedJson TasksToJson(const ClusterSpec::TaskMap& tasks) {
  if (IsDense(tasks)) {
    OrderedJson list = OrderedJson::array();
    for (const auto& [index, address] : tasks) list.push_back(address);
    return list;
  }
  OrderedJson dict = OrderedJson::object();
  auto& members = dict.get_ref<OrderedJson::object_t&>();
  // Not dict[key], which looks each key up linearly; indices are distinct.
  for (const auto& [index, address] : tasks) members.emplace_back(absl::StrCat(index), address);
  return dict;
}

std::string TasksAsText(const ClusterSpec::TaskMap& tasks) {
  if (IsDense(tasks)) {
    return absl::StrCat("[",
                        absl::StrJoin(tasks, ", ",
                                      [](std::string* out, const auto& task) {
                                        absl::StrAppend(out, PythonRepr(task.second));
                                      }),
                        "]");
  }
  return absl::StrCat("{",
                      absl::StrJoin(tasks, ", ",
                                    [](std::string* out, const auto& task) {
                                      absl::StrAppend(out, task.first, ": ",
                                                      PythonRepr(task.second));
                                    }),
                      "}");
}

}  // namespace

absl::StatusOr<ClusterSpec> ClusterSpec::Create(const JobList& jobs) {
  ClusterSpec spec;
  for (const auto& [job, tasks] : jobs) {
    if (const auto* list = std::get_if<TaskList>(&tasks)) {
      MILLRACE_RETURN_IF_ERROR(spec.AddJob(job, *list));
    } else {
      MILLRACE_RETURN_IF_ERROR(spec.AddSparseJob(job, std::get<TaskMap>(tasks)));
    }
  }
  return spec;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromJsonText(absl::string_view text) {
  absl::StatusOr<OrderedJson> value = ParseOrderedJson(text);
  if (!value.ok()) return Annotate(value.status(), "cluster spec");
  return FromAnyJson(*value);
}

absl::StatusOr<ClusterSpec> ClusterSpecFromJson(const Json& value) { return FromAnyJson(value); }
absl::StatusOr<ClusterSpec> ClusterSpecFromJson(const OrderedJson& value) {
  return FromAnyJson(value);
}

absl::Status ClusterSpec::AddJob(absl::string_view job, TaskList tasks) {
  TaskMap map;
  for (std::string& address : tasks) {
    map.emplace_hint(map.end(), static_cast<int>(map.size()), std::move(address));
  }
  return AddSparseJob(job, std::move(map));
}

absl::Status ClusterSpec::AddSparseJob(absl::string_view job, TaskMap tasks) {
  if (!tasks.empty()) MILLRACE_RETURN_IF_ERROR(CheckIndex(job, tasks.begin()->first));
  if (!index_.try_emplace(std::string(job), jobs_.size()).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("Job ", Quote(job), " is already in the cluster."));
  }
  jobs_.emplace_back(job, std::move(tasks));
  return absl::OkStatus();
}

absl::Status ClusterSpec::SetTask(absl::string_view job, int index, absl::string_view address) {
  MILLRACE_RETURN_IF_ERROR(CheckIndex(job, index));
  const auto [entry, is_new] = index_.try_emplace(std::string(job), jobs_.size());
  if (is_new) jobs_.emplace_back(job, TaskMap());
  jobs_[entry->second].second.insert_or_assign(index, std::string(address));
  return absl::OkStatus();
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  names.reserve(jobs_.size());
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

size_t ClusterSpec::total_tasks() const {
  size_t total = 0;
  for (const auto& [job, tasks] : jobs_) total += tasks.size();
  return total;
}

absl::StatusOr<const ClusterSpec::TaskMap*> ClusterSpec::Find(absl::string_view job) const {
  const auto found = index_.find(job);
  if (found == index_.end()) return NoSuchJob(job);
  return &jobs_[found->second].second;
}

absl::StatusOr<int> ClusterSpec::NumTasks(absl::string_view job) const {
  MILLRACE_ASSIGN_OR_RETURN(const TaskMap* tasks, Find(job));
  return static_cast<int>(tasks->size());
}

absl::StatusOr<std::vector<int>> ClusterSpec::TaskIndices(absl::string_view job) const {
  MILLRACE_ASSIGN_OR_RETURN(const TaskMap* tasks, Find(job));
  std::vector<int> indices;
  indices.reserve(tasks->size());
  for (const auto& [index, address] : *tasks) indices.push_back(index);
  return indices;
}

absl::StatusOr<std::string> ClusterSpec::TaskAddress(absl::string_view job, int index) const {
  MILLRACE_ASSIGN_OR_RETURN(const TaskMap* tasks, Find(job));
  const auto found = tasks->find(index);
  if (found == tasks->end()) {
    return absl::NotFoundError(absl::StrCat("No task with index ", index, " in job ", Quote(job)));
  }
  return found->second;
}

absl::StatusOr<std::vector<std::optional<std::string>>> ClusterSpec::JobTasks(
    absl::string_view job) const {
  MILLRACE_ASSIGN_OR_RETURN(const TaskMap* tasks, Find(job));
  std::vector<std::optional<std::string>> list;
  if (tasks->empty()) return list;
  const int largest = tasks->rbegin()->first;
  if (largest >= kMaxListedTasks) {
    return absl::ResourceExhaustedError(absl::StrCat("Job ", Quote(job), " has a task with index ",
                                                     largest, "; a list is made up to index ",
                                                     kMaxListedTasks - 1, " only."));
  }
  list.resize(static_cast<size_t>(largest) + 1);
  for (const auto& [index, address] : *tasks) list[static_cast<size_t>(index)] = address;
  return list;
}

absl::StatusOr<const ClusterSpec::TaskMap*> ClusterSpec::TaskMapOf(absl::string_view job) const {
  return Find(job);
}

ClusterSpec::JobList ClusterSpec::AsDict() const {
  JobList dict;
  dict.reserve(jobs_.size());
  for (const auto& [job, tasks] : jobs_) {
    if (!IsDense(tasks)) {
      dict.emplace_back(job, tasks);
      continue;
    }
    TaskList list;
    list.reserve(tasks.size());
    for (const auto& [index, address] : tasks) list.push_back(address);
    dict.emplace_back(job, std::move(list));
  }
  return dict;
}

OrderedJson ClusterSpecToJson(const ClusterSpec& spec) {
  OrderedJson value = OrderedJson::object();
  auto& members = value.get_ref<OrderedJson::object_t&>();
  for (const std::string& job : spec.jobs()) {
    members.emplace_back(job, TasksToJson(**spec.TaskMapOf(job)));
  }
  return value;
}

std::string ClusterSpec::ToJson() const { return DumpJson(ClusterSpecToJson(*this)); }

std::string ClusterSpec::AsText() const {
  std::vector<const std::pair<std::string, TaskMap>*> sorted;
  sorted.reserve(jobs_.size());
  for (const auto& job : jobs_) sorted.push_back(&job);
  // Byte order of UTF-8 is the order of code points, which is Python's.
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  return absl::StrCat("ClusterSpec({",
                      absl::StrJoin(sorted, ", ",
                                    [](std::string* out, auto* job) {
                                      absl::StrAppend(out, PythonRepr(job->first), ": ",
                                                      TasksAsText(job->second));
                                    }),
                      "})");
}

bool operator==(const ClusterSpec& a, const ClusterSpec& b) {
  if (a.jobs_.size() != b.jobs_.size()) return false;
  return std::all_of(a.jobs_.begin(), a.jobs_.end(), [&b](const auto& job) {
    const auto other = b.index_.find(job.first);
    return other != b.index_.end() && b.jobs_[other->second].second == job.second;
  });
}

absl::StatusOr<std::string> TfConfig(const ClusterSpec& spec, absl::string_view task_type,
                                     int task_index) {
  return TfConfig(spec, task_type, task_index, Json::object());
}

absl::StatusOr<std::string> TfConfig(const ClusterSpec& spec, absl::string_view task_type,
                                     int task_index, const Json& extra) {
  if (task_index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("task index of TF_CONFIG must not be negative, found ", task_index));
  }
  if (!extra.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("extra members of TF_CONFIG must be an object, found ", JsonTypeName(extra)));
  }
  OrderedJson config = OrderedJson::object();
  config["cluster"] = ClusterSpecToJson(spec);
  config["task"]["type"] = std::string(task_type);
  config["task"]["index"] = task_index;
  config["environment"] = "cloud";
  for (const auto& [key, value] : extra.items()) {
    if (key == "cluster" || key == "task") {
      return absl::InvalidArgumentError(
          absl::StrCat("extra members of TF_CONFIG must not hold \"", key, "\""));
    }
    config[key] = OrderedJson(value);
  }
  return DumpJson(config);
}

bool ClusterSpecDiff::empty() const {
  return jobs_added.empty() && jobs_removed.empty() && added.empty() && removed.empty() &&
         moved.empty();
}

std::string ClusterSpecDiff::ToString() const {
  std::vector<std::string> parts;
  for (const std::string& job : jobs_added) parts.push_back(absl::StrCat("added job ", job));
  for (const std::string& job : jobs_removed) parts.push_back(absl::StrCat("removed job ", job));
  for (const Task& task : added) {
    parts.push_back(absl::StrCat("added ", task.job, ":", task.index, " ", task.address));
  }
  for (const Task& task : removed) {
    parts.push_back(absl::StrCat("removed ", task.job, ":", task.index, " ", task.address));
  }
  for (const Move& move : moved) {
    parts.push_back(
        absl::StrCat("moved ", move.job, ":", move.index, " ", move.from, " -> ", move.to));
  }
  return parts.empty() ? "no change" : EscapeControls(absl::StrJoin(parts, "; "));
}

ClusterSpecDiff DiffClusterSpecs(const ClusterSpec& from, const ClusterSpec& to) {
  static const ClusterSpec::TaskMap* const kNoTasks = new ClusterSpec::TaskMap;
  ClusterSpecDiff diff;
  std::vector<std::string> jobs = from.jobs();
  const std::vector<std::string> new_jobs = to.jobs();
  jobs.insert(jobs.end(), new_jobs.begin(), new_jobs.end());
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  for (const std::string& job : jobs) {
    const auto before = from.TaskMapOf(job);
    const auto after = to.TaskMapOf(job);
    if (!before.ok()) diff.jobs_added.push_back(job);
    if (!after.ok()) diff.jobs_removed.push_back(job);
    const ClusterSpec::TaskMap& old_tasks = before.ok() ? **before : *kNoTasks;
    const ClusterSpec::TaskMap& new_tasks = after.ok() ? **after : *kNoTasks;
    for (const auto& [index, address] : old_tasks) {
      const auto found = new_tasks.find(index);
      if (found == new_tasks.end()) {
        diff.removed.push_back({job, index, address});
      } else if (found->second != address) {
        diff.moved.push_back({job, index, address, found->second});
      }
    }
    for (const auto& [index, address] : new_tasks) {
      if (!old_tasks.contains(index)) diff.added.push_back({job, index, address});
    }
  }
  return diff;
}

}  // namespace millrace
