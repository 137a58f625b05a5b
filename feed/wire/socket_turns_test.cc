#include "feed/wire/socket_turns.h"

#include <atomic>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(SocketTurnsTest, OneHolderAtATime) {
  SocketTurns turns;
  EXPECT_TRUE(turns.TryTake());
  EXPECT_FALSE(turns.TryTake());
  turns.Give();
  EXPECT_TRUE(turns.TryLead([] { FAIL() << "nobody serves yet"; }));
  EXPECT_FALSE(turns.TryTake());
  EXPECT_FALSE(turns.TryLead([] {})) << "one leads already";
  turns.StopLeading(/*yield=*/false);
  EXPECT_TRUE(turns.TryTake());
}

TEST(SocketTurnsTest, ALeaderWakesTheSocketThreadAndGetsTheSockets) {
  SocketTurns turns;
  Notification woken;
  turns.TakeAsSocketThread();
  Thread program("program", [&] {
    EXPECT_TRUE(turns.TryLead([&] { woken.Notify(); }));
    turns.StopLeading(/*yield=*/true);
  });
  ASSERT_TRUE(woken.WaitForNotificationWithTimeout(kLong));
  EXPECT_TRUE(turns.wanted());
  turns.Give();
  turns.TakeAsSocketThread();
  EXPECT_FALSE(turns.wanted());
  turns.Give();
  program.Join();
}

TEST(SocketTurnsTest, TheSocketThreadLeavesAReaderThatComesBackAlone) {
  SocketTurns turns;
  ASSERT_TRUE(turns.TryLead([] {}));
  turns.StopLeading(/*yield=*/false);
  const absl::Time left = absl::Now();
  turns.TakeAsSocketThread();
  EXPECT_GE(absl::Now() - left, SocketTurns::kLease / 2);
}

TEST(SocketTurnsTest, TheSocketThreadGoesOnAfterALongLead) {
  SocketTurns turns;
  ASSERT_TRUE(turns.TryLead([] {}));
  Notification taken;
  Thread socket("socket", [&] {
    turns.TakeAsSocketThread();
    taken.Notify();
  });
  EXPECT_FALSE(taken.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  turns.StopLeading(/*yield=*/false);
  EXPECT_TRUE(taken.WaitForNotificationWithTimeout(kLong));
  socket.Join();
}

TEST(SocketTurnsTest, AfterStopNobodyLeadsAndTheSocketThreadWaitsForTheHolderAlone) {
  SocketTurns turns;
  ASSERT_TRUE(turns.TryLead([] {}));
  turns.Stop();
  EXPECT_TRUE(turns.stopped());
  Notification taken;
  Thread socket("socket", [&] {
    turns.TakeAsSocketThread();
    taken.Notify();
  });
  EXPECT_FALSE(taken.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  turns.StopLeading(/*yield=*/false);
  EXPECT_TRUE(taken.WaitForNotificationWithTimeout(kLong));
  socket.Join();
  EXPECT_FALSE(turns.TryLead([] {}));
}

// The count is no atomic on purpose: ThreadSanitizer sees whether holders are ordered.
TEST(SocketTurnsTest, WhatAHolderDidIsSeenByTheNext) {
  constexpr int kTurns = 2000;
  SocketTurns turns;
  int64_t count = 0;
  std::atomic<bool> leave{false};
  Thread socket("socket", [&] {
    while (!turns.stopped()) {
      turns.TakeAsSocketThread();
      while (!turns.wanted() && !turns.stopped()) ++count;
      turns.Give();
    }
  });
  std::vector<Thread> others;
  others.emplace_back("flusher", [&] {
    while (!leave) {
      if (!turns.TryTake()) continue;
      ++count;
      turns.Give();
    }
  });
  int led = 0;
  for (int i = 0; i < kTurns; ++i) {
    if (!turns.TryLead([] {})) continue;
    ++led;
    ++count;
    turns.StopLeading(/*yield=*/i % 3 == 0);
  }
  leave = true;
  turns.Stop();
  socket.Join();
  for (Thread& other : others) other.Join();
  EXPECT_EQ(led, kTurns) << "nobody else leads";
  EXPECT_GE(count, kTurns);
}

}  // namespace
}  // namespace millrace
