// A real cluster as other processes see and steer it: cluster file, client library, event log.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/client/raw_cluster_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/client.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ClusterViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_THAT(dir, IsOk());
    dir_.emplace(*std::move(dir));
    clusters_ = JoinPath(dir_->path(), "clusters");
    setenv("MILLRACE_CLUSTERS_DIR", clusters_.c_str(), 1);
    options_.num_executors = 2;
    options_.log_dir = JoinPath(dir_->path(), "logs");
  }
  void TearDown() override { unsetenv("MILLRACE_CLUSTERS_DIR"); }

  std::unique_ptr<Cluster> Start(const std::string& script) {
    NodeProgram program = NodeProgram::Path("sh");
    program.Args({"-c", script});
    auto cluster = Cluster::Run(launcher_, program, options_);
    EXPECT_THAT(cluster, IsOk());
    return cluster.ok() ? *std::move(cluster) : nullptr;
  }

  std::unique_ptr<RawClusterClient> Client() {
    const auto file = NewestClusterFile();
    EXPECT_THAT(file, IsOk());
    auto client = RawClusterClient::Connect(ClusterClientOptionsFrom(*file));
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }

  // Snapshots until `condition` holds for one.
  template <typename Condition>
  static bool Shows(RawClusterClient& client, Condition condition) {
    return Eventually([&] {
      const auto view = client.Snapshot();
      return view.ok() && condition(*view);
    });
  }

  std::optional<TempDir> dir_;
  std::string clusters_;
  ClusterOptions options_;
  LocalLauncher launcher_;
};

