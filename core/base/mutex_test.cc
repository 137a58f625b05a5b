#include "core/base/mutex.h"

#include <list>
#include <memory>

#include "absl/time/clock.h"
#include "core/base/thread.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(MutexTest, KeepsIncrementsOfManyThreadsApart) {
  Mutex mu;
  int count = 0;
  std::list<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back("adder", [&] {
      for (int k = 0; k < 10000; ++k) {
        MutexLock lock(&mu);
        mu.AssertHeld();
        ++count;
      }
    });
  }
  threads.clear();  // joins
  EXPECT_EQ(count, 40000);
}

TEST(CondVarTest, SignalWakesAWaiter) {
  Mutex mu;
  CondVar changed;
  int turn = 0;
  Thread other("other", [&] {
    MutexLock lock(&mu);
    while (turn != 1) changed.Wait(&mu);
    turn = 2;
    changed.SignalAll();
  });
  MutexLock lock(&mu);
  turn = 1;
  changed.Signal();
  while (turn != 2) {
    ASSERT_FALSE(changed.WaitWithTimeout(&mu, absl::Seconds(60)));
    mu.AssertHeld();
  }
}

TEST(CondVarTest, TimeoutsAreReported) {
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  const auto times_out = [&](auto wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    for (int i = 0; i < 100; ++i) {  // spurious wake-ups are allowed, but not for ever
      if (wait()) return true;
    }
    return false;
  };
  EXPECT_TRUE(times_out([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return never.WaitWithTimeout(&mu, absl::Milliseconds(1));
  }));
  EXPECT_TRUE(times_out([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return never.WaitWithTimeout(&mu, absl::ZeroDuration());
  }));
  EXPECT_TRUE(times_out([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return never.WaitWithTimeout(&mu, -absl::Seconds(1));
  }));
  EXPECT_TRUE(times_out([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return never.WaitWithDeadline(&mu, absl::InfinitePast());
  }));
}

TEST(CondVarTest, InfiniteWaitsEndWithASignal) {
  Mutex mu;
  CondVar changed;
  int turn = 0;
  Thread other("other", [&] {
    for (int i = 1; i <= 2; ++i) {
      MutexLock lock(&mu);
      while (turn != 2 * i - 1) changed.Wait(&mu);
      turn = 2 * i;
      changed.SignalAll();
    }
  });
  MutexLock lock(&mu);
  turn = 1;
  changed.SignalAll();
  while (turn != 2) ASSERT_FALSE(changed.WaitWithTimeout(&mu, absl::InfiniteDuration()));
  turn = 3;
  changed.SignalAll();
  while (turn != 4) ASSERT_FALSE(changed.WaitWithDeadline(&mu, absl::InfiniteFuture()));
}

TEST(NotificationTest, IsRaisedOnceAndStaysRaised) {
  Notification done;
  EXPECT_FALSE(done.HasBeenNotified());
  EXPECT_FALSE(done.WaitForNotificationWithTimeout(absl::Milliseconds(1)));
  done.Notify();
  done.Notify();
  EXPECT_TRUE(done.HasBeenNotified());
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::ZeroDuration()));
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::InfiniteDuration()));
  done.WaitForNotification();
}

TEST(NotificationTest, MayBeDestroyedRightAfterTheWait) {
  for (int i = 0; i < 200; ++i) {
    auto done = std::make_unique<Notification>();
    int value = 0;
    Notification* raw = done.get();
    Thread notifier("notifier", [raw, &value] {
      value = 1;
      raw->Notify();
    });
    done->WaitForNotification();
    done.reset();
    EXPECT_EQ(value, 1);
  }
}

}  // namespace
}  // namespace millrace
