#include "resolver/tensorflow/tensorflow_cluster_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

using Members = OrderedJson::object_t;

// int(key) for each key; of equal numbers the last address stays, in the first one's place.
using RawTasks = std::vector<std::pair<int64_t, const OrderedJson*>>;

absl::StatusOr<RawTasks> ReadTasks(const std::string& job, const OrderedJson& tasks) {
  RawTasks read;
  if (tasks.is_array()) {
    for (const OrderedJson& address : tasks) {
      read.emplace_back(static_cast<int64_t>(read.size()), &address);
    }
    return read;
  }
  if (!tasks.is_object()) {
    return PythonError("TypeError",
                       absl::StrCat("The tasks for job ", PythonRepr(job),
                                    " must be a list or a dictionary from integers to strings."));
  }
  std::map<int64_t, size_t> known;
  for (const auto& [key, address] : tasks.get_ref<const Members&>()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t index, PythonIntOf(OrderedJson(key)));
    const auto [place, is_new] = known.try_emplace(index, read.size());
    if (is_new) {
      read.emplace_back(index, &address);
    } else {
      read[place->second].second = &address;
    }
  }
  return read;
}

// What filling the ClusterDef refuses, in its order.
absl::Status CheckTasks(RawTasks tasks) {
  std::sort(tasks.begin(), tasks.end());
  for (const auto& [index, address] : tasks) {
    if (!address->is_string()) {
      return PythonError("TypeError", absl::StrCat("Task address ", PythonReprOf(*address),
                                                   " must be bytes or unicode"));
    }
    if (index < std::numeric_limits<int32_t>::min() ||
        index > std::numeric_limits<int32_t>::max()) {
      return PythonError("ValueError", absl::StrCat("Value out of range: ", index));
    }
  }
  return absl::OkStatus();
}

absl::Status Unhashable(const OrderedJson& value) {
  return PythonError("TypeError", absl::StrCat("unhashable type: '", PythonTypeName(value), "'"));
}

template <typename Tasks>
Tasks Sorted(Tasks tasks) {
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

template <typename Tasks>
bool IsDense(const Tasks& tasks) {
  const auto largest = std::max_element(tasks.begin(), tasks.end());
  return largest != tasks.end() &&
         int64_t{largest->first} + 1 == static_cast<int64_t>(tasks.size());
}

}  // namespace

absl::StatusOr<TensorFlowClusterSpec> TensorFlowClusterSpec::FromJson(const OrderedJson& cluster) {
  if (!cluster.is_object()) {
    return PythonError("TypeError",
                       "`cluster` must be a dictionary mapping one or more job names to lists of "
                       "network addresses, or a `ClusterDef` protocol buffer");
  }
  std::vector<std::pair<std::string, RawTasks>> raw;
  for (const auto& [job, tasks] : cluster.get_ref<const Members&>()) {
    MILLRACE_ASSIGN_OR_RETURN(RawTasks read, ReadTasks(job, tasks));
    raw.emplace_back(job, std::move(read));
  }
  // The ClusterDef is filled job by job in the order of their names.
  std::vector<const std::pair<std::string, RawTasks>*> by_name;
  for (const auto& job : raw) by_name.push_back(&job);
  std::sort(by_name.begin(), by_name.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* job : by_name) MILLRACE_RETURN_IF_ERROR(CheckTasks(job->second));

  TensorFlowClusterSpec spec;
  for (const auto& [job, tasks] : raw) {
    Tasks& added = spec.jobs_.emplace_back(job, Tasks()).second;
    for (const auto& [index, address] : tasks) {
      added.emplace_back(static_cast<int>(index), address->get<std::string>());
    }
  }
  return spec;
}

TensorFlowClusterSpec TensorFlowClusterSpec::From(const ClusterSpec& spec) {
  TensorFlowClusterSpec copy;
  for (const std::string& job : spec.jobs()) {
    const ClusterSpec::TaskMap& tasks = **spec.TaskMapOf(job);
    copy.jobs_.emplace_back(job, Tasks(tasks.begin(), tasks.end()));
  }
  return copy;
}

TensorFlowClusterSpec TensorFlowClusterSpec::Copy() const {
  TensorFlowClusterSpec copy = *this;
  std::sort(copy.jobs_.begin(), copy.jobs_.end());
  for (auto& [job, tasks] : copy.jobs_) std::sort(tasks.begin(), tasks.end());
  return copy;
}

absl::StatusOr<ClusterSpec> TensorFlowClusterSpec::ToClusterSpec() const {
  ClusterSpec spec;
  for (const auto& [job, tasks] : jobs_) {
    MILLRACE_RETURN_IF_ERROR(
        spec.AddSparseJob(job, ClusterSpec::TaskMap(tasks.begin(), tasks.end())));
  }
  return spec;
}

