#include "millrace/sagemaker_resolver.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

class SageMakerResolverTest : public testing::Test {
 protected:
  // Reads `variables_`, afresh each time.
  std::unique_ptr<SageMakerResolver> Make(SageMakerResolverOptions options = {}) {
    options.read = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
    auto resolver = SageMakerResolver::Create(std::move(options));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }
  void Set(const std::string& hosts, const std::string& current) {
    variables_ = {{"SM_HOSTS", hosts}, {"SM_CURRENT_HOST", current}};
  }

  std::map<std::string, std::string> variables_;
};

TEST_F(SageMakerResolverTest, HostsAreWorkersInTheOrderOfTheNumbersInTheirNames) {
  Set(R"(["algo-2", "algo-10", "algo-1"])", "algo-10");
  const auto resolver = Make();
  EXPECT_EQ(resolver->cluster_spec()->ToJson(),
            R"({"worker":["algo-1:2223","algo-2:2223","algo-10:2223"]})");
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("worker"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(2)));
  EXPECT_THAT(resolver->rpc_layer(), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(resolver->environment(), IsOkAndHolds(Optional(std::string())));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("algo-10:2223"));
  EXPECT_THAT(resolver->master("worker", 0, "grpc"), IsOkAndHolds("grpc://algo-1:2223"));
  EXPECT_THAT(resolver->master("ps", 0), StatusIs(StatusCode::kNotFound));
}

TEST_F(SageMakerResolverTest, WhatIsSetReplacesTheVariables) {
  Set(R"(["algo-1", "algo-2"])", "algo-2");
  const auto resolver = Make(
      {.port = 7077, .properties = {.task_id = 0, .rpc_layer = "grpc"}, .environment = "cloud"});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://algo-1:7077"));
  EXPECT_THAT(resolver->environment(), IsOkAndHolds(Optional(std::string("cloud"))));
}

TEST_F(SageMakerResolverTest, ASingleHostHasAMasterOnlyIfItIsAskedFor) {
  Set(R"(["algo-1"])", "algo-1");
  const auto resolver = Make();
  EXPECT_THAT(resolver->master(), IsOkAndHolds(""));
  EXPECT_THAT(resolver->master("worker", 0), IsOkAndHolds("algo-1:2223"));
}

TEST_F(SageMakerResolverTest, SaysWhichVariableIsMissing) {
  const auto resolver = Make();
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("SM_HOSTS")));
  variables_["SM_HOSTS"] = "[]";
  for (const absl::Status& status :
       {resolver->cluster_spec().status(), resolver->task_type().status(),
        resolver->task_id().status(), resolver->master().status()}) {
    EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("SM_CURRENT_HOST"), HasSubstr("SageMaker"))));
  }
}

TEST_F(SageMakerResolverTest, RefusesWhatIsNoListOfHosts) {
  const auto resolver = Make();
  const std::map<std::string, std::string> cases = {
      {"", "SM_HOSTS"},
      {"[\"a\"", "SM_HOSTS"},
      {"{}", "must be a list"},
      {"[\"a\", 1]", "[1] must be the name"},
      {"[\"a\", \"\"]", "[1] must be the name"},
      {"[\"a\", \"b\", \"a\"]", "a is in it twice"},
      {"[]", "SM_CURRENT_HOST is a, which is not in SM_HOSTS"},
      {"[\"b\"]", "SM_CURRENT_HOST is a, which is not in SM_HOSTS"}};
  for (const auto& [hosts, said] : cases) {
    Set(hosts, "a");
    EXPECT_THAT(resolver->cluster_spec(), StatusIs(StatusCode::kInvalidArgument, HasSubstr(said)))
        << hosts;
  }
}

TEST_F(SageMakerResolverTest, RefusesOptionsThatMakeNoSense) {
  for (const int port : {0, -1, 65536}) {
    EXPECT_THAT(SageMakerResolver::Create({.port = port}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("port")));
  }
  EXPECT_THAT(SageMakerResolver::Create({.properties = {.task_id = -1}}),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(SageMakerResolverTest, CountsTheGpusOfThisHostAndAsTensorFlowNone) {
  Set(R"(["algo-1", "algo-2"])", "algo-2");
  SageMakerResolverOptions options;
  options.count_accelerators = [] { return std::map<std::string, int>{{"GPU", 2}}; };
  EXPECT_THAT(Make(options)->num_accelerators(),
              IsOkAndHolds(std::map<std::string, int>{{"GPU", 2}}));
  options.behavior = ResolverBehavior::kTensorFlow;
  EXPECT_THAT(Make(options)->num_accelerators(), IsOkAndHolds(std::map<std::string, int>()));
}

TEST_F(SageMakerResolverTest, AWatchTellsTheOneSpec) {
  Set(R"(["algo-1", "algo-2"])", "algo-2");
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  ASSERT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  EXPECT_EQ(updates.updates().front().spec.total_tasks(), 2);
}

}  // namespace
}  // namespace millrace
