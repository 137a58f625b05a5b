// Readers and operators on a real coordinator, over gRPC and the client library.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/client/cluster_file.h"
#include "core/client/raw_cluster_client.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_testing.h"
#include "core/coordinator/fake_agent.h"
#include "core/process/descriptor_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"
#include "testing/ledger/tcp_fault_proxy.h"

extern char** environ;

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClusterClientOptions OptionsFor(const Coordinator& coordinator) {
  ClusterClientOptions options;
  options.address = coordinator.address();
  options.ca_pem = coordinator.ca_pem();
  options.identity_pem = coordinator.viewer_identity_pem();
  options.viewer_token = coordinator.tokens().viewer;
  options.operator_token = coordinator.tokens().operator_token;
  options.timeout = kLong;
  return options;
}

std::unique_ptr<RawClusterClient> ClientFor(const ClusterClientOptions& options) {
  auto client = RawClusterClient::Connect(options);
  EXPECT_THAT(client, IsOk());
  return *std::move(client);
}

void SendMetric(FakeAgent& agent, int64_t step) {
  v1::AgentMessage message;
  message.mutable_metric()->set_name("loss");
  message.mutable_metric()->set_step(step);
  message.mutable_metric()->set_value(0.5);
  agent.Send(message);
}

void SendLines(FakeAgent& agent, int first, int count) {
  v1::AgentMessage message;
  message.mutable_log()->set_source(v1::LogLines::SOURCE_STDOUT);
  for (int i = first; i < first + count; ++i) message.mutable_log()->add_lines(absl::StrCat(i));
  agent.Send(message);
}

void SendSample(FakeAgent& agent, uint64_t rss_bytes) {
  v1::AgentMessage message;
  message.mutable_sample()->mutable_process()->set_rss_bytes(rss_bytes);
  message.mutable_sample()->add_queues()->set_queue("input");
  agent.Send(message);
}

// A watch, and everything that it heard.
class Reader {
 public:
  Reader(const ClusterClientOptions& client, const RawWatchOptions& options,
         std::function<void()> before_each = nullptr) {
    RawWatchCallbacks callbacks;
    callbacks.on_update = [this, before_each](const v1::WatchUpdate& update,
                                              const ClusterView& view) {
      if (before_each) before_each();
      MutexLock lock(&mu_);
      view_ = view;
      ++updates_;
      if (update.snapshot()) ++snapshots_;
      for (const v1::MetricPoint& point : update.metrics()) steps_.push_back(point.step());
      for (const v1::LogBatch& batch : update.logs()) {
        for (const std::string& line : batch.lines()) lines_.push_back(line);
      }
      changed_.SignalAll();
    };
    callbacks.on_state = [this](const WatchState& state) {
      MutexLock lock(&mu_);
      states_.push_back(state);
      changed_.SignalAll();
    };
    auto client_or = RawClusterClient::Connect(client);
    EXPECT_THAT(client_or, IsOk());
    auto watch = (*client_or)->Watch(options, std::move(callbacks));
    EXPECT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
  }
  ~Reader() { watch_->Stop(); }

  // `condition` is called with everything below readable.
  template <typename Condition>
  bool WaitUntil(Condition condition, absl::Duration timeout = kLong) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mu_);
    while (!condition(*this)) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return condition(*this);
    }
    return true;
  }

  bool WaitFor(WatchState::Kind kind) {
    return WaitUntil(
        [kind](const Reader& r) { return !r.states_.empty() && r.states_.back().kind == kind; });
  }

  ClusterView view() {
    MutexLock lock(&mu_);
    return view_;
  }

  ClusterView view_;  // the members are for conditions, and for after WaitUntil
  int updates_ = 0;
  int snapshots_ = 0;
  std::vector<int64_t> steps_;
  std::vector<std::string> lines_;
  std::vector<WatchState> states_;

 private:
  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<ClusterWatch> watch_;
};

bool HasEvent(const ClusterView& view, absl::string_view kind, absl::string_view text) {
  return std::any_of(view.events().begin(), view.events().end(), [&](const v1::Event& event) {
    return event.kind() == kind && absl::StrContains(event.text(), text);
  });
}

