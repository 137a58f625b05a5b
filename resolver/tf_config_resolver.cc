#include "millrace/tf_config_resolver.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kVariable = "TF_CONFIG";
constexpr absl::string_view kExample =
    "{\"cluster\": {\"worker\": [\"host:port\", ...]}, \"task\": {\"type\": \"worker\", \"index\": "
    "0}}";
constexpr size_t kMaxQuotedBytes = 200;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(kVariable, ": ", what, "; it should be like ", kExample));
}

// The member, or null if it is absent or null.
const OrderedJson* Member(const OrderedJson& holder, const std::string& key) {
  const auto found = holder.find(key);
  return found == holder.end() || found->is_null() ? nullptr : &*found;
}

absl::Status WrongType(absl::string_view member, absl::string_view wanted,
                       const OrderedJson& value) {
  return Malformed(
      absl::StrCat("\"", member, "\" must be ", wanted, ", found ", JsonTypeName(value)));
}

// The member `task`, or null.
absl::StatusOr<const OrderedJson*> Task(const OrderedJson& config) {
  const OrderedJson* task = Member(config, "task");
  if (task != nullptr && !task->is_object()) return WrongType("task", "an object", *task);
  return task;
}

// An index as a resolver has it.
absl::StatusOr<int> ToIndex(int64_t index) {
  if (index >= std::numeric_limits<int>::min() && index <= std::numeric_limits<int>::max()) {
    return static_cast<int>(index);
  }
  return Malformed("\"task.index\" is over 2147483647");
}

// The variable's value, an object.
absl::StatusOr<OrderedJson> Load(const TfConfigResolverOptions::Reader& read) {
  const std::optional<std::string> text = read();
  if (!text.has_value()) return OrderedJson::object();
  if (absl::StripAsciiWhitespace(*text).empty()) {
    return Malformed(
        "the environment variable is set but empty (unset it where there is no cluster)");
  }
  absl::StatusOr<OrderedJson> config = ParseOrderedJson(*text);
  if (!config.ok()) return Malformed(config.status().message());
  if (!config->is_object()) {
    return Malformed(absl::StrCat("it must be a JSON object, found ", JsonTypeName(*config)));
  }
  return config;
}

absl::StatusOr<ClusterSpec> SpecOf(const OrderedJson& config) {
  const OrderedJson* cluster = Member(config, "cluster");
  if (cluster == nullptr) cluster = Member(config, "sparseCluster");
  if (cluster == nullptr) return ClusterSpec();
  absl::StatusOr<ClusterSpec> spec = ClusterSpecFromJson(*cluster);
  if (!spec.ok()) return Malformed(spec.status().message());
  return spec;
}

absl::StatusOr<std::optional<std::string>> TextMember(const OrderedJson& config,
                                                      const std::string& key) {
  const OrderedJson* value = Member(config, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(key, "a string", *value);
  return value->get<std::string>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TfConfigResolver>> TfConfigResolver::CreateCorrect(
    TfConfigResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  return std::unique_ptr<TfConfigResolver>(new TfConfigResolver(std::move(options)));
}

TfConfigResolver::TfConfigResolver(TfConfigResolverOptions options)
    : ResolverBase({.properties = std::move(options.properties),
                    .count_accelerators = std::move(options.count_accelerators)}),
      environment_(std::move(options.environment)),
      read_(std::move(options.read)) {}

absl::StatusOr<ClusterSpec> TfConfigResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  return SpecOf(config);
}

absl::StatusOr<std::string> TfConfigResolver::master(std::optional<std::string> task_type,
                                                     std::optional<int> task_id,
                                                     std::optional<std::string> rpc_layer) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> session_master,
                            TextMember(config, "session_master"));
  if (session_master.has_value()) return *session_master;
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, SpecOf(config));
  if (!task_type.has_value() && !task_id.has_value() && spec.total_tasks() <= 1) {
    return std::string();
  }
  MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
  if (!rpc_layer.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
  }
  if (!task_type.has_value() || !task_id.has_value()) return std::string();
  MILLRACE_ASSIGN_OR_RETURN(const std::string address, spec.TaskAddress(*task_type, *task_id));
  return FormatMasterUrl(address, rpc_layer.value_or(""));
}

absl::StatusOr<std::optional<std::string>> TfConfigResolver::environment() {
  if (environment_.has_value()) return environment_;
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> environment,
                            TextMember(config, "environment"));
  return environment.value_or("");
}

absl::StatusOr<std::optional<std::string>> TfConfigResolver::SourceTaskType() {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* task, Task(config));
  const OrderedJson* type = task == nullptr ? nullptr : Member(*task, "type");
  if (type == nullptr) return std::nullopt;
  if (!type->is_string()) return WrongType("task.type", "a string", *type);
  return type->get<std::string>();
}

absl::StatusOr<std::optional<int>> TfConfigResolver::SourceTaskId() {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* task, Task(config));
  const OrderedJson* index = task == nullptr ? nullptr : Member(*task, "index");
  if (index == nullptr) return std::nullopt;
  if (!index->is_number_integer() && !index->is_string()) {
    return WrongType("task.index", "an integer", *index);
  }
  const std::optional<int64_t> number =
      PythonInt(index->is_string() ? index->get<std::string>() : DumpJson(*index));
  if (!number.has_value() || *number < 0) {
    return Malformed(absl::StrCat("\"task.index\" must be an integer from 0 on, found ",
                                  Ellipsize(EscapeControls(DumpJson(*index)), kMaxQuotedBytes)));
  }
  return ToIndex(*number);
}

absl::StatusOr<std::optional<std::string>> TfConfigResolver::SourceRpcLayer() {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load(read_));
  return TextMember(config, "rpc_layer");
}

}  // namespace millrace
