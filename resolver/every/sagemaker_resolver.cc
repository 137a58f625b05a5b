#include "millrace/sagemaker_resolver.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "resolver/tensorflow/tensorflow_cloud_resolvers.h"

namespace millrace {
namespace {

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SageMakerResolver>> SageMakerResolver::Create(
    SageMakerResolverOptions options) {
  if (options.read == nullptr) options.read = ReadEnvironment;
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowSageMakerResolver(options);
  }
  return CreateCorrect(std::move(options));
}

}  // namespace millrace
