#include "core/base/thread.h"

#include <signal.h>

#include <atomic>
#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread_checker.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ThreadTest, RunsWithItsNameAndIsJoinedByTheDestructor) {
  std::string name;
  {
    Thread thread("feed-poller", [&] { name = CurrentThreadName(); });
  }
  EXPECT_EQ(name, "feed-poller");
}

TEST(ThreadTest, LongNamesAreCutToFifteenBytes) {
  std::string name;
  Thread("a-name-that-is-too-long", [&] { name = CurrentThreadName(); }).Join();
  EXPECT_EQ(name, "a-name-that-is-");
}

TEST(ThreadTest, TakesMoveOnlyBodies) {
  int seen = 0;
  auto value = std::make_unique<int>(7);
  Thread("body", [&seen, value = std::move(value)] { seen = *value; }).Join();
  EXPECT_EQ(seen, 7);
}

TEST(ThreadTest, BlocksSignalsExceptFaultsInTheChildOnly) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  sigset_t child;
  Thread("mask", [&] { pthread_sigmask(SIG_BLOCK, nullptr, &child); }).Join();
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int blocked : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGHUP, SIGUSR1, SIGRTMIN}) {
    EXPECT_EQ(sigismember(&child, blocked), 1) << blocked;
    EXPECT_EQ(sigismember(&after, blocked), 0) << blocked;
  }
  for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(sigismember(&child, open), 0) << open;
  }
}

TEST(ThreadTest, MovesAndJoinsOnAssignment) {
  Notification stop;
  std::atomic<bool> ended = false;
  Thread thread("first", [&] {
    stop.WaitForNotification();
    ended = true;
  });
  Thread other(std::move(thread));
  EXPECT_FALSE(thread.joinable());  // NOLINT(bugprone-use-after-move): documented
  EXPECT_TRUE(other.joinable());
  stop.Notify();
  other = Thread();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(other.joinable());
  other.Join();  // nothing to do
}

TEST(ThreadTest, StartGivesAThread) {
  bool ran = false;
  absl::StatusOr<Thread> thread = Thread::Start("started", [&] { ran = true; });
  ASSERT_THAT(thread, IsOk());
  thread->Join();
  EXPECT_TRUE(ran);
}

TEST(ThreadCheckerTest, BindsToTheFirstThread) {
  ThreadChecker checker;
  EXPECT_TRUE(checker.IsOnSameThread());
  EXPECT_TRUE(checker.IsOnSameThread());
  bool other = true;
  Thread("other", [&] { other = checker.IsOnSameThread(); }).Join();
  EXPECT_FALSE(other);
  checker.Detach();
  Thread("other", [&] { other = checker.IsOnSameThread(); }).Join();
  EXPECT_TRUE(other);
  EXPECT_FALSE(checker.IsOnSameThread());
}

}  // namespace
}  // namespace millrace