std::vector<std::string> TensorFlowClusterSpec::jobs() const {
  std::vector<std::string> names;
  names.reserve(jobs_.size());
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

absl::StatusOr<const TensorFlowClusterSpec::Tasks*> TensorFlowClusterSpec::Find(
    const OrderedJson& job) const {
  if (job.is_structured()) return Unhashable(job);
  for (const auto& [name, tasks] : jobs_) {
    if (job.is_string() && job.get_ref<const std::string&>() == name) return &tasks;
  }
  return PythonError("ValueError", absl::StrCat("No such job in cluster: ", PythonReprOf(job)));
}

absl::StatusOr<OrderedJson> TensorFlowClusterSpec::ListOf(const Tasks& tasks) {
  if (tasks.empty()) return PythonError("ValueError", "max() arg is an empty sequence");
  const int64_t length = int64_t{std::max_element(tasks.begin(), tasks.end())->first} + 1;
  if (length > ClusterSpec::kMaxListedTasks) {
    return absl::ResourceExhaustedError(absl::StrCat("a task has index ", length - 1,
                                                     "; a list is made up to index ",
                                                     ClusterSpec::kMaxListedTasks - 1, " only"));
  }
  OrderedJson list(OrderedJson::array_t(static_cast<size_t>(std::max<int64_t>(length, 0))));
  for (const auto& [index, address] : tasks) {
    const int64_t place = index < 0 ? index + length : index;
    if (place < 0) return PythonError("IndexError", "list assignment index out of range");
    list[static_cast<size_t>(place)] = address;
  }
  return list;
}

absl::StatusOr<OrderedJson> TensorFlowClusterSpec::DictOf(const Tasks& tasks) {
  if (IsDense(tasks)) return ListOf(tasks);
  OrderedJson dict = OrderedJson::object();
  auto& members = dict.get_ref<Members&>();
  for (const auto& [index, address] : Sorted(tasks)) {
    members.emplace_back(absl::StrCat(index), address);
  }
  return dict;
}

absl::StatusOr<OrderedJson> TensorFlowClusterSpec::AsDict() const {
  OrderedJson dict = OrderedJson::object();
  auto& members = dict.get_ref<Members&>();
  for (const auto& [job, tasks] : jobs_) {
    MILLRACE_ASSIGN_OR_RETURN(OrderedJson value, DictOf(tasks));
    members.emplace_back(job, std::move(value));
  }
  return dict;
}

absl::StatusOr<OrderedJson> TensorFlowClusterSpec::JobTasks(const OrderedJson& job) const {
  MILLRACE_ASSIGN_OR_RETURN(const Tasks* tasks, Find(job));
  return ListOf(*tasks);
}

absl::StatusOr<std::string> TensorFlowClusterSpec::Repr() const {
  std::vector<std::string> items;
  for (const auto& [job, tasks] : Sorted(jobs_)) {
    std::string text;
    if (IsDense(tasks)) {
      MILLRACE_ASSIGN_OR_RETURN(const OrderedJson list, ListOf(tasks));
      text = PythonReprOf(list);
    } else {
      const auto append = [](std::string* out, const auto& task) {
        absl::StrAppend(out, task.first, ": ", PythonRepr(task.second));
      };
      text = absl::StrCat("{", absl::StrJoin(Sorted(tasks), ", ", append), "}");
    }
    items.push_back(absl::StrCat(PythonRepr(job), ": ", text));
  }
  return absl::StrCat("ClusterSpec({", absl::StrJoin(items, ", "), "})");
}

absl::StatusOr<int> TensorFlowClusterSpec::NumTasks(const OrderedJson& job) const {
  MILLRACE_ASSIGN_OR_RETURN(const Tasks* tasks, Find(job));
  return static_cast<int>(tasks->size());
}

absl::StatusOr<std::vector<int>> TensorFlowClusterSpec::TaskIndices(const OrderedJson& job) const {
  MILLRACE_ASSIGN_OR_RETURN(const Tasks* tasks, Find(job));
  std::vector<int> indices;
  for (const auto& [index, address] : Sorted(*tasks)) indices.push_back(index);
  return indices;
}

absl::StatusOr<std::string> TensorFlowClusterSpec::TaskAddress(const OrderedJson& job,
                                                               const OrderedJson& index) const {
  MILLRACE_ASSIGN_OR_RETURN(const Tasks* tasks, Find(job));
  if (index.is_structured()) return Unhashable(index);
  // As keys of a dict True is 1 and 2.0 is 2, but no string is a number.
  const bool whole = index.is_boolean() || index.is_number_integer() ||
                     (index.is_number() && index == OrderedJson(std::trunc(index.get<double>())));
  if (whole) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t number, PythonIntOf(index));
    for (const auto& [task, address] : *tasks) {
      if (task == number) return address;
    }
  }
  return PythonError("ValueError", absl::StrCat("No task with index ", PythonReprOf(index),
                                                " in job ", PythonReprOf(job)));
}

bool TensorFlowClusterSpec::Equals(const TensorFlowClusterSpec& other) const {
  return Copy().jobs_ == other.Copy().jobs_;
}

bool TensorFlowClusterSpec::EqualsDict(const OrderedJson& other) const {
  if (!other.is_object() || other.size() != jobs_.size()) return false;
  return std::all_of(jobs_.begin(), jobs_.end(), [&other](const auto& job) {
    const auto found = other.find(job.first);
    if (found == other.end() || !found->is_object()) return false;
    std::map<int64_t, const OrderedJson*> tasks;
    for (const auto& [key, address] : found->template get_ref<const Members&>()) {
      const std::optional<int64_t> index = PythonInt(key);
      if (!index.has_value()) return false;
      tasks[*index] = &address;
    }
    return tasks.size() == job.second.size() &&
           std::all_of(job.second.begin(), job.second.end(), [&tasks](const auto& task) {
             const auto at = tasks.find(task.first);
             return at != tasks.end() && *at->second == OrderedJson(task.second);
           });
  });
}

}  // namespace millrace
