// File: resolver/slurm/slurm_resolver_fixture.h
//
// What the tests of SlurmResolver have in common: the variables of a step, and a host's GPUs. Test
// only.
//
// Defines: SlurmResolverTest.

#ifndef RESOLVER_SLURM_SLURM_RESOLVER_FIXTURE_H_
#define RESOLVER_SLURM_SLURM_RESOLVER_FIXTURE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/slurm_resolver.h"

namespace millrace {

class SlurmResolverTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SlurmResolver>> Create(SlurmResolverOptions options = {}) {
    options.read = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      if (found == environment_.end()) return std::nullopt;
      return found->second;
    };
    options.write = [this](const std::string& name, const std::string& value) {
      environment_[name] = value;
      return absl::OkStatus();
    };
    options.count_gpus = [this] { return gpus_of_host_; };
    return SlurmResolver::Create(std::move(options));
  }

  std::unique_ptr<SlurmResolver> Make(SlurmResolverOptions options = {}) {
    auto resolver = Create(std::move(options));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }

  std::string SpecOf(SlurmResolverOptions options = {}) {
    const auto resolver = Create(std::move(options));
    if (!resolver.ok()) return resolver.status().ToString();
    const auto spec = (*resolver)->cluster_spec();
    return spec.ok() ? spec->ToJson() : spec.status().ToString();
  }

  void ExpectRefused(SlurmResolverOptions options, const std::string& one,
                     const std::string& other = "") {
    EXPECT_THAT(Create(std::move(options)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(testing::HasSubstr(one), testing::HasSubstr(other))));
  }

  std::map<std::string, std::string> environment_ = {{"SLURM_PROCID", "1"},
                                                     {"SLURM_STEP_NUM_TASKS", "5"},
                                                     {"SLURM_STEP_NODELIST", "t02n13,t02n[41,43]"},
                                                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
  absl::StatusOr<int> gpus_of_host_ = 0;
};

}  // namespace millrace

#endif  // RESOLVER_SLURM_SLURM_RESOLVER_FIXTURE_H_
