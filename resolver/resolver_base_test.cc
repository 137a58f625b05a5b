#include "millrace/resolver_base.h"

#include <map>
#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/scripted_resolver.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(ResolverBaseTest, MasterIsTheAddressOfTheTaskGivenOrOfThisOne) {
  ScriptedResolver resolver(TwoWorkers(),
                            {.task_type = "worker", .task_id = 1, .rpc_layer = "grpc"});
  EXPECT_THAT(resolver.master(), IsOkAndHolds("grpc://b:1"));
  EXPECT_THAT(resolver.master("worker", 0), IsOkAndHolds("grpc://a:1"));
  EXPECT_THAT(resolver.master(std::nullopt, 0, ""), IsOkAndHolds("a:1"));
  EXPECT_THAT(resolver.master(std::nullopt, std::nullopt, "x"), IsOkAndHolds("x://b:1"));
  EXPECT_THAT(resolver.master("worker", 7),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("No task with index 7")));
}

TEST(ResolverBaseTest, MasterIsEmptyWhereTheTaskIsNotKnownAndNobodyIsAsked) {
  ScriptedResolver resolver(absl::UnavailableError("down"));
  EXPECT_THAT(resolver.master(), IsOkAndHolds(""));
  EXPECT_THAT(resolver.master("worker"), IsOkAndHolds(""));
  EXPECT_EQ(resolver.asked(), 0);
  EXPECT_THAT(resolver.master("worker", 0), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ResolverBaseTest, PropertiesAreSetAndTakenBack) {
  ScriptedResolver resolver(TwoWorkers());
  EXPECT_THAT(resolver.task_id(), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(resolver.set_task_type("worker"), IsOk());
  EXPECT_THAT(resolver.set_task_id(0), IsOk());
  EXPECT_THAT(resolver.set_rpc_layer("grpc"), IsOk());
  EXPECT_THAT(resolver.task_type(), IsOkAndHolds(Optional(std::string("worker"))));
  EXPECT_THAT(resolver.task_id(), IsOkAndHolds(Optional(0)));
  EXPECT_THAT(resolver.rpc_layer(), IsOkAndHolds(Optional(std::string("grpc"))));
  EXPECT_THAT(resolver.environment(), IsOkAndHolds(Optional(std::string())));
  EXPECT_THAT(resolver.set_task_id(std::nullopt), IsOk());
  EXPECT_THAT(resolver.task_id(), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(resolver.set_task_id(-1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ResolverBaseTest, CountsTheAcceleratorsOfItsOwnTaskOnly) {
  ScriptedResolver resolver(TwoWorkers(), {.task_type = "worker", .task_id = 1});
  const std::map<std::string, int> two_gpus = {{"GPU", 2}};
  EXPECT_THAT(resolver.num_accelerators(), IsOkAndHolds(two_gpus));
  EXPECT_THAT(resolver.num_accelerators("worker", 1), IsOkAndHolds(two_gpus));
  EXPECT_THAT(resolver.num_accelerators("worker"), IsOkAndHolds(two_gpus));
  EXPECT_THAT(resolver.num_accelerators("worker", 0),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("worker:0")));
}

TEST(ResolverBaseTest, NeedsNoTaskThatIsNotKnown) {
  EXPECT_THAT(ResolvedTaskAddress(TwoWorkers(), std::nullopt, 0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("set task_type")));
}

}  // namespace
}  // namespace millrace
