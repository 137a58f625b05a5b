#include "resolver/tensorflow/tensorflow_union_resolver.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/status_macros.h"
#include "resolver/merging_resolver.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_base.h"
#include "resolver/tensorflow/tensorflow_merge.h"

namespace millrace {
namespace {

class TensorFlowUnionResolver final : public AsTensorFlow<MergingResolver> {
 public:
  explicit TensorFlowUnionResolver(UnionResolverOptions options)
      : AsTensorFlow(std::move(options), TensorFlowMergeRules()) {}

  // Everyone is asked twice: for the kinds of the jobs, then for the tasks.
  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MILLRACE_RETURN_IF_ERROR(Ask());
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<ClusterSpec> specs, Ask());
    return Merge(specs, rules());
  }

  // Knows neither the task that was set here nor the first resolver's rpc layer.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type,
                                     std::optional<int> task_id,
                                     std::optional<std::string> rpc_layer) override {
    if (!task_type.has_value() || !task_id.has_value()) {
      return first().master(std::nullopt, std::nullopt, std::move(rpc_layer));
    }
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, cluster_spec());
    MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                              TaskAddressAsTensorFlow(spec, task_type, task_id));
    if (!rpc_layer.has_value() || rpc_layer->empty()) rpc_layer = overrides().rpc_layer;
    return FormatMasterUrl(address, rpc_layer.value_or(""));
  }

  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string> task_type,
                                                              std::optional<int> task_id) override {
    return first().num_accelerators(std::move(task_type), task_id);
  }

  // Of what was set, "" and 0 are lost (`self._task_id or ...`).
  absl::StatusOr<std::optional<std::string>> task_type() override {
    std::optional<std::string> set = overrides().task_type;
    if (set.has_value() && !set->empty()) return set;
    return first().task_type();
  }
  absl::StatusOr<std::optional<int>> task_id() override {
    const std::optional<int> set = overrides().task_id;
    if (set.has_value() && *set != 0) return set;
    return first().task_id();
  }
  absl::StatusOr<std::optional<std::string>> rpc_layer() override {
    std::optional<std::string> set = overrides().rpc_layer;
    if (set.has_value() && !set->empty()) return set;
    return first().rpc_layer();
  }

 private:
  [[nodiscard]] ClusterResolver& first() const { return *resolvers().front(); }

  absl::StatusOr<std::vector<ClusterSpec>> Ask() {
    std::vector<ClusterSpec> specs;
    for (const std::unique_ptr<ClusterResolver>& resolver : resolvers()) {
      MILLRACE_ASSIGN_OR_RETURN(ClusterSpec spec, resolver->cluster_spec());
      specs.push_back(std::move(spec));
    }
    return specs;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<UnionResolver>> MakeTensorFlowUnionResolver(
    UnionResolverOptions options) {
  if (options.resolvers.empty()) {
    return PythonError("ValueError", "At least one ClusterResolver is required.");
  }
  if (std::find(options.resolvers.begin(), options.resolvers.end(), nullptr) !=
      options.resolvers.end()) {
    return PythonError("TypeError", "All arguments must be a sub-class of `ClusterResolver.`");
  }
  return std::make_unique<TensorFlowUnionResolver>(std::move(options));
}

}  // namespace millrace
