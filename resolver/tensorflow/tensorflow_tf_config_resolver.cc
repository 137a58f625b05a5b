#include "resolver/tensorflow/tensorflow_tf_config_resolver.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_base.h"
#include "resolver/tensorflow/tensorflow_cluster_spec.h"

namespace millrace {
namespace {

absl::StatusOr<ClusterSpec> SpecOf(const OrderedJson& config) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* cluster, PythonItem(config, "cluster"));
  if (cluster == nullptr) return ClusterSpec();
  MILLRACE_ASSIGN_OR_RETURN(const TensorFlowClusterSpec spec,
                            TensorFlowClusterSpec::FromJson(*cluster));
  return spec.ToClusterSpec();
}

// str(config[key]); None if it is absent or null.
absl::StatusOr<std::optional<std::string>> TextOf(const OrderedJson& config,
                                                  absl::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* value, PythonItem(config, key));
  if (value == nullptr || value->is_null()) return std::nullopt;
  return PythonStrOf(*value);
}

// config["task"][member], null if there is none.
absl::StatusOr<const OrderedJson*> TaskItem(const OrderedJson& config, absl::string_view member) {
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* task, PythonItem(config, "task"));
  if (task == nullptr) return nullptr;
  return PythonItem(*task, member);
}

// Whether TensorFlow takes the cluster for one that needs no master: it has no job, or one with a
// single task. Fails for one without tasks.
absl::StatusOr<bool> IsLocal(const ClusterSpec& spec) {
  const std::vector<std::string> jobs = spec.jobs();
  if (jobs.size() != 1) return jobs.empty();
  MILLRACE_ASSIGN_OR_RETURN(const OrderedJson tasks,
                            TensorFlowClusterSpec::From(spec).JobTasks(jobs.front()));
  return tasks.size() == 1;
}

class TensorFlowTfConfigResolver final : public AsTensorFlow<TfConfigResolver> {
 public:
  explicit TensorFlowTfConfigResolver(TfConfigResolverOptions options)
      : AsTensorFlow(options),
        environment_(std::move(options.environment)),
        read_(std::move(options.read)) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load());
    return SpecOf(config);
  }

  // A single task has no master even if it is asked for.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type,
                                     std::optional<int> task_id,
                                     std::optional<std::string> rpc_layer) override {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load());
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> session_master,
                              TextOf(config, "session_master"));
    if (session_master.has_value()) return *session_master;
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, SpecOf(config));
    MILLRACE_ASSIGN_OR_RETURN(const bool local, IsLocal(spec));
    if (local) return std::string();
    MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
    if (!rpc_layer.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                              TaskAddressAsTensorFlow(spec, task_type, task_id));
    return FormatMasterUrl(address, rpc_layer.value_or(""));
  }

  // Of a task that is known nothing is counted: the devices of a process that has not joined a
  // cluster carry no job.
  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string> task_type,
                                                              std::optional<int> task_id) override {
    MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
    return AsTensorFlow::num_accelerators(std::move(task_type), task_id);
  }

  absl::StatusOr<std::optional<std::string>> environment() override { return environment_; }

 protected:
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load());
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* type, TaskItem(config, "type"));
    if (type == nullptr) return std::nullopt;
    return PythonStrOf(*type);  // "None" if it is null
  }

  absl::StatusOr<std::optional<int>> SourceTaskId() override {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load());
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson* index, TaskItem(config, "index"));
    if (index == nullptr) return std::nullopt;
    MILLRACE_ASSIGN_OR_RETURN(const int64_t number, PythonIntOf(*index));
    if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError("TF_CONFIG: \"task.index\" does not fit 32 bits");
    }
    return static_cast<int>(number);
  }

  absl::StatusOr<std::optional<std::string>> SourceRpcLayer() override {
    MILLRACE_ASSIGN_OR_RETURN(const OrderedJson config, Load());
    return TextOf(config, "rpc_layer");
  }

 private:
  // The variable's value, which may be of any type.
  absl::StatusOr<OrderedJson> Load() const {
    const std::optional<std::string> text = read_();
    if (!text.has_value()) return OrderedJson::object();
    return ParsePythonJson(*text);
  }

  const std::optional<std::string> environment_;
  const TfConfigResolverOptions::Reader read_;
};

}  // namespace

std::unique_ptr<TfConfigResolver> MakeTensorFlowTfConfigResolver(TfConfigResolverOptions options) {
  return std::make_unique<TensorFlowTfConfigResolver>(std::move(options));
}

}  // namespace millrace
