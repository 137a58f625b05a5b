// File: resolver/merging_resolver.h
//
// The UnionResolver (millrace/union_resolver.h), and the merging of ClusterSpecs by given rules.
//
// Defines: MergingResolver, MakeMergingResolver(), MergeRules, OurMergeRules(), Merge().

#ifndef RESOLVER_MERGING_RESOLVER_H_
#define RESOLVER_MERGING_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"
#include "millrace/union_resolver.h"

namespace millrace {

struct MergeRules {
  // Whether a job without tasks in one spec makes the job sparse in all.
  bool empty_jobs_are_sparse = false;
  // The error for indices that two specs have of a sparse job; ascending, at least one.
  absl::Status (*duplicates)(const std::string& job, const std::vector<int>& indices) = nullptr;
};

// They do not; ALREADY_EXISTS.
[[nodiscard]] MergeRules OurMergeRules();

// What MergeClusterSpecs() does.
[[nodiscard]] absl::StatusOr<ClusterSpec> Merge(const std::vector<ClusterSpec>& specs,
                                                const MergeRules& rules);

class MergingResolver : public UnionResolver {
 public:
  MergingResolver(UnionResolverOptions options, const MergeRules& rules);

  absl::StatusOr<ClusterSpec> cluster_spec() override;
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override;
  absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;
  absl::StatusOr<std::optional<std::string>> environment() override;
  absl::StatusOr<std::optional<std::string>> task_type() override;
  absl::StatusOr<std::optional<int>> task_id() override;
  absl::StatusOr<std::optional<std::string>> rpc_layer() override;
  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override;

 protected:
  [[nodiscard]] const std::vector<std::unique_ptr<ClusterResolver>>& resolvers() const {
    return resolvers_;
  }
  [[nodiscard]] const MergeRules& rules() const { return rules_; }

 private:
  // One spec of each resolver, or the first error.
  absl::StatusOr<std::vector<ClusterSpec>> AskAll();

  const std::vector<std::unique_ptr<ClusterResolver>> resolvers_;
  const MergeRules rules_;
};

// What UnionResolver::Create() makes with kCorrect.
[[nodiscard]] absl::StatusOr<std::unique_ptr<UnionResolver>> MakeMergingResolver(
    UnionResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_MERGING_RESOLVER_H_
