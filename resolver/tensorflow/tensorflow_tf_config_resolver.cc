#include "resolver/tensorflow/tensorflow_tf_config_resolver.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_config_base.h"

namespace millrace {
namespace {

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

std::unique_ptr<TfConfigResolver> MakeTensorFlowTfConfigResolver(TfConfigResolverOptions options) {
  return std::make_unique<TensorFlowTfConfigResolver>(options);
}

}  // namespace millrace
