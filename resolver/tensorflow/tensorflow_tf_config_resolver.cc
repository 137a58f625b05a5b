#include "resolver/tensorflow/tensorflow_tf_config_resolver.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_cluster_spec.h"

namespace millrace {
namespace {

// config["task"][member], null if there is none.
absl::StatusOr<const OrderedJson*> TaskItem(const OrderedJson& config, absl::string_view member) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* task, PythonItem(config, "task"));
  if (task == nullptr) return nullptr;
  return PythonItem(*task, member);
}

class TensorFlowTfConfigResolver final
    : public AsTensorFlowConfig<TfConfigResolver, TfConfigResolverOptions> {
 public:
  explicit TensorFlowTfConfigResolver(const TfConfigResolverOptions& options)
      : AsTensorFlowConfig(options), read_(options.read) {}

 protected:
  // The variable's value, which may be of any type.
  absl::StatusOr<TensorFlowConfig> Load() const override {
    const std::optional<std::string> text = read_();
    if (!text.has_value()) return TensorFlowConfig{OrderedJson::object()};
    MILLRACE_ASSIGN_OR_RETURN(OrderedJson value, ParsePythonJson(*text));
    return TensorFlowConfig{std::move(value)};
  }

 private:
  const TfConfigResolverOptions::Reader read_;
};

}  // namespace

std::unique_ptr<TfConfigResolver> MakeTensorFlowTfConfigResolver(
    const TfConfigResolverOptions& options) {
  return std::make_unique<TensorFlowTfConfigResolver>(options);
}

absl::StatusOr<ClusterSpec> TensorFlowConfig::Spec() const {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* cluster, PythonItem(object, "cluster"));
  if (cluster == nullptr) return ClusterSpec();
  MILLRACE_ASSIGN_OR_RETURN(const TensorFlowClusterSpec spec,
                            TensorFlowClusterSpec::FromJson(*cluster));
  return spec.ToClusterSpec();
}

absl::StatusOr<std::optional<std::string>> TensorFlowConfig::TaskType() const {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* type, TaskItem(object, "type"));
  if (type == nullptr) return std::nullopt;
  return PythonStrOf(*type);  // "None" if it is null
}

absl::StatusOr<std::optional<int>> TensorFlowConfig::TaskId() const {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* index, TaskItem(object, "index"));
  if (index == nullptr) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t number, PythonIntOf(*index));
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError("TF_CONFIG: \"task.index\" does not fit 32 bits");
  }
  return static_cast<int>(number);
}

absl::StatusOr<std::optional<std::string>> TensorFlowConfig::Text(absl::string_view key) const {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* value, PythonItem(object, key));
  if (value == nullptr || value->is_null()) return std::nullopt;
  return PythonStrOf(*value);
}

absl::StatusOr<bool> IsLocalAsTensorFlow(const ClusterSpec& spec) {
  const std::vector<std::string> jobs = spec.jobs();
  if (jobs.size() != 1) return jobs.empty();
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson tasks,
                            TensorFlowClusterSpec::From(spec).JobTasks(jobs.front()));
  return tasks.size() == 1;
}

}  // namespace millrace
