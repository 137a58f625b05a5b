// File: core/cluster_spec/cluster_spec_json.h
//
// A ClusterSpec (millrace/cluster_spec.h) from JSON that is parsed already, and the other way
// round.
//
// Defines: ClusterSpecFromJson(), ClusterSpecToJson(), and TfConfig() with more members.

#ifndef CORE_CLUSTER_SPEC_CLUSTER_SPEC_JSON_H_
#define CORE_CLUSTER_SPEC_CLUSTER_SPEC_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json_fwd.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// As ClusterSpec::FromJsonText. A Json (not OrderedJson) gives jobs sorted by name.
[[nodiscard]] absl::StatusOr<ClusterSpec> ClusterSpecFromJson(const Json& value);
[[nodiscard]] absl::StatusOr<ClusterSpec> ClusterSpecFromJson(const OrderedJson& value);

// As ClusterSpec::ToJson.
[[nodiscard]] OrderedJson ClusterSpecToJson(const ClusterSpec& spec);

// `extra` (an object) adds members at the top, such as "rpc_layer", and may replace "environment".
// Also returns INVALID_ARGUMENT if `extra` is no object or holds "cluster" or "task".
[[nodiscard]] absl::StatusOr<std::string> TfConfig(const ClusterSpec& spec,
                                                   absl::string_view task_type, int task_index,
                                                   const Json& extra);

}  // namespace millrace

#endif  // CORE_CLUSTER_SPEC_CLUSTER_SPEC_JSON_H_
