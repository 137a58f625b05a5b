#include "millrace/static_resolver.h"

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::SizeIs;

std::unique_ptr<StaticResolver> Make(StaticResolverOptions options) {
  EXPECT_THAT(options.cluster_spec.AddJob("worker", {"a:1", "b:1"}), IsOk());
  absl::StatusOr<std::unique_ptr<StaticResolver>> resolver =
      StaticResolver::Create(std::move(options));
  EXPECT_THAT(resolver, IsOk());
  return *std::move(resolver);
}

TEST(StaticResolverTest, GivesTheSpecBack) {
  const auto resolver = Make({});
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"worker":["a:1","b:1"]})");
}

TEST(StaticResolverTest, MasterIsThatOfItsOwnTaskWhereNoneIsGiven) {
  const auto resolver = Make(
      {.master = "m", .properties = {.task_type = "worker", .task_id = 1, .rpc_layer = "grpc"}});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://b:1"));
  EXPECT_THAT(resolver->master("worker", 0, ""), IsOkAndHolds("a:1"));
  EXPECT_THAT(resolver->master("ps", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(StaticResolverTest, MasterIsTheGivenOneWhereTheTaskIsNotKnown) {
  const auto resolver = Make({.master = "m", .properties = {.rpc_layer = "grpc"}});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://m"));
  EXPECT_THAT(resolver->master("worker"), IsOkAndHolds("grpc://m"));
  EXPECT_THAT(Make({.properties = {.rpc_layer = "grpc"}})->master(), IsOkAndHolds(""));
}

TEST(StaticResolverTest, TensorFlowIgnoresItsOwnTaskAndKeepsThePrefix) {
  const auto resolver =
      Make({.behavior = ResolverBehavior::kTensorFlow,
            .properties = {.task_type = "worker", .task_id = 1, .rpc_layer = "grpc"}});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://"));
  EXPECT_THAT(resolver->master("worker", 0, ""), IsOkAndHolds("grpc://a:1"));
  EXPECT_EQ(resolver->master("worker", 9).status().message(),
            "No task with index 9 in job 'worker'");
  EXPECT_THAT(resolver->num_accelerators("worker", 9), IsOkAndHolds(std::map<std::string, int>()));
}

TEST(StaticResolverTest, AcceleratorsAreTheGivenOnesOrThoseOfThisHost) {
  const std::map<std::string, int> four = {{"GPU", 4}};
  EXPECT_THAT(Make({.num_accelerators = four})->num_accelerators("worker", 0), IsOkAndHolds(four));
  const auto counted = Make({.properties = {.task_type = "worker", .task_id = 0},
                             .count_accelerators = [four] { return four; }});
  EXPECT_THAT(counted->num_accelerators("worker", 0), IsOkAndHolds(four));
  EXPECT_THAT(counted->num_accelerators("worker", 1), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(StaticResolverTest, RefusesNegativeNumbers) {
  EXPECT_THAT(StaticResolver::Create({.properties = {.task_id = -1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("task_id")));
  EXPECT_THAT(StaticResolver::Create({.num_accelerators = {{{"GPU", -1}}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_accelerators")));
}

TEST(StaticResolverTest, EnvironmentIsTheGivenOne) {
  EXPECT_THAT(Make({.environment = "google"})->environment(),
              IsOkAndHolds(Optional(std::string("google"))));
}

TEST(StaticResolverTest, AWatchTellsOnce) {
  const auto resolver = Make({});
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  ASSERT_THAT(updates.updates(), SizeIs(1));
  EXPECT_EQ(updates.updates()[0].epoch, 1);
  EXPECT_THAT(updates.updates()[0].status, IsOk());
  EXPECT_THAT(resolver->Watch(nullptr), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
