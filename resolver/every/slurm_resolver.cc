#include "millrace/slurm_resolver.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"
#include "resolver/local_accelerators.h"
#include "resolver/slurm/slurm_step_resolver.h"
#include "resolver/tensorflow/tensorflow_slurm_resolver.h"

namespace millrace {
namespace {

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::Status WriteEnvironment(const std::string& name, const std::string& value) {
  if (::setenv(name.c_str(), value.c_str(), 1) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot set ", name));
}

absl::StatusOr<int> CountLocalGpus() {
  MILLRACE_ASSIGN_OR_RETURN(const auto accelerators, LocalAccelerators());
  const auto gpus = accelerators.find("GPU");
  return gpus == accelerators.end() ? 0 : gpus->second;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlurmResolver>> SlurmResolver::Create(SlurmResolverOptions options) {
  if (options.read == nullptr) options.read = ReadEnvironment;
  if (options.write == nullptr) options.write = WriteEnvironment;
  if (options.count_gpus == nullptr) options.count_gpus = CountLocalGpus;
  if (options.behavior == ResolverBehavior::kTensorFlow) {
    return MakeTensorFlowSlurmResolver(std::move(options));
  }
  return MakeSlurmStepResolver(options);
}

}  // namespace millrace
