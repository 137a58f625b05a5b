#include "core/agent/link/start_params.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json Params(Json from_environment) {
  return {{"coordinator",
           {{"address", "0.0.0.0:7000"},
            {"ca_pem", "-----BEGIN CERTIFICATE-----"},
            {"identity_pem", "-----BEGIN CERTIFICATE----- PRIVATE KEY-----"},
            {"token", "secret"}}},
          {"from_environment", std::move(from_environment)}};
}

const std::vector<std::string>& Environment() {
  static const auto* const environment =
      new std::vector<std::string>{"SLURM_PROCID=3",   "SLURM_PROCID_OF_ANOTHER=4",
                                   "ADDRESS=10.0.0.1", "ADDRESS6=fd00::1",
                                   "NOTHING=",         "TEXT=three",
                                   "NEGATIVE=-1",      "LARGE=99999999999",
                                   "INJECTED=a b:80"};
  return *environment;
}

TEST(ParamsFromEnvironmentTest, TakesThePlaceOfAnAgentFromItsVariables) {
  const absl::StatusOr<Json> params = ParamsFromEnvironment(
      Params({{"executor_id", "SLURM_PROCID"}, {"coordinator_host", "ADDRESS"}}), Environment());
  ASSERT_THAT(params, IsOk());
  const absl::StatusOr<StartParams> start = ParseStartParams(*params);
  ASSERT_THAT(start, IsOk());
  EXPECT_EQ(start->executor_id, 3);
  EXPECT_EQ(start->coordinator.address, "10.0.0.1:7000");

  const absl::StatusOr<Json> other =
      ParamsFromEnvironment(Params({{"coordinator_host", "ADDRESS6"}}), Environment());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ((*other)["coordinator"]["address"], "[fd00::1]:7000");
  EXPECT_FALSE(other->contains("executor_id"));
}

TEST(ParamsFromEnvironmentTest, LeavesOtherParametersAlone) {
  Json params = Params(Json::object());
  EXPECT_THAT(ParamsFromEnvironment(params, {}), IsOkAndHolds(params));
  params.erase("from_environment");
  EXPECT_THAT(ParamsFromEnvironment(params, {}), IsOkAndHolds(params));
  EXPECT_THAT(ParamsFromEnvironment(Json(3), {}), IsOkAndHolds(Json(3)));
}

TEST(ParamsFromEnvironmentTest, NamesAVariableThatIsNotSet) {
  for (const char* name : {"SLURM_PROCI", "SLURM_PROCID=3", "", "NONE"}) {
    EXPECT_THAT(ParamsFromEnvironment(Params({{"executor_id", name}}), Environment()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not set")))
        << name;
  }
}

TEST(ParamsFromEnvironmentTest, RefusesWhatIsNone) {
  const auto refused = [](Json from_environment, const std::string& what) {
    EXPECT_THAT(ParamsFromEnvironment(Params(std::move(from_environment)), Environment()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(what), Not(HasSubstr("secret")))))
        << what;
  };
  for (const char* name : {"NOTHING", "TEXT", "NEGATIVE", "LARGE"}) {
    refused({{"executor_id", name}}, name);
  }
  refused({{"coordinator_host", "NOTHING"}}, "NOTHING");
  refused({{"coordinator_host", "INJECTED"}}, "INJECTED");
  refused({{"token", "TEXT"}}, "token");
  refused({{"executor_id", 3}}, "executor_id");
  refused(Json(3), "from_environment");
  Json params = Params({{"coordinator_host", "ADDRESS"}});
  params["coordinator"].erase("token");
  EXPECT_THAT(ParamsFromEnvironment(params, Environment()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token")));
}

}  // namespace
}  // namespace millrace
