#include "feed/receiver/receiver_waker.h"

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/wire/poller.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class ReceiverWakerTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<WakeFd> fd = WakeFd::Create();
    ASSERT_THAT(fd, IsOk());
    waker_ = std::make_unique<ReceiverWaker>(*std::move(fd));
    poller_.Add(waker_->fd());
  }

  bool Woken(absl::Duration timeout) {
    EXPECT_THAT(poller_.Wait(timeout), IsOk());
    return poller_.IsWoken(waker_->fd());
  }

  std::unique_ptr<ReceiverWaker> waker_;
  Poller poller_;
};

TEST_F(ReceiverWakerTest, WakesOnceForWhatTheLoopHasNotSeen) {
  EXPECT_FALSE(Woken(absl::ZeroDuration()));
  waker_->Wake();
  waker_->Wake();
  EXPECT_TRUE(Woken(absl::ZeroDuration()));
  waker_->Clear();
  EXPECT_FALSE(Woken(absl::ZeroDuration()));
  waker_->Wake();
  EXPECT_TRUE(Woken(absl::ZeroDuration()));
}

// Nothing else wakes the loop: after one lost wake-up it would sleep for ever, whatever is
// announced.
TEST_F(ReceiverWakerTest, NoWakeUpIsLostWhileTheLoopClears) {
  constexpr int kChanges = 200'000;
  std::array<std::atomic<int>, 2> made{};
  std::vector<Thread> threads;
  for (std::atomic<int>& changes : made) {
    threads.emplace_back(absl::StrCat("announcer", threads.size()), [&] {
      for (int i = 0; i < kChanges; ++i) {
        ++changes;
        waker_->Wake();
      }
    });
  }
  int seen = 0;
  bool awake = true;
  while (awake && seen < 2 * kChanges) {
    awake = Woken(absl::Seconds(20));
    waker_->Clear();
    seen = made[0] + made[1];
  }
  EXPECT_TRUE(awake) << "the loop slept although changes were announced";
  for (Thread& thread : threads) thread.Join();
}

}  // namespace
}  // namespace millrace