// ---- watching -----------------------------------------------------------------------------------

TEST(WatchTest, AReaderSeesTheClusterThenWhatChangesUntilItsEnd) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  auto coordinator = StartCluster(2, InputMode::kDirect, dir->path());
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  Reader reader(OptionsFor(*coordinator), {.interval = absl::Milliseconds(20), .log_lines = 100});
  ASSERT_TRUE(reader.WaitUntil([](const Reader& r) { return r.updates_ > 0; }));
  ClusterView view = reader.view();
  ASSERT_EQ(view.slots().size(), 2u);
  EXPECT_EQ(view.slots()[1].state(), v1::SLOT_STATE_RUNNING);
  EXPECT_EQ(NodeName(view.slots()[1]), "worker:1");
  EXPECT_EQ(view.cluster().cluster_id(), coordinator->cluster_id());
  EXPECT_EQ(view.cluster().phase(), v1::ClusterInfo::PHASE_RUNNING);
  EXPECT_EQ(view.cluster().by_state(v1::SLOT_STATE_RUNNING), 2);
  EXPECT_EQ(view.spec_epoch(), 1u);
  EXPECT_EQ(view.spec(), coordinator->spec());
  EXPECT_TRUE(HasEvent(view, "cluster", "all 2 nodes have been started"));
  EXPECT_TRUE(HasEvent(view, "membership", "epoch 1"));

  SendSample(*first, 4096);
  SendMetric(*second, 17);
  SendLines(*second, 5, 1);
  v1::AgentMessage endpoints;
  (*endpoints.mutable_endpoints()->mutable_other())["tensorboard"] = "http://h:1";
  first->Send(endpoints);
  ASSERT_THAT(coordinator->OpenFeed("f1", "input", 3), IsOk());
  EXPECT_TRUE(reader.WaitUntil([](const Reader& r) {
    return r.view_.nodes()[0].sample().process().rss_bytes() == 4096 &&
           r.view_.nodes()[0].endpoints().count("tensorboard") == 1 && !r.steps_.empty() &&
           !r.lines_.empty() && r.view_.feeds().count("f1") == 1;
  }));
  EXPECT_THAT(reader.steps_, ElementsAre(17));
  EXPECT_THAT(reader.lines_, ElementsAre("5"));
  EXPECT_EQ(reader.snapshots_, 1);

  second->SendNode(v1::NODE_STATE_STOPPED);
  EXPECT_TRUE(reader.WaitUntil([](const Reader& r) {
    return r.view_.slots()[1].stopped() && HasEvent(r.view_, "node", "is stopped by a signal");
  }));
  second->SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 9});
  EXPECT_TRUE(reader.WaitUntil(
      [](const Reader& r) { return r.view_.cluster().phase() == v1::ClusterInfo::PHASE_FAILED; }));
  view = reader.view();
  EXPECT_EQ(view.cluster().first_cause_executor(), 1);
  EXPECT_THAT(view.cluster().first_cause().message(), HasSubstr("SIGKILL"));
  EXPECT_TRUE(HasEvent(view, "failure", "SIGKILL"));

  coordinator->Shutdown();
  EXPECT_TRUE(reader.WaitFor(WatchState::Kind::kGone));
  EXPECT_THAT(reader.states_.back().reason, IsOk());
  EXPECT_TRUE(HasEvent(reader.view(), "cluster", "the coordinator has ended"));

  const auto log = ReadFile(JoinPath(dir->path(), "events.jsonl"));
  ASSERT_THAT(log, IsOk());
  EXPECT_THAT(*log, HasSubstr("SIGKILL"));
  EXPECT_EQ(static_cast<size_t>(std::count(log->begin(), log->end(), '\n')),
            reader.view().events().size());
}

