// File: resolver/tensorflow/tensorflow_cluster_spec.h
//
// tf.train.ClusterSpec bug for bug: for kTensorFlow, where ClusterSpec itself departs from it
// (negative indices, jobs without tasks, arguments of wrong types).
//
// Defines: TensorFlowClusterSpec.
//
//   MILLRACE_ASSIGN_OR_RETURN(TensorFlowClusterSpec spec,
//                             TensorFlowClusterSpec::FromJson({{"w", {{"-1", "a"}}}}));
//   spec.Repr();   // ClusterSpec({'w': {-1: 'a'}})

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_CLUSTER_SPEC_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_CLUSTER_SPEC_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// A value. Arguments are JSON values that stand for Python's (python_value.h), of any type; errors
// are TensorFlowError()s. Thread safety: const methods may run concurrently.
class TensorFlowClusterSpec {
 public:
  // ClusterSpec(cluster), where `cluster` is whatever json.loads() gave.
  [[nodiscard]] static absl::StatusOr<TensorFlowClusterSpec> FromJson(const OrderedJson& cluster);
  [[nodiscard]] static TensorFlowClusterSpec From(const ClusterSpec& spec);

  // ClusterSpec(spec), and the one made of its ClusterDef: jobs and tasks are sorted.
  [[nodiscard]] TensorFlowClusterSpec Copy() const;

  // Returns INVALID_ARGUMENT, without a Python class, for a negative index, which no ClusterSpec
  // holds.
  [[nodiscard]] absl::StatusOr<ClusterSpec> ToClusterSpec() const;

  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool Truth() const { return !jobs_.empty(); }

  // Also RESOURCE_EXHAUSTED, without a class, for a list longer than ClusterSpec::kMaxListedTasks.
  [[nodiscard]] absl::StatusOr<OrderedJson> AsDict() const;
  [[nodiscard]] absl::StatusOr<OrderedJson> JobTasks(const OrderedJson& job) const;
  [[nodiscard]] absl::StatusOr<std::string> Repr() const;

  [[nodiscard]] absl::StatusOr<int> NumTasks(const OrderedJson& job) const;
  [[nodiscard]] absl::StatusOr<std::vector<int>> TaskIndices(const OrderedJson& job) const;
  [[nodiscard]] absl::StatusOr<std::string> TaskAddress(const OrderedJson& job,
                                                        const OrderedJson& index) const;

  [[nodiscard]] bool Equals(const TensorFlowClusterSpec& other) const;
  // spec == other, a dict whose keys of tasks are integers: a dict of lists never equals.
  [[nodiscard]] bool EqualsDict(const OrderedJson& other) const;

 private:
  // In order of insertion; indices are distinct.
  using Tasks = std::vector<std::pair<int, std::string>>;

  [[nodiscard]] absl::StatusOr<const Tasks*> Find(const OrderedJson& job) const;
  [[nodiscard]] static absl::StatusOr<OrderedJson> ListOf(const Tasks& tasks);
  [[nodiscard]] static absl::StatusOr<OrderedJson> DictOf(const Tasks& tasks);

  std::vector<std::pair<std::string, Tasks>> jobs_;
};

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_CLUSTER_SPEC_H_
