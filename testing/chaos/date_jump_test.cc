// What waits for a time goes on waiting for it when somebody sets the date.

#include <atomic>

#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "gtest/gtest.h"
#include "testing/chaos/machine.h"

namespace millrace::chaos {
namespace {

// Whether `wait` ends, by the steady clock, although the date is two days back since it began.
bool EndsAfterAJumpBack(absl::AnyInvocable<void()> wait) {
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  Thread thread("waits", [&] {
    begun = true;
    wait();
    ended = true;
  });
  const absl::Duration patience = RealClock()->SteadyNow() + absl::Minutes(1);
  while (!begun) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(100));  // asleep by now, most likely
  EXPECT_TRUE(JumpOwnClock(-absl::Hours(48)));
  while (!ended && RealClock()->SteadyNow() < patience) absl::SleepFor(absl::Milliseconds(5));
  const bool result = ended;
  JumpOwnClock(absl::ZeroDuration());  // so that it ends in any case
  return result;
}

TEST(DateJumpTest, TheLibraryMovesTheDateOfThisProcess) {
  const absl::Time before = absl::Now();
  ASSERT_TRUE(JumpOwnClock(absl::Hours(48)));
  EXPECT_GE(absl::Now() - before, absl::Hours(48));
  ASSERT_TRUE(JumpOwnClock(absl::ZeroDuration()));
  EXPECT_LT(absl::Now() - before, absl::Hours(1));
}

TEST(DateJumpTest, ATimeoutOfAConditionVariablePasses) {
  EXPECT_TRUE(EndsAfterAJumpBack([] {
    Mutex mu;
    CondVar never;
    MutexLock lock(&mu);
    EXPECT_TRUE(never.WaitWithTimeout(&mu, absl::Milliseconds(500)));
  }));
}

TEST(DateJumpTest, ADeadlineOfAConditionVariablePasses) {
  EXPECT_TRUE(EndsAfterAJumpBack([] {
    Mutex mu;
    CondVar never;
    MutexLock lock(&mu);
    EXPECT_TRUE(never.WaitWithDeadline(&mu, absl::Now() + absl::Milliseconds(500)));
  }));
}

TEST(DateJumpTest, AWaitForANotificationEnds) {
  EXPECT_TRUE(EndsAfterAJumpBack([] {
    const Notification never;
    EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::Milliseconds(500)));
  }));
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) {
  millrace::chaos::PrepareMachine(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