TEST(WatchTest, AReaderWhoseConnectionBreaksResumesWithoutGapOrRepeat) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator, 0);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  auto proxy = TcpFaultProxy::Start(coordinator->port(), [](bool) { return TcpFault{}; });
  ASSERT_THAT(proxy, IsOk());
  ClusterClientOptions options = OptionsFor(*coordinator);
  options.address = absl::StrCat("127.0.0.1:", (*proxy)->port());
  Reader reader(options, {.interval = absl::Milliseconds(20), .log_lines = 1000});
  int64_t step = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 50; ++i) {
      SendMetric(*agent, step);
      SendLines(*agent, static_cast<int>(step), 1);
      ++step;
    }
    ASSERT_TRUE(reader.WaitUntil(
        [step](const Reader& r) { return !r.steps_.empty() && r.steps_.back() >= step - 40; }));
    (*proxy)->CutAll();
  }
  ASSERT_TRUE(reader.WaitUntil([step](const Reader& r) {
    return static_cast<int64_t>(r.steps_.size()) >= step &&
           static_cast<int64_t>(r.lines_.size()) >= step;
  }));
  ASSERT_EQ(static_cast<int64_t>(reader.steps_.size()), step);
  ASSERT_EQ(static_cast<int64_t>(reader.lines_.size()), step);
  for (int64_t i = 0; i < step; ++i) {
    ASSERT_EQ(reader.steps_[i], i);
    ASSERT_EQ(reader.lines_[i], absl::StrCat(i));
  }
  EXPECT_EQ(reader.snapshots_, 1);
  EXPECT_TRUE(reader.WaitUntil([](const Reader& r) { return r.states_.back().reconnects >= 1; }));
  EXPECT_EQ(reader.view().dropped_metrics(), 0u);
}

TEST(WatchTest, ASlowReaderIsResynchronisedAndNobodyWaitsForIt) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator, 0);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  Notification blocked, wake;
  Reader slow(OptionsFor(*coordinator), {.interval = absl::Milliseconds(20), .log_lines = 1000},
              [&] {
                if (!blocked.HasBeenNotified()) blocked.Notify();
                wake.WaitForNotification();
              });
  ASSERT_TRUE(blocked.WaitForNotificationWithTimeout(absl::Seconds(60)));  // has its snapshot
  Reader quick(OptionsFor(*coordinator), {.interval = absl::Milliseconds(20), .log_lines = 1000});
  ASSERT_TRUE(quick.WaitUntil([](const Reader& r) { return r.updates_ > 0; }));
  constexpr int kLines = 40'000;
  for (int i = 0; i < kLines; i += 200) SendLines(*agent, i, 200);
  const std::string last = absl::StrCat(kLines - 1);
  EXPECT_TRUE(quick.WaitUntil(
      [&](const Reader& r) { return !r.lines_.empty() && r.lines_.back() == last; }));
  // The agent is served as ever.
  v1::AgentMessage kv;
  kv.mutable_kv()->set_request_id(1);
  kv.mutable_kv()->set_key("k");
  kv.mutable_kv()->set_set("v");
  agent->Send(kv);
  EXPECT_TRUE(agent->WaitUntil([](const FakeAgent& a) {
    const auto received = a.received();
    return !received.empty() && received.back().has_kv();
  }));
  wake.Notify();
  EXPECT_TRUE(slow.WaitUntil(
      [&](const Reader& r) { return !r.lines_.empty() && r.lines_.back() == last; }));
  EXPECT_EQ(slow.lines_.size() + slow.view().dropped_log_lines(), static_cast<size_t>(kLines));
  EXPECT_GT(slow.view().dropped_log_lines(), 0u);
  EXPECT_EQ(quick.lines_.size() + quick.view().dropped_log_lines(), static_cast<size_t>(kLines));
}

