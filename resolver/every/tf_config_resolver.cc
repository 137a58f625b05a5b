#include "millrace/tf_config_resolver.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "resolver/tensorflow/tensorflow_tf_config_resolver.h"

namespace millrace {
namespace {

std::optional<std::string> ReadEnvironment() {
  const char* value = std::getenv("TF_CONFIG");
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TfConfigResolver>> TfConfigResolver::Create(
    TfConfigResolverOptions options) {
  if (options.read == nullptr) options.read = ReadEnvironment;
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowTfConfigResolver(options);
  }
  return CreateCorrect(std::move(options));
}

}  // namespace millrace