TEST_F(ClusterViewTest, ItsFileLeadsToItAndGoesWithIt) {
  std::unique_ptr<Cluster> cluster = Start("echo hello from $MILLRACE_TASK_INDEX; sleep 600");
  ASSERT_NE(cluster, nullptr);
  const auto file = NewestClusterFile();
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->cluster_id, cluster->cluster_id());
  EXPECT_EQ(file->pid, getpid());
  auto client = Client();
  // What the agents measured.
  EXPECT_TRUE(Shows(*client, [](const ClusterView& view) {
    return view.nodes().size() == 2 && std::all_of(view.nodes().begin(), view.nodes().end(),
                                                   [](const v1::WatchUpdate::Node& node) {
                                                     return node.sample().process().rss_bytes() > 0;
                                                   });
  }));
  int lines = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (lines < 2 && absl::Now() < deadline) {
    lines = 0;
    EXPECT_THAT(client->ReadLogs({.lines = 10},
                                 [&](const v1::LogBatch& batch) {
                                   for (const std::string& line : batch.lines()) {
                                     lines += absl::StartsWith(line, "hello from") ? 1 : 0;
                                   }
                                   return true;
                                 }),
                IsOk());
  }
  EXPECT_EQ(lines, 2);
  EXPECT_THAT(cluster->Shutdown({.timeout = absl::Milliseconds(1)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(NewestClusterFile(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client->Snapshot(), StatusIs(absl::StatusCode::kUnavailable));
  const auto events = ReadFile(JoinPath(options_.log_dir, "events.jsonl"));
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(*events, HasSubstr("all 2 nodes have been started"));
  EXPECT_THAT(*events, HasSubstr("all nodes have ended"));
}

TEST_F(ClusterViewTest, OtherProgramsSeeItInPlainValues) {
  options_.failure.restart.max_restarts = 3;
  std::unique_ptr<Cluster> cluster = Start("echo hello from $MILLRACE_TASK_INDEX; sleep 600");
  ASSERT_NE(cluster, nullptr);
  const auto file = FindClusterFile(cluster->cluster_id());
  ASSERT_THAT(file, IsOk());
  auto client = ClusterClient::Connect(ClusterClientOptionsFrom(*file));
  ASSERT_THAT(client, IsOk());

  const auto now = (*client)->Snapshot();
  ASSERT_THAT(now, IsOk());
  EXPECT_EQ(now->cluster_id, cluster->cluster_id());
  EXPECT_EQ(now->phase, ClusterPhase::kRunning);
  EXPECT_THAT(now->first_cause, IsOk());
  EXPECT_EQ(now->input_mode, InputMode::kDirect);
  EXPECT_EQ(now->driver_pid, getpid());
  EXPECT_EQ(now->log_dir, options_.log_dir);
  EXPECT_EQ(now->spec, cluster->cluster_spec());
  const ClusterStatus driver = cluster->Status();
  ASSERT_EQ(now->slots.size(), driver.slots.size());
  for (size_t i = 0; i < driver.slots.size(); ++i) {
    const SlotStatus& seen = now->slots[i];
    const SlotStatus& known = driver.slots[i];
    EXPECT_EQ(seen.executor_id, known.executor_id);
    EXPECT_EQ(seen.role, known.role);
    EXPECT_EQ(seen.state, SlotState::kRunning);
    EXPECT_EQ(seen.host, known.host);
    EXPECT_EQ(seen.address, known.address);
    EXPECT_EQ(seen.node_pid, known.node_pid);
    EXPECT_TRUE(seen.attached);
    // The wire has nanoseconds, absl::Time a quarter of one.
    EXPECT_LT(absl::AbsDuration(seen.ReachedAt(SlotState::kRunning) -
                                known.ReachedAt(SlotState::kRunning)),
              absl::Microseconds(1));
  }

  Mutex mu;
  CondVar changed;
  bool restarted = false;
  bool live = false;
  auto watch = (*client)->Watch({.interval = absl::Milliseconds(20)},
                                {.on_change =
                                     [&](const ClusterSnapshot& update) {
                                       MutexLock lock(&mu);
                                       restarted = update.slots[1].attempt == 1 &&
                                                   update.slots[1].state == SlotState::kRunning;
                                       changed.SignalAll();
                                     },
                                 .on_state =
                                     [&](const WatchState& state) {
                                       MutexLock lock(&mu);
                                       live = live || state.kind == WatchState::Kind::kLive;
                                       changed.SignalAll();
                                     }});
  ASSERT_THAT(watch, IsOk());
  EXPECT_THAT((*client)->RestartNode(1, "to see it move"), IsOkAndHolds(1u));
  {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    MutexLock lock(&mu);
    while (!(restarted && live) && absl::Now() < deadline) changed.WaitWithDeadline(&mu, deadline);
    EXPECT_TRUE(restarted);
    EXPECT_TRUE(live);
  }
  (*watch)->Stop();

  bool heard = false;
  EXPECT_THAT((*client)->ReadLogs({.executor_ids = {0}, .lines = 10, .follow = true},
                                  [&](const LogLines& batch) {
                                    EXPECT_EQ(batch.executor_id, 0);
                                    for (const std::string& line : batch.lines) {
                                      if (!absl::StartsWith(line, "hello from")) continue;
                                      EXPECT_EQ(batch.source, LogSource::kStdout);
                                      heard = true;
                                    }
                                    return !heard;
                                  }),
              IsOk());
  EXPECT_TRUE(heard);

  EXPECT_THAT((*client)->KvSet("step", "7"), IsOk());
  EXPECT_THAT((*client)->KvAdd("step", 1), IsOkAndHolds(8));
  EXPECT_THAT((*client)->KvGet("step", absl::ZeroDuration()), IsOkAndHolds("8"));
  const auto keys = (*client)->ListKeys("st", 10, nullptr);
  ASSERT_THAT(keys, IsOk());
  ASSERT_EQ(keys->size(), 1u);
  EXPECT_EQ(keys->front().key, "step");
  EXPECT_EQ(keys->front().value_bytes, 1u);

  EXPECT_THAT((*client)->StopCluster("seen enough"), IsOk());
  EXPECT_THAT(cluster->Shutdown(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("seen enough")));
}

TEST_F(ClusterViewTest, AnOperatorStopsItAndTheDriverHearsWhy) {
  std::unique_ptr<Cluster> cluster = Start("sleep 600");
  ASSERT_NE(cluster, nullptr);
  absl::Status ended;
  Thread driver("driver", [&] { ended = cluster->Shutdown(); });
  EXPECT_THAT(Client()->StopCluster("the budget is used", /*now=*/false), IsOk());
  driver.Join();
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kCancelled,
                              HasSubstr("stopped by an operator: the budget is used")));
}

TEST_F(ClusterViewTest, ItCanDoWithoutAFile) {
  options_.cluster_file = false;
  std::unique_ptr<Cluster> cluster = Start("exit 0");
  ASSERT_NE(cluster, nullptr);
  EXPECT_THAT(NewestClusterFile(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(cluster->Shutdown(), IsOk());
}

}  // namespace
}  // namespace millrace
