#include "core/coordinator/state/role_dealer.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Deal(const RoleOptions& options) {
  auto roles = DealRoles(options);
  EXPECT_THAT(roles, IsOk());
  std::vector<std::string> names;
  for (const NodeRole& role : *roles) names.push_back(role.ToString());
  return names;
}

TEST(RoleDealerTest, WithoutOptionsEverybodyIsAWorker) {
  EXPECT_THAT(Deal({.num_executors = 2}), ElementsAre("worker:0", "worker:1"));
}

TEST(RoleDealerTest, ParameterServersComeFirstThenMasterThenEvaluatorThenWorkers) {
  EXPECT_THAT(Deal({.num_executors = 6, .num_ps = 2, .master_node = "chief", .eval_node = true}),
              ElementsAre("ps:0", "ps:1", "chief:0", "evaluator:0", "worker:0", "worker:1"));
}

TEST(RoleDealerTest, AMasterAloneIsEnough) {
  EXPECT_THAT(Deal({.num_executors = 2, .num_ps = 1, .master_node = "master"}),
              ElementsAre("ps:0", "master:0"));
}

TEST(RoleDealerTest, ParameterServersAndEvaluatorAreNotFed) {
  EXPECT_TRUE(IsFedRole("chief"));
  EXPECT_TRUE(IsFedRole("master"));
  EXPECT_TRUE(IsFedRole("worker"));
  EXPECT_FALSE(IsFedRole("ps"));
  EXPECT_FALSE(IsFedRole("evaluator"));
  EXPECT_FALSE(IsFedRole(""));
}

TEST(RoleDealerTest, ErrorsSayWhichOptionAndWhatToDo) {
  auto refused = [](const RoleOptions& options, const std::string& text) {
    EXPECT_THAT(DealRoles(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  refused({}, "num_executors is 0");
  refused({.num_executors = -1}, "num_executors is -1");
  refused({.num_executors = (1 << 17) + 1}, "1..131072");
  refused({.num_executors = 2, .num_ps = -1}, "num_ps is -1");
  refused({.num_executors = 2, .master_node = "boss"}, "master_node is \"boss\"");
  refused({.num_executors = 1, .num_ps = 1}, "raise num_executors to at least 2");
  refused({.num_executors = 2, .num_ps = 1, .eval_node = true}, "and eval_node 1");
  refused({.num_executors = 2, .num_ps = std::numeric_limits<int>::max(), .eval_node = true},
          "none is left");
}

}  // namespace
}  // namespace millrace
