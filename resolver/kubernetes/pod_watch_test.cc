#include "resolver/kubernetes/pod_watch.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/kubernetes_client.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/client/pod.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Writes down what it is told, one text each; states only as they change.
class Journal final : public PodWatchSink {
 public:
  void OnList(std::vector<Pod> pods) override {
    std::string line = "list";
    for (const Pod& pod : pods) absl::StrAppend(&line, " ", pod.name);
    Write(line);
  }
  void OnPod(Pod pod) override { Write(absl::StrCat("pod ", pod.name, " ", pod.phase)); }
  void OnDeleted(Pod pod) override { Write(absl::StrCat("deleted ", pod.name)); }
  void OnState(const absl::Status& state) override {
    const std::string line = absl::StrCat("state ", absl::StatusCodeToString(state.code()));
    {
      MutexLock lock(&mu_);
      if (line == last_state_) return;
      last_state_ = line;
    }
    Write(line);
  }
  void OnResuming() override { Write("resuming"); }

  // Waits, at most a minute, for a line; what is before it, and it, are forgotten.
  bool Await(const std::string& line) {
    MutexLock lock(&mu_);
    for (const absl::Time deadline = absl::Now() + absl::Minutes(1); absl::Now() < deadline;) {
      const auto it = std::find(lines_.begin(), lines_.end(), line);
      if (it != lines_.end()) {
        skipped_.assign(lines_.begin(), it);
        lines_.erase(lines_.begin(), it + 1);
        return true;
      }
      changed_.WaitWithTimeout(&mu_, absl::Seconds(1));
    }
    ADD_FAILURE() << "no \"" << line << "\" in: " << testing::PrintToString(lines_);
    return false;
  }
  // What was before the line that Await() found.
  std::vector<std::string> skipped() {
    MutexLock lock(&mu_);
    return skipped_;
  }
  std::vector<std::string> lines() {
    MutexLock lock(&mu_);
    return lines_;
  }

 private:
  void Write(const std::string& line) {
    MutexLock lock(&mu_);
    lines_.push_back(line);
    changed_.SignalAll();
  }

  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> skipped_ ABSL_GUARDED_BY(mu_);
  std::string last_state_ ABSL_GUARDED_BY(mu_);
};

Pod Worker(const std::string& name, const std::string& phase = "Running") {
  return {.name = name, .namespace_name = "ml", .phase = phase, .labels = {{"app", "w"}}};
}

class PodWatchTest : public testing::Test {
 protected:
  void Start() {
    watch_ = std::make_unique<PodWatch>(
        &client_, PodSelection{.namespace_name = "ml", .label_selector = "app=w"}, options_,
        &journal_);
  }
  // Starts, with w-0 there, and waits until the watch has been accepted.
  void StartWatching() {
    client_.Put(Worker("w-0"));
    Start();
    ASSERT_TRUE(journal_.Await("state OK"));
    ASSERT_TRUE(client_.WaitUntil([&] { return client_.running_watches() == 1; }));
  }

  PodWatchOptions options_ = {.first_backoff = absl::Milliseconds(1),
                              .max_backoff = absl::Milliseconds(20)};
  FakeClock clock_;
  FakeKubernetesClient client_;
  Journal journal_;
  std::unique_ptr<PodWatch> watch_;  // last: it uses the others
};

TEST_F(PodWatchTest, ListsThenTellsEveryChange) {
  client_.Put(Worker("w-0"));
  client_.Put({.name = "other", .namespace_name = "ml"});
  Start();
  ASSERT_TRUE(journal_.Await("state OK"));
  EXPECT_THAT(journal_.skipped(), ElementsAre("list w-0"));
  EXPECT_EQ(client_.last_selection().namespace_name, "ml");
  client_.Put(Worker("w-1", "Pending"));
  client_.Put(Worker("w-1", "Running"));
  client_.Put({.name = "other", .namespace_name = "ml", .phase = "Running"});
  Pod relabelled = Worker("w-0");
  relabelled.labels = {{"app", "x"}};
  client_.Put(relabelled);
  client_.Delete("uid-w-1");
  client_.Put(Worker("w-0"));
  ASSERT_TRUE(journal_.Await("pod w-0 Running"));
  EXPECT_THAT(journal_.skipped(),
              ElementsAre("pod w-1 Pending", "pod w-1 Running", "deleted w-0", "deleted w-1"));
  EXPECT_EQ(client_.lists(), 1);
}

