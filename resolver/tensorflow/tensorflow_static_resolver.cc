#include "resolver/tensorflow/tensorflow_static_resolver.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/tensorflow_base.h"

namespace millrace {
namespace {

class TensorFlowStaticResolver final : public AsTensorFlow<StaticResolver> {
 public:
  explicit TensorFlowStaticResolver(StaticResolverOptions options)
      : AsTensorFlow(options),
        cluster_spec_(std::move(options.cluster_spec)),
        master_(std::move(options.master)),
        num_accelerators_(std::move(options.num_accelerators)) {}

  // The task that was set is not looked at, an empty argument removes no prefix, and there is a
  // prefix even before an empty master.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type,
                                     std::optional<int> task_id,
                                     std::optional<std::string> rpc_layer) override {
    if (!rpc_layer.has_value() || rpc_layer->empty()) rpc_layer = overrides().rpc_layer;
    std::string address = master_;
    if (task_type.has_value() && task_id.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(address,
                                TaskAddressAsTensorFlow(cluster_spec_, task_type, task_id));
    }
    return FormatMasterUrl(address, rpc_layer.value_or(""));
  }

  // This host's are never counted.
  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string>,
                                                              std::optional<int>) override {
    return num_accelerators_.value_or(std::map<std::string, int>());
  }

 private:
  const ClusterSpec cluster_spec_;
  const std::string master_;
  const std::optional<std::map<std::string, int>> num_accelerators_;
};

}  // namespace

std::unique_ptr<StaticResolver> MakeTensorFlowStaticResolver(StaticResolverOptions options) {
  return std::make_unique<TensorFlowStaticResolver>(std::move(options));
}

}  // namespace millrace
