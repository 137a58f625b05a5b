// The scheduler itself: that it keeps time and order, gives each seed its own run, and finds what
// only some orders show.

#include "core/base/thread_scheduler.h"

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

// Whether some of the first seeds makes `finds` true; `finds` is called within a run.
int SeedsThatFind(int seeds, const std::function<bool()>& finds) {
  int found = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    bool now = false;
    ThreadScheduler::Run({.seed = static_cast<uint64_t>(seed), .expected_steps = 60},
                         [&] { now = finds(); });
    found += now ? 1 : 0;
  }
  return found;
}

// Adds to a number in two steps, each under the lock.
bool LosesAnAdd() {
  Mutex mu;
  int value = 0;
  const auto add = [&] {
    int seen = 0;
    {
      MutexLock lock(&mu);
      seen = value;
    }
    MutexLock lock(&mu);
    value = seen + 1;
  };
  {
    Thread a("a", add);
    Thread b("b", add);
  }
  return value == 1;
}

TEST(ThreadSchedulerTest, FindsALostUpdateInManySeeds) {
  const int found = SeedsThatFind(200, LosesAnAdd);
  EXPECT_GT(found, 20);
  EXPECT_LT(found, 200);
}

// The same with one lock for both steps.
TEST(ThreadSchedulerTest, LocksHold) {
  EXPECT_EQ(SeedsThatFind(200,
                          [] {
                            Mutex mu;
                            int value = 0;
                            const auto add = [&] {
                              MutexLock lock(&mu);
                              const int seen = value;
                              ThreadScheduler::Sleep(absl::Microseconds(10));
                              value = seen + 1;
                            };
                            {
                              Thread a("a", add);
                              Thread b("b", add);
                              Thread c("c", add);
                            }
                            return value != 3;
                          }),
            0);
}

// A flag that is looked at once, before the wait: the wake-up in between is lost, and the wait ends
// by its timeout.
TEST(ThreadSchedulerTest, FindsALostWakeUp) {
  const int found = SeedsThatFind(300, [] {
    Mutex mu;
    CondVar raised;
    bool flag = false;
    bool seen = false;
    const absl::Duration began = RealClock()->SteadyNow();
    {
      Thread waiter("waiter", [&] {
        {
          MutexLock lock(&mu);
          seen = flag;
        }
        MutexLock lock(&mu);
        if (!seen) raised.WaitWithTimeout(&mu, absl::Minutes(5));
      });
      MutexLock lock(&mu);
      flag = true;
      raised.Signal();
    }
    return RealClock()->SteadyNow() - began > absl::Minutes(4);
  });
  EXPECT_GT(found, 5);
  EXPECT_LT(found, 300);
}

TEST(ThreadSchedulerTest, TimeIsVirtual) {
  const absl::Time began = absl::Now();
  const ScheduleResult result = ThreadScheduler::Run({}, [] {
    Notification over;
    Thread sleeper("sleeper", [&] {
      ThreadScheduler::Sleep(absl::Hours(10));
      over.Notify();
    });
    EXPECT_FALSE(over.WaitForNotificationWithTimeout(absl::Hours(9)));
    over.WaitForNotification();
  });
  EXPECT_GE(result.elapsed, absl::Hours(10));
  EXPECT_LT(result.elapsed, absl::Hours(10) + absl::Seconds(1));
  EXPECT_EQ(result.threads, 2);
  EXPECT_LT(absl::Now() - began, absl::Hours(1));
}

// Who waits for less is woken first, whatever the seed.
TEST(ThreadSchedulerTest, DeadlinesPassInOrder) {
  EXPECT_EQ(SeedsThatFind(100,
                          [] {
                            Mutex mu;
                            std::vector<int> order;
                            const auto wait = [&](int seconds) {
                              ThreadScheduler::Sleep(absl::Seconds(seconds));
                              MutexLock lock(&mu);
                              order.push_back(seconds);
                            };
                            {
                              Thread c("c", [&] { wait(3); });
                              Thread a("a", [&] { wait(1); });
                              Thread b("b", [&] { wait(2); });
                            }
                            return order != std::vector<int>{1, 2, 3};
                          }),
            0);
}

TEST(ThreadSchedulerTest, ASeedIsOneRun) {
  std::set<uint64_t> hashes;
  for (int seed = 1; seed <= 100; ++seed) {
    const ScheduleOptions options{.seed = static_cast<uint64_t>(seed)};
    const ScheduleResult first = ThreadScheduler::Run(options, [] { LosesAnAdd(); });
    const ScheduleResult second = ThreadScheduler::Run(options, [] { LosesAnAdd(); });
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.steps, second.steps);
    hashes.insert(first.hash);
  }
  EXPECT_GT(hashes.size(), 20U);
}

TEST(ThreadSchedulerDeathTest, ADeadlockIsTold) {
  EXPECT_EXIT(SeedsThatFind(200,
                            [] {
                              Mutex first;
                              Mutex second;
                              Thread a("takes first", [&] {
                                MutexLock lock(&first);
                                MutexLock other(&second);
                              });
                              MutexLock lock(&second);
                              MutexLock other(&first);
                              return false;
                            }),
              ::testing::ExitedWithCode(ThreadScheduler::kStuckExitCode),
              "every thread waits for another one(.|\n)*takes first: waits for a lock");
}

TEST(ThreadSchedulerDeathTest, AThreadThatNeverWaitsIsTold) {
  EXPECT_EXIT(ThreadScheduler::Run({.max_steps = 10'000},
                                   [] {
                                     Mutex mu;
                                     while (true) MutexLock lock(&mu);
                                   }),
              ::testing::ExitedWithCode(ThreadScheduler::kStuckExitCode), "too many steps");
}

// Outside of a run they are ordinary ones.
TEST(ThreadSchedulerTest, ThreadsOutsideOfARunAreNotScheduled) {
  Mutex mu;
  int64_t value = 0;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("adder", [&] {
        for (int each = 0; each < 10'000; ++each) {
          MutexLock lock(&mu);
          ++value;
        }
      });
    }
  }
  EXPECT_EQ(value, 40'000);
  EXPECT_FALSE(ThreadScheduler::IsActive());
}

}  // namespace
}  // namespace millrace