TEST_F(PodWatchTest, WatchesAgainFromTheLastVersionWhenTheServerEndsTheStream) {
  StartWatching();
  client_.Put(Worker("w-1"));
  ASSERT_TRUE(journal_.Await("pod w-1 Running"));
  client_.EndWatches(absl::OkStatus());
  ASSERT_TRUE(journal_.Await("resuming"));
  client_.Put(Worker("w-2"));
  ASSERT_TRUE(journal_.Await("pod w-2 Running"));
  EXPECT_THAT(journal_.skipped(), ElementsAre());
  EXPECT_EQ(client_.lists(), 1);
  EXPECT_EQ(client_.last_watched_version(), "2");
}

TEST_F(PodWatchTest, ABookmarkMovesTheVersionOn) {
  StartWatching();
  client_.Put({.name = "other", .namespace_name = "ml"});
  client_.SendBookmarks();
  client_.Put(Worker("w-1"));
  ASSERT_TRUE(journal_.Await("pod w-1 Running"));
  client_.Put({.name = "another", .namespace_name = "ml"});
  client_.Compact();  // to 5
  client_.SendBookmarks();
  client_.Put(Worker("w-2"));
  ASSERT_TRUE(journal_.Await("pod w-2 Running"));
  client_.EndWatches(absl::OkStatus());
  client_.Put(Worker("w-3"));
  ASSERT_TRUE(journal_.Await("pod w-3 Running"));
  EXPECT_EQ(client_.lists(), 1);
}

TEST_F(PodWatchTest, ListsAgainWhenTheVersionIsTooOld) {
  StartWatching();
  client_.HangWatches(true);
  client_.EndWatches(absl::OkStatus());
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.running_watches() == 0; }));
  client_.Delete("uid-w-0");
  client_.Put(Worker("w-1"));
  client_.Compact();
  client_.HangWatches(false);
  ASSERT_TRUE(journal_.Await("list w-1"));
  EXPECT_THAT(journal_.skipped(), ElementsAre("resuming", "resuming"));
  client_.Put(Worker("w-2"));
  ASSERT_TRUE(journal_.Await("pod w-2 Running"));
  EXPECT_EQ(client_.lists(), 2);
}

TEST_F(PodWatchTest, SaysThatTheStreamWasCutAndGoesOnWhereItWas) {
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded}) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    FakeKubernetesClient client;
    client.Put(Worker("w-0"));
    Journal journal;
    const PodWatch watch(&client, {.label_selector = "app=w"}, options_, &journal);
    ASSERT_TRUE(client.WaitUntil([&] { return client.running_watches() == 1; }));
    ASSERT_TRUE(journal.Await("state OK"));
    client.EndWatches(absl::Status(code, "cut"));
    ASSERT_TRUE(journal.Await(absl::StrCat("state ", absl::StatusCodeToString(code))));
    ASSERT_TRUE(journal.Await("state OK"));
    client.Put(Worker("w-1"));
    ASSERT_TRUE(journal.Await("pod w-1 Running"));
    EXPECT_EQ(client.lists(), 1);
  }
}

TEST_F(PodWatchTest, ListsAgainAfterAnythingElse) {
  for (const auto code :
       {absl::StatusCode::kDataLoss, absl::StatusCode::kInternal,
        absl::StatusCode::kUnauthenticated, absl::StatusCode::kResourceExhausted}) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    FakeKubernetesClient client;
    client.Put(Worker("w-0"));
    Journal journal;
    const PodWatch watch(&client, {.label_selector = "app=w"}, options_, &journal);
    ASSERT_TRUE(client.WaitUntil([&] { return client.running_watches() == 1; }));
    ASSERT_TRUE(journal.Await("state OK"));
    client.EndWatches(absl::Status(code, "broken"));
    ASSERT_TRUE(journal.Await(absl::StrCat("state ", absl::StatusCodeToString(code))));
    ASSERT_TRUE(journal.Await("list w-0"));
    ASSERT_TRUE(journal.Await("state OK"));
    client.Put(Worker("w-1"));
    ASSERT_TRUE(journal.Await("pod w-1 Running"));
  }
}

