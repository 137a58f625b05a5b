// SlurmResolver with ResolverBehavior::kTensorFlow.

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/slurm_resolver.h"
#include "millrace/tensorflow_error.h"
#include "resolver/slurm/slurm_resolver_fixture.h"

namespace millrace {
namespace {

using ::testing::Optional;

using Accelerators = std::map<std::string, int>;

constexpr ResolverBehavior kTensorFlow = ResolverBehavior::kTensorFlow;

class TensorFlowSlurmTest : public SlurmResolverTest {
 protected:
  void ExpectError(SlurmResolverOptions options, const std::string& python_class,
                   const std::string& message) {
    options.behavior = kTensorFlow;
    auto resolver = Create(std::move(options));
    const absl::Status status =
        resolver.ok() ? (*resolver)->cluster_spec().status() : resolver.status();
    EXPECT_EQ(status.message(), message);
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(python_class)) << status;
  }
};

TEST_F(TensorFlowSlurmTest, SlicesZeroBasedIdsAndSetsThem) {
  const auto resolver = Make({.behavior = kTensorFlow,
                              .jobs = {{{"worker", 4}, {"ps", 1}}},
                              .gpus_per_node = 4,
                              .gpus_per_task = 2});
  EXPECT_EQ(resolver->GetTaskInfo(), SlurmTaskInfo());
  EXPECT_THAT(resolver->master(), IsOkAndHolds(""));
  EXPECT_EQ(
      resolver->cluster_spec()->ToJson(),
      R"({"ps":["t02n13:8888"],"worker":["t02n13:8889","t02n41:8888","t02n41:8889","t02n43:8888"]})");
  EXPECT_EQ(environment_["CUDA_VISIBLE_DEVICES"], "2,3");
  EXPECT_EQ(resolver->GetTaskInfo(), (SlurmTaskInfo{.task_type = "worker", .task_id = 0}));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://t02n13:8889"));
  EXPECT_THAT(resolver->num_accelerators("x", 9), IsOkAndHolds(Accelerators{{"GPU", 2}}));
}

TEST_F(TensorFlowSlurmTest, DoesNotSetTheVariableWhenToldNotTo) {
  const auto resolver = Make({.behavior = kTensorFlow, .gpus_per_node = 2, .auto_set_gpu = false});
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_FALSE(environment_.contains("CUDA_VISIBLE_DEVICES"));
}

TEST_F(TensorFlowSlurmTest, TakesHostsByNameAndEachOnce) {
  environment_["SLURM_STEP_NODELIST"] = "n2,n10,n2";
  environment_["SLURM_STEP_NUM_TASKS"] = "3";
  EXPECT_EQ(SpecOf({.behavior = kTensorFlow, .gpus_per_node = 2}),
            R"({"worker":["n10:8888","n10:8889","n2:8888"]})");
}

TEST_F(TensorFlowSlurmTest, ErrorsAreThoseOfPython) {
  ExpectError({.gpus_per_node = 0}, "ValueError", "range() arg 3 must not be zero");
  ExpectError({.gpus_per_node = 1, .gpus_per_task = 1}, "RuntimeError",
              "Requested more GPUs per node than available.");
  ExpectError({.jobs = {{{"worker", 2}}}, .gpus_per_node = 2}, "RuntimeError",
              "Requested 2 tasks but only 5 were assigned.");
  ExpectError({.gpus_per_node = 2, .tasks_per_node = 0}, "ZeroDivisionError",
              "integer division or modulo by zero");
  environment_["SLURM_PROCID"] = "7";
  ExpectError({.gpus_per_node = 2}, "IndexError", "list index out of range");
  environment_["SLURM_PROCID"] = "x";
  ExpectError({}, "ValueError", "invalid literal for int() with base 10: 'x'");
  environment_["SLURM_PROCID"] = "0";
  environment_["SLURM_STEP_NODELIST"] = "";
  ExpectError({}, "ValueError", "max() arg is an empty sequence");
  environment_["SLURM_STEP_NODELIST"] = "n[1-2]x";
  ExpectError({}, "ValueError", "Invalid hostlist format \"n[1-2]x\": Invalid part: n[1-2]x");
  environment_.erase("SLURM_STEP_NODELIST");
  ExpectError({}, "RuntimeError",
              "SLURM_STEP_NODELIST not found in environment. Not running inside a SLURM step?");
  environment_.erase("SLURM_STEP_NUM_TASKS");
  ExpectError({}, "RuntimeError",
              "SLURM_STEP_NUM_TASKS not found in environment. Not running inside a SLURM step?");
}

TEST_F(TensorFlowSlurmTest, HostileSizesAreRefusedAtOnce) {
  environment_["SLURM_STEP_NODELIST"] = "n[1-2]";
  environment_["SLURM_STEP_TASKS_PER_NODE"] = "2000000000(x2)";
  EXPECT_THAT(Create({.behavior = kTensorFlow}), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(TensorFlowSlurmTest, GpusThatCannotBeCountedAreARuntimeError) {
  gpus_of_host_ = absl::UnavailableError("driver");
  ExpectError({}, "RuntimeError",
              "Could not get number of GPUs from nvidia-smi. Maybe it is missing?\nOutput: driver");
}

}  // namespace
}  // namespace millrace
