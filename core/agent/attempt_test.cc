#include "core/agent/attempt.h"

#include <memory>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(AttemptTest, ItsGpusAreClaimedOnce) {
  Attempt attempt;
  EXPECT_TRUE(attempt.BeginGpuClaim());
  EXPECT_FALSE(attempt.BeginGpuClaim());
  EXPECT_FALSE(attempt.has_gpus());
  attempt.OnGpusClaimed();
  EXPECT_TRUE(attempt.has_gpus());
}

TEST(AttemptTest, PublishesWhatTheProgramAndItsSidecarsPublish) {
  Attempt attempt;
  EXPECT_FALSE(attempt.Published().has_value());
  attempt.OnSidecarUrl("tensorboard", "http://a:1");
  ASSERT_TRUE(attempt.Published().has_value());
  EXPECT_EQ(attempt.Published()->other().at("tensorboard"), "http://a:1");
  v1::NodeEndpoints endpoints;
  (*endpoints.mutable_other())["debugger"] = "tcp://a:2";
  attempt.OnEndpoints(endpoints);
  EXPECT_EQ(attempt.Published()->other_size(), 2);
  attempt.OnSidecarUrl("tensorboard", "");
  EXPECT_EQ(attempt.Published()->other_size(), 1);
  attempt.OnSidecarUrl("tensorboard", "http://a:1");
  attempt.StopSidecars();
  EXPECT_EQ(attempt.Published()->other_size(), 1);
}

TEST(AttemptTest, OneThatWasNeverLaunchedLeavesNothingButItsError) {
  Attempt attempt;
  attempt.Push(Json{{"push", "end_feed"}});
  EXPECT_FALSE(attempt.alive());
  EXPECT_EQ(attempt.Retire(absl::ResourceExhaustedError("no GPU")), nullptr);
  EXPECT_THAT(attempt.error(), StatusIs(absl::StatusCode::kResourceExhausted, "no GPU"));
}

}  // namespace
}  // namespace millrace