TEST_F(PodWatchTest, TriesForEverToListAndSaysWhyItCannot) {
  client_.FailLists(absl::PermissionDeniedError("list pods is forbidden"));
  Start();
  ASSERT_TRUE(journal_.Await("state PERMISSION_DENIED"));
  EXPECT_THAT(journal_.skipped(), ElementsAre());
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.lists() >= 6; }));
  client_.FailLists(absl::UnavailableError("no route"));
  ASSERT_TRUE(journal_.Await("state UNAVAILABLE"));
  client_.FailLists(absl::OkStatus());
  ASSERT_TRUE(journal_.Await("list"));
  ASSERT_TRUE(journal_.Await("state OK"));
}

TEST_F(PodWatchTest, AListDoesNotHideThatTheWatchIsRefused) {
  client_.FailWatches(absl::PermissionDeniedError("watch pods is forbidden"));
  client_.Put(Worker("w-0"));
  Start();
  ASSERT_TRUE(journal_.Await("state PERMISSION_DENIED"));
  EXPECT_THAT(journal_.skipped(), ElementsAre("list w-0", "state OK"));
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.watches() >= 5; }));
  for (const std::string& line : journal_.lines()) EXPECT_EQ(line, "list w-0");
  client_.FailWatches(absl::OkStatus());
  ASSERT_TRUE(journal_.Await("state OK"));
}

TEST_F(PodWatchTest, StaysLostWhileTheServerIsAway) {
  StartWatching();
  client_.FailWatches(absl::UnavailableError("connection refused"));
  client_.FailLists(absl::UnavailableError("connection refused"));
  client_.EndWatches(absl::UnavailableError("cut"));
  ASSERT_TRUE(journal_.Await("state UNAVAILABLE"));
  const int watches = client_.watches();
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.watches() >= watches + 6; }));
  EXPECT_THAT(journal_.lines(), ElementsAre());
  // The server that comes back has forgotten the version.
  client_.Put(Worker("w-1"));
  client_.Compact();
  client_.FailLists(absl::OkStatus());
  client_.FailWatches(absl::OkStatus());
  ASSERT_TRUE(journal_.Await("list w-0 w-1"));
  ASSERT_TRUE(journal_.Await("state OK"));
}

TEST_F(PodWatchTest, PausesLongerAfterEachFailure) {
  FakeClock clock;
  options_ = {
      .first_backoff = absl::Seconds(10), .max_backoff = absl::Seconds(30), .clock = &clock_};
  client_.FailLists(absl::UnavailableError("no route"));
  Start();
  // The first failure is followed up at once.
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.lists() == 2; }));
  // Then between 5 and 10 s, 10 and 20 s, 15 and 30 s, 15 and 30 s. The date does not matter.
  const absl::Duration least[] = {absl::Seconds(5), absl::Seconds(10), absl::Seconds(15),
                                  absl::Seconds(15)};
  for (const absl::Duration pause : least) {
    const int lists = client_.lists();
    clock_.AdvanceWall(absl::Hours(10));
    clock_.AdvanceWall(-absl::Hours(20));
    clock_.Advance(pause - absl::Milliseconds(1));
    absl::SleepFor(
        absl::Milliseconds(30));  // it must not come; if it did later, the test would pass
    EXPECT_EQ(client_.lists(), lists);
    ASSERT_TRUE(client_.WaitUntil([&] {
      if (client_.lists() > lists) return true;
      clock_.Advance(absl::Seconds(1));
      return false;
    }));
    EXPECT_EQ(client_.lists(), lists + 1);
  }
}

TEST_F(PodWatchTest, EndsAtOnceWhateverItDoes) {
  // While watching,
  StartWatching();
  watch_.reset();
  // while it waits for the server,
  client_.HangWatches(true);
  Start();
  const int watches = client_.watches();
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.watches() > watches; }));
  watch_.reset();
  // and in a pause.
  options_.first_backoff = absl::Hours(10);
  options_.max_backoff = absl::Hours(10);
  client_.FailLists(absl::UnavailableError("no route"));
  const int lists = client_.lists();
  Start();
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.lists() >= lists + 2; }));
  watch_.reset();
}

}  // namespace
}  // namespace millrace
