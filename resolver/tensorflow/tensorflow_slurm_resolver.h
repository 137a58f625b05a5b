// File: resolver/tensorflow/tensorflow_slurm_resolver.h
//
// TensorFlow's SlurmClusterResolver, bug for bug: what SlurmResolver::Create() makes with
// ResolverBehavior::kTensorFlow.
//
// Defines: MakeTensorFlowSlurmResolver().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_SLURM_RESOLVER_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_SLURM_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/slurm_resolver.h"

namespace millrace {

// `options.read`, `write` and `count_gpus` are set. Returns the errors of its constructor, but
// RESOURCE_EXHAUSTED for more than kMaxTasks.
[[nodiscard]] absl::StatusOr<std::unique_ptr<SlurmResolver>> MakeTensorFlowSlurmResolver(
    SlurmResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_SLURM_RESOLVER_H_
