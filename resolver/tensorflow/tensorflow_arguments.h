// File: resolver/tensorflow/tensorflow_arguments.h
//
// A resolver's description in JSON as the arguments of TensorFlow's constructor: which it refuses,
// with which exception, and which it converts. Members of a wrong type that are not named here are
// INVALID_ARGUMENT of the common reading (resolver/resolver_from_json.h).
//
// Defines: TensorFlowArgumentRules(), ReadTensorFlowKubernetesArguments(),
// TensorFlowKubernetesArguments.
//
// Thread safety: pure functions. Descriptions are objects. Errors are TensorFlowError()s.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/json.h"
#include "resolver/argument_rules.h"

namespace millrace {

// Of SimpleClusterResolver(...), TFConfigClusterResolver(...), which applies str() and int() to
// task_type and task_id, SlurmClusterResolver(...) and UnionResolver(*resolvers, **kwargs).
[[nodiscard]] ArgumentRules TensorFlowArgumentRules();

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
