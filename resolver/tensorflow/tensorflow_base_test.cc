#include "resolver/tensorflow/tensorflow_base.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/resolver_base.h"
#include "millrace/tensorflow_error.h"
#include "resolver/scripted_resolver.h"

namespace millrace {
namespace {

using ::testing::Optional;

TEST(AsTensorFlowTest, DoesNotLetAnEmptyLayerRemoveThePrefix) {
  AsTensorFlow<ScriptedResolver> resolver(
      TwoWorkers(), TaskProperties{.task_type = "worker", .rpc_layer = "grpc"});
  EXPECT_THAT(resolver.master(std::nullopt, 0, ""), IsOkAndHolds("grpc://a:1"));
  const auto missing = resolver.master(std::nullopt, -1);
  EXPECT_EQ(missing.status().message(), "No task with index -1 in job 'worker'");
  EXPECT_THAT(TensorFlowErrorClass(missing.status()), Optional(std::string("ValueError")));
}

TEST(AsTensorFlowTest, FindsNoDevicesOfATaskInAProcessThatHasNotJoined) {
  AsTensorFlow<ScriptedResolver> resolver(TwoWorkers(),
                                          TaskProperties{.task_type = "worker", .task_id = 1});
  EXPECT_THAT(resolver.num_accelerators(), IsOkAndHolds(std::map<std::string, int>{{"GPU", 2}}));
  EXPECT_THAT(resolver.num_accelerators("worker"),
              IsOkAndHolds(std::map<std::string, int>{{"GPU", 2}}));
  EXPECT_THAT(resolver.num_accelerators("worker", 1), IsOkAndHolds(std::map<std::string, int>()));
}

TEST(AsTensorFlowTest, TakesANegativeTaskId) {
  AsTensorFlow<ScriptedResolver> resolver(TwoWorkers());
  EXPECT_THAT(resolver.set_task_id(-1), IsOk());
  EXPECT_THAT(resolver.task_id(), IsOkAndHolds(Optional(-1)));
}

TEST(TaskAddressAsTensorFlowTest, NamesNone) {
  const auto none = TaskAddressAsTensorFlow(TwoWorkers(), std::nullopt, std::nullopt);
  EXPECT_EQ(none.status().message(), "No such job in cluster: None");
  const auto no_id = TaskAddressAsTensorFlow(TwoWorkers(), "worker", std::nullopt);
  EXPECT_EQ(no_id.status().message(), "No task with index None in job 'worker'");
}

}  // namespace
}  // namespace millrace
