// File: millrace/cluster_spec.h
//
// The members of a cluster: which job has which tasks at which addresses, with the semantics of
// tf.train.ClusterSpec.
//
// Defines: ClusterSpec, TfConfig(), ClusterSpecDiff, DiffClusterSpecs().
//
//   ClusterSpec spec;
//   MILLRACE_RETURN_IF_ERROR(spec.AddJob("ps", {"h0:1"}));
//   MILLRACE_RETURN_IF_ERROR(spec.AddJob("worker", {"h1:1", "h2:1"}));
//   spec.TaskAddress("worker", 1);   // "h2:1"
//   spec.AsText();                   // ClusterSpec({'ps': ['h0:1'], 'worker': ['h1:1', 'h2:1']})
//   spec.ToJson();                   // {"ps":["h0:1"],"worker":["h1:1","h2:1"]}
//
// A job is *dense* if it has at least one task and its indices are 0..n-1; dense jobs appear as
// lists, all others (gaps, no task) as maps from index to address. That depends on the tasks, never
// on how the job was built. Addresses are not checked: any string is one.
//
// Where it departs from TensorFlow: a negative index is refused (there it makes later calls wrong
// or fail); JobTasks() of a job without tasks is empty (there it fails with an unrelated message).

#ifndef MILLRACE_CLUSTER_SPEC_H_
#define MILLRACE_CLUSTER_SPEC_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A value: copyable, movable, comparable. Thread safety: const methods may run concurrently.
class ClusterSpec {
 public:
  using TaskList = std::vector<std::string>;   // index = position
  using TaskMap = std::map<int, std::string>;  // index -> address
  using Tasks = std::variant<TaskList, TaskMap>;
  using JobList = std::vector<std::pair<std::string, Tasks>>;

  // The largest index + 1 for which JobTasks() makes a list. Larger indices are legal elsewhere.
  static constexpr int kMaxListedTasks = 1 << 20;

  // A spec without jobs.
  ClusterSpec() = default;

  // Jobs in the order of `jobs`. Errors as AddJob().
  [[nodiscard]] static absl::StatusOr<ClusterSpec> Create(const JobList& jobs);

  // Parses {"job": ["address", ...], "job": {"index": "address", ...}, ...}; the text's order of
  // jobs is kept. Index keys are read as Python's int() reads ASCII text: white space around it, a
  // sign, leading zeros and single underscores between digits are allowed; if two keys are the same
  // number, the later one wins.
  //
  // Returns INVALID_ARGUMENT, naming the job, if the text is no such JSON, an address is no string,
  // a key is no integer or is outside 0..2^31-1; RESOURCE_EXHAUSTED over 64 MiB.
  [[nodiscard]] static absl::StatusOr<ClusterSpec> FromJsonText(absl::string_view text);

  // Adds a job with tasks 0..n-1, or with these indices; it may have none.
  // Returns ALREADY_EXISTS if there is such a job, INVALID_ARGUMENT for a negative index. The spec
  // is unchanged on error.
  [[nodiscard]] absl::Status AddJob(absl::string_view job, TaskList tasks);
  [[nodiscard]] absl::Status AddSparseJob(absl::string_view job, TaskMap tasks);

  // Sets the address of one task, adding the job and the task where needed.
  // Returns INVALID_ARGUMENT for a negative index.
  [[nodiscard]] absl::Status SetTask(absl::string_view job, int index, absl::string_view address);

  // No job at all. A job without tasks counts as a job.
  [[nodiscard]] bool empty() const { return jobs_.empty(); }

  // Names of the jobs, in the order in which they were added.
  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool HasJob(absl::string_view job) const { return index_.contains(job); }

  // Number of tasks that are defined, over all jobs.
  [[nodiscard]] size_t total_tasks() const;

  // The methods below return NOT_FOUND, "No such job in cluster: 'x'", for an unknown job.

  // Number of tasks that are defined (not the largest index + 1).
  [[nodiscard]] absl::StatusOr<int> NumTasks(absl::string_view job) const;
  // Indices in ascending order.
  [[nodiscard]] absl::StatusOr<std::vector<int>> TaskIndices(absl::string_view job) const;
  // Also NOT_FOUND, "No task with index 7 in job 'x'".
  [[nodiscard]] absl::StatusOr<std::string> TaskAddress(absl::string_view job, int index) const;
  // One entry per index from 0 to the largest, nullopt in the gaps.
  // Also RESOURCE_EXHAUSTED if the largest index is kMaxListedTasks or more.
  [[nodiscard]] absl::StatusOr<std::vector<std::optional<std::string>>> JobTasks(
      absl::string_view job) const;
  // All tasks by index. The pointer is valid until the spec changes.
  [[nodiscard]] absl::StatusOr<const TaskMap*> TaskMapOf(absl::string_view job) const;

  // Jobs in order; TaskList for a dense job, TaskMap for every other one.
  [[nodiscard]] JobList AsDict() const;

  // {"job": [...] or {"0": ...}} by the density rule, jobs in order, on one line.
  [[nodiscard]] std::string ToJson() const;

  // What Python's repr() prints: jobs sorted by name, strings quoted as Python quotes them.
  [[nodiscard]] std::string AsText() const;

  // Same jobs with the same tasks; the order of the jobs does not matter.
  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b);

 private:
  absl::StatusOr<const TaskMap*> Find(absl::string_view job) const;

  std::vector<std::pair<std::string, TaskMap>> jobs_;  // in order of insertion
  // Name to position in jobs_, for each of them.
  std::map<std::string, size_t, std::less<>> index_;
};

// The value of the environment variable TF_CONFIG for one task:
//
//   {"cluster": ..., "task": {"type": "worker", "index": 1}, "environment": "cloud"}
//
// The task need not be in the spec: an evaluator never is.
// Returns INVALID_ARGUMENT if task_index is negative.
[[nodiscard]] absl::StatusOr<std::string> TfConfig(const ClusterSpec& spec,
                                                   absl::string_view task_type, int task_index);

// What changed between two specs. Each list is sorted by job, then index.
struct ClusterSpecDiff {
  struct Task {
    std::string job;
    int index = 0;
    std::string address;
    friend bool operator==(const Task&, const Task&) = default;
  };
  struct Move {
    std::string job;
    int index = 0;
    std::string from;
    std::string to;
    friend bool operator==(const Move&, const Move&) = default;
  };

  std::vector<std::string> jobs_added;  // names, with or without tasks
  std::vector<std::string> jobs_removed;
  std::vector<Task> added;    // tasks that only the new spec has, those of new jobs included
  std::vector<Task> removed;  // tasks that only the old spec has
  std::vector<Move> moved;    // tasks in both, at another address

  // The two specs are equal.
  [[nodiscard]] bool empty() const;
  // "added worker:2 h3:1; removed ps:0 h0:1; moved worker:1 h2:1 -> h9:1", or "no change".
  [[nodiscard]] std::string ToString() const;
};

[[nodiscard]] ClusterSpecDiff DiffClusterSpecs(const ClusterSpec& from, const ClusterSpec& to);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_SPEC_H_
