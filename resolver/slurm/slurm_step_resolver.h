// File: resolver/slurm/slurm_step_resolver.h
//
// A SlurmResolver (millrace/slurm_resolver.h) that answers from a step which has been read.
//
// Defines: SlurmStepResolver, MakeSlurmStepResolver().

#ifndef RESOLVER_SLURM_SLURM_STEP_RESOLVER_H_
#define RESOLVER_SLURM_SLURM_STEP_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"
#include "millrace/slurm_resolver.h"
#include "resolver/slurm/slurm_step.h"

namespace millrace {

class SlurmStepResolver : public SlurmResolver {
 public:
  // `options.write` is set.
  SlurmStepResolver(const SlurmResolverOptions& options, SlurmStep step);

  absl::StatusOr<ClusterSpec> cluster_spec() override;
  absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;
  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override;
  [[nodiscard]] SlurmTaskInfo GetTaskInfo() const override;
  [[nodiscard]] absl::StatusOr<std::string> VisibleDevices() const override;

 protected:
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;

  [[nodiscard]] const SlurmStep& step() const { return step_; }
  // Sets CUDA_VISIBLE_DEVICES if SlurmResolverOptions::auto_set_gpu says so.
  [[nodiscard]] absl::Status WriteVisibleDevices() const;

 private:
  const SlurmStep step_;
  const SlurmResolverOptions::Writer write_;  // empty: does not set CUDA_VISIBLE_DEVICES
};

// What SlurmResolver::Create() makes with kCorrect. `options.read`, `write` and `count_gpus` are
// set.
[[nodiscard]] absl::StatusOr<std::unique_ptr<SlurmResolver>> MakeSlurmStepResolver(
    const SlurmResolverOptions& options);

}  // namespace millrace

#endif  // RESOLVER_SLURM_SLURM_STEP_RESOLVER_H_
