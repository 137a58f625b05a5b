// What waits for a time goes on waiting for it when somebody sets the date.

#include <atomic>
#include <cstdlib>

#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gtest/gtest.h"
#include "millrace/local_launcher.h"
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

TEST(DateJumpTest, ADeadlineIsReachedWhateverWakesItsWaitMeanwhile) {
  Mutex mu;
  CondVar woken;
  std::atomic<bool> over = false;
  Thread wakes("wakes", [&] {
    while (!over) {
      woken.SignalAll();
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  const auto wait = [&] {
    const Deadline deadline(absl::Milliseconds(500));
    MutexLock lock(&mu);
    while (!deadline.Passed()) woken.WaitWithTimeout(&mu, deadline.Left());
  };
  EXPECT_TRUE(EndsAfterAJumpBack(wait));
  // And forward: it does not end before its time.
  const absl::Duration began = RealClock()->SteadyNow();
  Thread waits("waits", wait);
  EXPECT_TRUE(JumpOwnClock(absl::Hours(48)));
  waits.Join();
  EXPECT_GE(RealClock()->SteadyNow() - began, absl::Milliseconds(500));
  JumpOwnClock(absl::ZeroDuration());
  over = true;
}

TEST(DateJumpTest, ALauncherKillsAnAgentThatDoesNotEnd) {
  ::setenv("FAKE_AGENT_MODE", "ignore_eof", 1);
  LocalLauncher launcher({.agent_path = "core/cluster/fake_agent.sh"});
  ASSERT_THAT(launcher.Launch({{.coordinator_address = "127.0.0.1:1",
                                .cluster_id = "jump",
                                .ca_pem = "PEM",
                                .identity_pem = "PEM",
                                .token = "none",
                                .working_dir = "/"}},
                              {.on_exit = [](const AgentExit&) {}}),
              IsOk());
  EXPECT_TRUE(EndsAfterAJumpBack([&] { launcher.Stop(absl::Milliseconds(500)); }));
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) {
  millrace::chaos::PrepareMachine(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