TEST(WatchTest, AStoppedReaderProcessDelaysNothing) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator, 0);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  ASSERT_EQ(setenv("MILLRACE_CLUSTERS_DIR", dir->path().c_str(), 1), 0);
  ClusterFile file;
  file.cluster_id = coordinator->cluster_id();
  file.address = coordinator->address();
  file.ca_pem = coordinator->ca_pem();
  file.identity_pem = coordinator->viewer_identity_pem();
  file.viewer_token = coordinator->tokens().viewer;
  const auto path = WriteClusterFile(file);
  ASSERT_THAT(path, IsOk());
  int out[2];
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  UniqueFd read_end(out[0]);
  UniqueFd write_end(out[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  std::string self = "/proc/self/exe", flag = "--read", name = *path;
  char* argv[] = {self.data(), flag.data(), name.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  char byte = 0;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 1);  // its first update
  EXPECT_EQ(kill(pid, SIGSTOP), 0);

  Reader other(OptionsFor(*coordinator), {.interval = absl::Milliseconds(20), .log_lines = 1000});
  constexpr int kLines = 60'000;
  for (int i = 0; i < kLines; i += 200) SendLines(*agent, i, 200);
  const std::string last = absl::StrCat(kLines - 1);
  EXPECT_TRUE(other.WaitUntil(
      [&](const Reader& r) { return !r.lines_.empty() && r.lines_.back() == last; }));
  EXPECT_EQ(coordinator->Snapshot().slots[0].state, SlotState::kRunning);
  const absl::Time before = absl::Now();
  coordinator->Shutdown();
  EXPECT_LT(absl::Now() - before, absl::Seconds(20));
  kill(pid, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  unsetenv("MILLRACE_CLUSTERS_DIR");
}

TEST(WatchTest, HundredsOfAgentsWithSamplesAreSeen) {
  RaiseDescriptorLimit();
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  constexpr int64_t kAgents = 100;  // handshakes take ten times as long
#else
  constexpr int64_t kAgents = 300;
#endif
  // Both ends of each connection are in this process: fewer where that many do not fit.
  const int count = static_cast<int>(std::min(kAgents, (DescriptorLimit() - 200) / 2));
  auto coordinator = StartCluster(count);
  FakeAgentGroup agents(FakeAgentOptions::For(*coordinator), count, absl::Seconds(5));
  ASSERT_THAT(coordinator->WaitRunning(absl::Minutes(4)), IsOk());
  Reader reader(OptionsFor(*coordinator), {.interval = absl::Milliseconds(200)});
  for (uint64_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < count; ++i) SendSample(agents.agent(i), round);
    EXPECT_TRUE(reader.WaitUntil(
        [round, count](const Reader& r) {
          return std::ssize(r.view_.nodes()) == count &&
                 std::all_of(r.view_.nodes().begin(), r.view_.nodes().end(),
                             [round](const v1::WatchUpdate::Node& node) {
                               return node.sample().process().rss_bytes() == round;
                             });
        },
        absl::Minutes(2)));
  }
  EXPECT_EQ(reader.snapshots_, 1);
  EXPECT_EQ(reader.view().cluster().by_state(v1::SLOT_STATE_RUNNING), count);
}

TEST(WatchTest, WrongTokensAndCertificatesAreFinalAndBecomeEvents) {
  auto coordinator = StartCluster(1);
  auto other = StartCluster(1);
  ClusterClientOptions options = OptionsFor(*coordinator);
  options.viewer_token = coordinator->tokens().agent;
  Reader agent_token(options, {});
  ASSERT_TRUE(agent_token.WaitFor(WatchState::Kind::kRefused));
  EXPECT_THAT(agent_token.states_.back().reason, StatusIs(absl::StatusCode::kPermissionDenied));
  options.viewer_token = std::string(64, 'a');
  Reader no_token(options, {});
  ASSERT_TRUE(no_token.WaitFor(WatchState::Kind::kRefused));
  EXPECT_THAT(no_token.states_.back().reason, StatusIs(absl::StatusCode::kUnauthenticated));
  options = OptionsFor(*coordinator);
  options.ca_pem = other->ca_pem();
  Reader wrong_ca(options, {});
  ASSERT_TRUE(wrong_ca.WaitFor(WatchState::Kind::kRefused));
  EXPECT_THAT(wrong_ca.states_.back().reason,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("certificate")));

  options = OptionsFor(*coordinator);
  options.operator_token = coordinator->tokens().viewer;
  auto viewer = ClientFor(options);
  EXPECT_THAT(viewer->StopCluster("x", /*now=*/false),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(viewer->KvSet("k", "v"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(viewer->RestartNode(0, "x"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(viewer->ListKeys("", 1, nullptr), StatusIs(absl::StatusCode::kPermissionDenied));
  options.operator_token.clear();
  EXPECT_THAT(ClientFor(options)->StopCluster("x", /*now=*/false),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("operator")));
  options.viewer_token = coordinator->tokens().operator_token;
  EXPECT_THAT(ClientFor(options)->Snapshot(), IsOk());
  auto view = ClientFor(OptionsFor(*coordinator))->Snapshot();
  ASSERT_THAT(view, IsOk());
  EXPECT_TRUE(HasEvent(*view, "security", "Watch was refused to"));
  EXPECT_TRUE(HasEvent(*view, "security", "StopCluster was refused to"));
  EXPECT_EQ(view->slots()[0].state(), v1::SLOT_STATE_REQUESTED);
}

TEST(WatchTest, AnAddressWhereNobodyIsIsTriedAgain) {
  auto coordinator = StartCluster(1);
  ClusterClientOptions options = OptionsFor(*coordinator);
  coordinator->Shutdown();
  Reader reader(options, {});
  ASSERT_TRUE(reader.WaitUntil([](const Reader& r) { return !r.states_.empty(); }));
  EXPECT_EQ(reader.states_.front().kind, WatchState::Kind::kConnecting);
  EXPECT_THAT(reader.states_.front().reason, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ClientFor(options)->Snapshot(), StatusIs(absl::StatusCode::kUnavailable));
  options.owner_gone = [] { return true; };
  Reader told(options, {});
  ASSERT_TRUE(told.WaitFor(WatchState::Kind::kGone));
  EXPECT_THAT(told.states_.back().reason, StatusIs(absl::StatusCode::kUnavailable));
}

// ---- logs ---------------------------------------------------------------------------------------

TEST(ReadLogsTest, TheLastLinesThenNewOnesUntilTheEnd) {
  auto coordinator = StartCluster(2);
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  SendLines(*first, 0, 10);
  SendLines(*second, 100, 10);
  auto client = ClientFor(OptionsFor(*coordinator));
  Reader reader(OptionsFor(*coordinator), {.interval = absl::Milliseconds(20), .log_lines = 100});
  ASSERT_TRUE(reader.WaitUntil([](const Reader& r) { return r.lines_.size() == 20; }));

  std::vector<std::string> lines;
  const auto collect = [&lines](const v1::LogBatch& batch) {
    lines.insert(lines.end(), batch.lines().begin(), batch.lines().end());
    return true;
  };
  EXPECT_THAT(client->ReadLogs({.executor_ids = {1}, .lines = 2}, collect), IsOk());
  EXPECT_THAT(lines, ElementsAre("108", "109"));
  lines.clear();
  EXPECT_THAT(client->ReadLogs({.lines = 1}, collect), IsOk());
  EXPECT_THAT(lines, ElementsAre("9", "109"));
  EXPECT_THAT(client->ReadLogs({.executor_ids = {7}}, collect),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no executor 7")));
  EXPECT_THAT(client->ReadLogs({.lines = 1001}, collect),
              StatusIs(absl::StatusCode::kInvalidArgument));

  lines.clear();
  const auto until_three = [&](const v1::LogBatch& batch) {
    collect(batch);
    if (lines.size() == 1) SendLines(*first, 10, 2);
    return lines.size() < 3;
  };
  EXPECT_THAT(client->ReadLogs({.executor_ids = {0}, .lines = 1, .follow = true}, until_three),
              IsOk());
  EXPECT_THAT(lines, ElementsAre("9", "10", "11"));

  Notification began;
  Thread ender("ender", [&] {
    began.WaitForNotification();
    coordinator->Shutdown();
  });
  EXPECT_THAT(client->ReadLogs({.lines = 1, .follow = true},
                               [&](const v1::LogBatch&) {
                                 began.Notify();
                                 return true;
                               }),
              IsOk());
  ender.Join();
}

// ---- operators ----------------------------------------------------------------------------------

TEST(OperatorTest, StopClusterEndsTheNodesAndTheDriversWaits) {
  auto coordinator = StartCluster(2);
  auto first = Dial(*coordinator, 0);  // the other never comes
  auto client = ClientFor(OptionsFor(*coordinator));
  absl::Status waited;
  Thread driver("driver", [&] { waited = coordinator->WaitRunning(); });
  EXPECT_THAT(coordinator->stop_request(), IsOk());
  EXPECT_THAT(client->StopCluster("enough of it", /*now=*/false), IsOk());
  EXPECT_THAT(client->StopCluster("enough of it", /*now=*/false), IsOk());
  driver.Join();
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kCancelled,
                               HasSubstr("stopped by an operator: enough of it")));
  EXPECT_THAT(coordinator->stop_request(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  auto view = client->Snapshot();
  ASSERT_THAT(view, IsOk());
  EXPECT_TRUE(HasEvent(*view, "cluster", "an operator stops the cluster: enough of it"));
}

TEST(OperatorTest, TheKeyValueStoreIsTheNodesOwn) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator, 0);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  auto client = ClientFor(OptionsFor(*coordinator));
  EXPECT_THAT(client->KvSet("a/1", "one"), IsOk());
  EXPECT_THAT(client->KvSet("a/2", "three"), IsOk());
  EXPECT_THAT(client->KvGet("a/1", absl::ZeroDuration()), IsOkAndHolds("one"));
  EXPECT_THAT(client->KvGet("none", absl::ZeroDuration()), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client->KvGet("none", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(client->KvAdd("n", 2), IsOkAndHolds(2));
  EXPECT_THAT(client->KvAdd("n", 3), IsOkAndHolds(5));
  EXPECT_THAT(client->KvAdd("n", -6), IsOkAndHolds(-1));
  EXPECT_THAT(client->KvAdd("a/1", 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client->KvSet("", "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  bool more = true;
  auto keys = client->ListKeys("a/", 10, &more);
  ASSERT_THAT(keys, IsOk());
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[1].key, "a/2");
  EXPECT_EQ((*keys)[1].value_bytes, 5u);
  EXPECT_FALSE(more);
  ASSERT_THAT(client->ListKeys("", 1, &more), IsOk());
  EXPECT_TRUE(more);
  EXPECT_THAT(client->KvDelete("a/1"), IsOkAndHolds("one"));
  // A get that waits for a node, and one that a shutdown ends.
  absl::StatusOr<std::string> got;
  Thread waiter("waiter", [&] { got = client->KvGet("from-node", kLong); });
  v1::AgentMessage kv;
  kv.mutable_kv()->set_request_id(1);
  kv.mutable_kv()->set_key("from-node");
  kv.mutable_kv()->set_set("hello");
  agent->Send(kv);
  waiter.Join();
  EXPECT_THAT(got, IsOkAndHolds("hello"));
  Thread ended("ended", [&] { got = client->KvGet("never", kLong); });
  ASSERT_TRUE(Eventually([&] { return CoordinatorPeer::KvWaits(*coordinator) == 1; }));
  coordinator->Shutdown();
  ended.Join();
  EXPECT_FALSE(got.ok());
}

TEST(OperatorTest, RestartNodeSaysWhyItCannot) {
  auto coordinator = StartCluster(1);
  auto client = ClientFor(OptionsFor(*coordinator));
  EXPECT_THAT(client->RestartNode(3, "x"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client->RestartNode(0, "x"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// The child of AStoppedReaderProcessDelaysNothing: watches, and writes a byte for each update.
int ReadForEver(const char* path) {
  const auto file = ReadClusterFile(path);
  if (!file.ok()) return 2;
  const auto client = RawClusterClient::Connect(ClusterClientOptionsFrom(*file));
  if (!client.ok()) return 3;
  RawWatchCallbacks callbacks;
  callbacks.on_update = [](const v1::WatchUpdate&, const ClusterView&) { (void)!write(1, ".", 1); };
  const auto watch = (*client)->Watch({.interval = absl::Milliseconds(20), .log_lines = 1000},
                                      std::move(callbacks));
  absl::SleepFor(absl::Minutes(5));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--read") return millrace::ReadForEver(argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
