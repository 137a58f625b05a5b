#include "core/coordinator/state/restart_policy.h"

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(RestartPolicyTest, TheBackoffDoublesUpToItsLimit) {
  const RestartPolicy policy{.max_restarts = 10};
  EXPECT_EQ(RestartBackoff(policy, 0, 0.5), absl::Seconds(1));
  EXPECT_EQ(RestartBackoff(policy, 1, 0.5), absl::Seconds(2));
  EXPECT_EQ(RestartBackoff(policy, 4, 0.5), absl::Seconds(16));
  EXPECT_EQ(RestartBackoff(policy, 5, 0.5), absl::Seconds(30));
  EXPECT_EQ(RestartBackoff(policy, 1 << 30, 0.5), absl::Seconds(30));
}

TEST(RestartPolicyTest, TheBackoffIsSpreadByAFifth) {
  const RestartPolicy policy{.initial_backoff = absl::Seconds(10)};
  EXPECT_EQ(RestartBackoff(policy, 0, 0), absl::Seconds(8));
  EXPECT_LT(RestartBackoff(policy, 0, 0.999), absl::Seconds(12));
  EXPECT_GT(RestartBackoff(policy, 0, 0.999), absl::Seconds(11.9));
}

TEST(RestartPolicyTest, WhatMakesNoSenseIsNamed) {
  const auto refused = [](const RestartPolicy& policy, const char* what) {
    EXPECT_THAT(CheckRestartPolicy("restart", policy),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  EXPECT_THAT(CheckRestartPolicy("restart", {}), IsOk());
  refused({.max_restarts = -1}, "restart.max_restarts");
  refused({.window = absl::ZeroDuration()}, "restart.window");
  refused({.initial_backoff = absl::ZeroDuration()}, "restart.initial_backoff");
  refused({.initial_backoff = absl::Minutes(1)}, "restart.max_backoff");
  refused({.max_backoff = absl::InfiniteDuration()}, "restart.max_backoff");
  EXPECT_THAT(CheckQuarantinePolicy("quarantine", {}), IsOk());
  EXPECT_THAT(CheckQuarantinePolicy("quarantine", {.failures = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("quarantine.failures")));
  EXPECT_THAT(CheckQuarantinePolicy("quarantine", {.window = -absl::Seconds(1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("quarantine.window")));
  EXPECT_THAT(CheckQuarantinePolicy("quarantine", {.duration = absl::ZeroDuration()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("quarantine.duration")));
}

}  // namespace
}  // namespace millrace
