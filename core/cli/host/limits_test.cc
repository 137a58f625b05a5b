#include "core/cli/host/limits.h"

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

auto Refused(const char* text) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text));
}

TEST(LimitsTest, AMachineWithoutLimitsIsFine) { EXPECT_THAT(CheckLimits({}, 1000), IsOk()); }

TEST(LimitsTest, ThisMachineRunsANode) { EXPECT_THAT(CheckLimits(ReadLimits(), 1), IsOk()); }

TEST(LimitsTest, FilesThatMayNotBeWrittenAreTold) {
  EXPECT_THAT(CheckLimits({.file_bytes = 0}, 1), Refused("ulimit -f unlimited"));
}

TEST(LimitsTest, DescriptorsAreCountedByNodes) {
  EXPECT_THAT(CheckLimits({.descriptors = 100}, 2), IsOk());
  EXPECT_THAT(CheckLimits({.descriptors = 100}, 64),
              Refused("64 nodes take about 360 file descriptors, and 100 are allowed here"));
}

TEST(LimitsTest, ProcessesThatOthersUseAreCounted) {
  EXPECT_THAT(CheckLimits({.processes = 60, .processes_used = 10}, 1), IsOk());
  EXPECT_THAT(CheckLimits({.processes = 60, .processes_used = 50}, 1),
              Refused("this user has 50 now and may have 60: ulimit -u"));
  // More than the limit, which was lowered since.
  EXPECT_THAT(CheckLimits({.processes = 60, .processes_used = 500}, 1), Refused("ulimit -u"));
}

TEST(LimitsTest, AMachineWithoutLoopbackIsTold) {
  EXPECT_THAT(CheckLimits({.loopback = false}, 1), Refused("ip link set lo up"));
}

}  // namespace
}  // namespace millrace::cli
