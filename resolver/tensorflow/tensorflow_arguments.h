// File: resolver/tensorflow/tensorflow_arguments.h
//
// A resolver's description in JSON as the arguments of TensorFlow's constructor: which it refuses,
// with which exception, and which it converts. Members of a wrong type that are not named here are
// INVALID_ARGUMENT of the common reading (resolver/resolver_from_json.h).
//
// Defines: ReadTensorFlowStaticCluster(), ConvertTensorFlowTfConfigArguments(),
// CheckTensorFlowSlurmArguments(), CheckTensorFlowUnionKeywords(),
// ReadTensorFlowKubernetesArguments(), TensorFlowKubernetesArguments.
//
// Thread safety: pure functions. Descriptions are objects. Errors are TensorFlowError()s.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/json.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// SimpleClusterResolver(...). Returns its cluster.
[[nodiscard]] absl::StatusOr<ClusterSpec> ReadTensorFlowStaticCluster(
    const OrderedJson& description);

// TFConfigClusterResolver(...), which applies str() and int() to task_type and task_id. Returns the
// description with these converted.
[[nodiscard]] absl::StatusOr<OrderedJson> ConvertTensorFlowTfConfigArguments(
    const OrderedJson& description);

// SlurmClusterResolver(...).
[[nodiscard]] absl::Status CheckTensorFlowSlurmArguments(const OrderedJson& description);

// UnionResolver(*resolvers, **kwargs): the keywords.
[[nodiscard]] absl::Status CheckTensorFlowUnionKeywords(const OrderedJson& description);

struct TensorFlowKubernetesArguments {
  std::vector<std::pair<std::string, std::vector<std::string>>> job_to_label_mapping;
  // Of any type, as text: it is only ever written behind an address.
  std::optional<std::string> tf_server_port;
  // What is to be read as ever; its rpc_layer is a text or null.
  OrderedJson rest;
};

// KubernetesClusterResolver(...). `known` are the members that our resolver has beyond the task's
// properties; TensorFlow's would refuse most of them.
[[nodiscard]] absl::StatusOr<TensorFlowKubernetesArguments> ReadTensorFlowKubernetesArguments(
    const OrderedJson& description, absl::Span<const absl::string_view> known);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_
