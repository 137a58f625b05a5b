#include "core/coordinator/coordinator.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/client/cluster_file.h"
#include "core/client/ended_cluster.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matches;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(60);

CoordinatorOptions Options(const RoleOptions& roles) {
  CoordinatorOptions options;
  options.roles = *DealRoles(roles);
  options.program.path = "/bin/true";
  return options;
}

std::unique_ptr<Coordinator> Start(CoordinatorOptions options) {
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

std::unique_ptr<FakeAgent> AgentFor(const Coordinator& coordinator, int executor_id,
                                    const std::string& agent_id, bool plays_along = true) {
  FakeAgentOptions options = FakeAgentOptions::For(coordinator);
  options.executor_id = executor_id;
  options.agent_id = agent_id;
  options.plays_along = plays_along;
  options.node_address = absl::StrCat(agent_id, ":1");
  return std::make_unique<FakeAgent>(options);
}

// Remembers what it hears.
class RecordingObserver final : public CoordinatorObserver {
 public:
  void OnSlot(const SlotStatus& slot) override {
    Add(absl::StrCat("slot ", slot.role.ToString(), " ", SlotStateName(slot.state)));
  }
  void OnOutput(int executor_id, const NodeRole& role, LogSource source,
                const std::vector<std::string>& lines, uint64_t dropped) override {
    for (const std::string& line : lines) {
      Add(absl::StrCat("log ", role.ToString(), " ", source == LogSource::kStderr ? "err" : "out",
                       " ", line, " ", dropped));
    }
    (void)executor_id;
  }
  void OnMetric(int /*executor_id*/, const NodeRole& role, absl::string_view name, int64_t step,
                double value) override {
    Add(absl::StrCat("metric ", role.ToString(), " ", name, " ", step, " ", value));
  }
  void OnFailure(const absl::Status& status) override {
    Add(absl::StrCat("failure ", status.message()));
  }

  std::vector<std::string> events() {
    MutexLock lock(&mu_);
    return events_;
  }

 private:
  void Add(std::string event) {
    MutexLock lock(&mu_);
    if (events_.empty() || events_.back() != event) events_.push_back(std::move(event));
  }
  Mutex mu_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mu_);
};

TEST(CoordinatorTest, AClusterComesUpRunsAndEndsAsAsked) {
  RecordingObserver observer;
  CoordinatorOptions options = Options({.num_executors = 3, .num_ps = 1, .master_node = "chief"});
  options.observer = &observer;
  options.program.args = {"--x"};
  options.program.env = {{"A", "b"}};
  auto coordinator = Start(std::move(options));
  FakeAgentGroup agents(FakeAgentOptions::For(*coordinator), 3);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());

  const ClusterStatus status = coordinator->Snapshot();
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.slots[1].role.ToString(), "chief:0");
  for (const SlotStatus& slot : status.slots) {
    EXPECT_EQ(slot.state, SlotState::kRunning);
    EXPECT_EQ(slot.node_pid, 4242);
    EXPECT_EQ(slot.host, "fake-host");
    EXPECT_GT(slot.ReachedAt(SlotState::kRegistered), absl::InfinitePast());
  }
  EXPECT_EQ(coordinator->spec().total_tasks(), 3u);
  for (int i = 0; i < agents.size(); ++i) {
    EXPECT_EQ(agents.agent(i).spec(), coordinator->spec());
    const v1::Registered registered = *agents.agent(i).registered();
    EXPECT_EQ(registered.cluster_id(), coordinator->cluster_id());
    EXPECT_EQ(registered.nonce().size(), 16u);
    EXPECT_THAT(registered.certificate_pem(), HasSubstr("BEGIN CERTIFICATE"));
    EXPECT_THAT(registered.node().args(), ElementsAre("--x"));
    EXPECT_EQ(registered.node().num_workers(), 2);
    EXPECT_EQ(registered.node().env().at("A"), "b");
  }

  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kFed, absl::Milliseconds(10)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("2 nodes have not ended within 0 s: chief:0 (executor 1, "
                                 "running, host fake-host, pid 4242); worker:0")));
  coordinator->Stop(NodeFilter::kFed, "the driver is done");
  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kFed, kLong), IsOk());
  EXPECT_EQ(coordinator->Snapshot().slots[0].state, SlotState::kRunning);
  coordinator->Stop(NodeFilter::kPsAndEvaluator, "the driver is done");
  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  EXPECT_THAT(coordinator->first_cause(), IsOk());
  for (int i = 0; i < agents.size(); ++i) EXPECT_THAT(agents.agent(i).WaitStatus(), IsOk());
  coordinator->Shutdown();
  coordinator->Shutdown();
  EXPECT_THAT(observer.events(), Contains("slot ps:0 finished"));
  EXPECT_THAT(observer.events(), Not(Contains(StartsWith("failure"))));
}

TEST(CoordinatorTest, TheFirstFailureIsTheCauseAndItsTextIsComplete) {
  RecordingObserver observer;
  CoordinatorOptions options = Options({.num_executors = 2});
  options.observer = &observer;
  auto coordinator = Start(std::move(options));
  auto a = AgentFor(*coordinator, 0, "a");
  auto b = AgentFor(*coordinator, 1, "b");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  b->SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 9}, {"loading", "out of memory"});
  const char first_line[] =
      "worker:1 (executor 1, attempt 0, host fake-host, pid 4242) was killed by SIGKILL (if nobody "
      "did that, its host was short of memory: see dmesg there)";
  EXPECT_THAT(
      coordinator->WaitFailure(kLong),
      StatusIs(absl::StatusCode::kAborted, absl::StrCat(first_line,
                                                        ". Last stderr line: 'out of memory'\n"
                                                        "stderr, last 2 lines:\n  loading\n"
                                                        "  out of memory")));
  a->SendExit({.kind = ExitStatus::Kind::kExited, .code = 3});
  ASSERT_THAT(coordinator->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  EXPECT_THAT(coordinator->first_cause(),
              StatusIs(absl::StatusCode::kAborted,
                       StartsWith(absl::StrCat(first_line,
                                               "; also failed: worker:0 exited with code 3."))));
  EXPECT_THAT(coordinator->WaitRunning(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(coordinator->Cause(0), StatusIs(absl::StatusCode::kAborted,
                                              "worker:0 (executor 0, attempt 0) exited with code "
                                              "3"));
  EXPECT_THAT(coordinator->Cause(1), StatusIs(absl::StatusCode::kAborted, StartsWith(first_line)));
  coordinator->Shutdown();
  int failures = 0;
  for (const std::string& event : observer.events()) failures += event.starts_with("failure");
  EXPECT_EQ(failures, 1);
}

// Of programs that do not say why they end: it takes its time to end, and its peers fail before it.
TEST(CoordinatorTest, OnABusyMachineTheOneThatComplainedFirstIsWaitedFor) {
  RecordingObserver observer;
  CoordinatorOptions options = Options({.num_executors = 2});
  options.observer = &observer;
  options.lost_after = kLong;
  options.processor_share = [] { return 0.001; };
  auto coordinator = Start(std::move(options));
  auto a = AgentFor(*coordinator, 0, "a");
  auto b = AgentFor(*coordinator, 1, "b");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  v1::AgentMessage words;
  words.mutable_log()->set_source(v1::LogLines::SOURCE_STDERR);
  words.mutable_log()->add_lines("the loss is nan");
  a->Send(words);
  ASSERT_TRUE(Eventually(
      [&] { return Matches(Contains("log worker:0 err the loss is nan 0"))(observer.events()); }));
  b->SendExit({.kind = ExitStatus::Kind::kExited, .code = 1}, {"the peer is gone"});
  EXPECT_THAT(coordinator->WaitFailure(absl::Seconds(1)), IsOk());
  EXPECT_EQ(coordinator->Snapshot().slots[1].state, SlotState::kFailed);
  a->SendExit({.kind = ExitStatus::Kind::kExited, .code = 2}, {"the loss is nan"});
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(StartsWith("worker:0 "), HasSubstr("also failed: worker:1 "))));
}

TEST(CoordinatorTest, AnAgentWhoseStreamBreaksIsLostAfterItsLease) {
  CoordinatorOptions options = Options({.num_executors = 1});
  options.lease = absl::Milliseconds(200);
  auto coordinator = Start(std::move(options));
  auto agent = AgentFor(*coordinator, 0, "a");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  agent->Cancel();
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("was lost: the stream of its agent broke")));
  EXPECT_EQ(coordinator->Snapshot().slots[0].state, SlotState::kLost);
}

TEST(CoordinatorTest, ASilentAgentIsLost) {
  CoordinatorOptions options = Options({.num_executors = 1});
  options.heartbeat_interval = absl::Milliseconds(50);
  options.lost_after = absl::Milliseconds(300);
  auto coordinator = Start(std::move(options));
  auto agent = AgentFor(*coordinator, 0, "a");
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no heartbeat from its agent")));
  EXPECT_THAT(agent->WaitStatus(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(CoordinatorTest, AReplacementTakesTheSlotAndThePeersAreTold) {
  CoordinatorOptions options = Options({.num_executors = 2});
  options.failure.restart.max_restarts = 1;
  auto coordinator = Start(std::move(options));
  auto a = AgentFor(*coordinator, 0, "a");
  auto b = AgentFor(*coordinator, 1, "b");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  coordinator->ReportAgentExit(
      {.executor_id = 1, .exit = {.kind = ExitStatus::Kind::kSignaled, .signal = 9}});
  EXPECT_THAT(coordinator->first_cause(), IsOk());
  auto c = AgentFor(*coordinator, 1, "c");
  ASSERT_TRUE(c->WaitRegistered());
  EXPECT_EQ(c->registered()->attempt(), 1u);
  EXPECT_NE(c->registered()->nonce(), b->registered()->nonce());
  EXPECT_TRUE(a->WaitUntil([](const FakeAgent& agent) { return agent.epoch() == 2; }));
  EXPECT_THAT(a->spec().TaskAddress("worker", 1), IsOkAndHolds("c:1"));
  EXPECT_TRUE(c->WaitUntil([](const FakeAgent& agent) { return agent.epoch() == 2; }));
}

TEST(CoordinatorTest, TheReservationTimeoutNamesWhoIsMissing) {
  FakeClock clock;
  CoordinatorOptions options = Options({.num_executors = 2});
  options.clock = &clock;
  options.lost_after = absl::Hours(1);
  options.lease = absl::Hours(1);
  auto coordinator = Start(std::move(options));
  coordinator->ReportAgentStarted(1, 77);
  auto agent = AgentFor(*coordinator, 0, "a");
  ASSERT_TRUE(agent->WaitRegistered());
  for (int second = 0; second < 600; ++second) {
    clock.Advance(absl::Seconds(1));
    static_cast<void>(coordinator->Snapshot());  // it runs meanwhile, and looks at its clock
  }
  EXPECT_THAT(coordinator->WaitRunning(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("1 of 2 slots did not arrive in 600 s: worker:1 (executor 1) "
                                 "started 600 s ago, not connected")));
}

// A driver that was stopped meanwhile sees the agent's end before it reads what the agent wrote.
TEST(CoordinatorTest, AnAgentThatEndedByItselfHasItsLastWordsHeard) {
  auto coordinator = Start(Options({.num_executors = 1}));
  auto agent = AgentFor(*coordinator, 0, "a");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  coordinator->ReportAgentExit(
      {.executor_id = 0, .exit = {.kind = ExitStatus::Kind::kExited, .code = 1}});
  agent->SendExit({.kind = ExitStatus::Kind::kExited, .code = 3}, {"out of cheese"});
  agent->HalfClose();
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("exited with code 3"), HasSubstr("out of cheese"))));
}

TEST(CoordinatorTest, AnAgentThatEndedWithoutAWordIsLost) {
  auto coordinator = Start(Options({.num_executors = 1}));
  auto agent = AgentFor(*coordinator, 0, "a");
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  coordinator->ReportAgentExit(
      {.executor_id = 0, .exit = {.kind = ExitStatus::Kind::kExited, .code = 0}});
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("was lost: its agent exited with code 0")));
}

TEST(CoordinatorTest, AnAgentThatCannotStartFailsTheCluster) {
  auto coordinator = Start(Options({.num_executors = 2}));
  coordinator->ReportAgentExit(
      {.executor_id = 1, .status = absl::PermissionDeniedError("/opt/agent: exec format error")});
  EXPECT_THAT(coordinator->WaitRunning(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "worker:1 (executor 1, attempt 0) did not start: its agent failed: "
                       "/opt/agent: exec format error"));
}

TEST(CoordinatorTest, CancelEndsTheWaits) {
  auto coordinator = Start(Options({.num_executors = 1}));
  Thread canceller("canceller", [&] { coordinator->Cancel("interrupted"); });
  EXPECT_THAT(coordinator->WaitRunning(), StatusIs(absl::StatusCode::kCancelled, "interrupted"));
  EXPECT_THAT(coordinator->WaitFailure(kLong), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(coordinator->WaitFeed("f", 1, 0, kLong), StatusIs(absl::StatusCode::kCancelled));
  coordinator->Stop(NodeFilter::kAll, "cancelled");
  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kAll, kLong), IsOk());
}

TEST(CoordinatorTest, WhoeverWaitsForAFeedIsToldAtOnce) {
  constexpr int kRounds = 20;
  CoordinatorOptions options = Options({.num_executors = 1});
  options.input_mode = InputMode::kFeed;
  auto coordinator = Start(std::move(options));
  ASSERT_THAT(coordinator->OpenFeed("f", "input", kRounds + 2), IsOk());
  const auto report = [&](int64_t partition, PartitionState state) {
    EXPECT_THAT(
        coordinator->ReportPartition(
            "f", {.partition = partition, .state = state, .executor_id = 0, .feeder_attempt = 1}),
        IsOk());
  };
  // A wait that nobody wakes looks once a second.
  const absl::Time began = absl::Now();
  for (int i = 0; i < kRounds; ++i) {
    Thread feeder("feeder", [&] { report(i, PartitionState::kDone); });
    const absl::StatusOr<FeedSummary> feed = coordinator->WaitFeed("f", i + 1, 0, kLong);
    ASSERT_THAT(feed, IsOk());
    EXPECT_EQ(feed->done, i + 1);
  }
  EXPECT_LT(absl::Now() - began, kRounds * absl::Seconds(1) / 2);

  Thread failing("failing", [&] { report(kRounds, PartitionState::kFailed); });
  EXPECT_THAT(coordinator->WaitFeed("f", kRounds + 1, 0, kLong)->failed_partitions,
              ElementsAre(kRounds));
  const absl::StatusOr<FeedSummary> same =
      coordinator->WaitFeed("f", kRounds + 1, 1, absl::Milliseconds(10));
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->done, kRounds);
  EXPECT_THAT(coordinator->WaitFeed("g", 1, 0, kLong), StatusIs(absl::StatusCode::kNotFound));
  Thread closing("closing", [&] { coordinator->CloseFeed("f"); });
  EXPECT_TRUE(coordinator->WaitFeed("f", kRounds + 1, 1, kLong)->closed);
}

TEST(CoordinatorTest, FeedersFindTheNodesThatPublishedAnEndpoint) {
  CoordinatorOptions options = Options({.num_executors = 3, .num_ps = 1});
  options.input_mode = InputMode::kFeed;
  auto coordinator = Start(std::move(options));
  EXPECT_THAT(coordinator->fed_nodes(), ElementsAre(1, 2));
  EXPECT_EQ(coordinator->LookupFeed(1)->state, FeedTarget::State::kStarting);
  EXPECT_THAT(coordinator->LookupFeed(0), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(coordinator->LookupFeed(3), StatusIs(absl::StatusCode::kNotFound));
  auto ps = AgentFor(*coordinator, 0, "ps");
  auto a = AgentFor(*coordinator, 1, "a");
  auto b = AgentFor(*coordinator, 2, "b");
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  const FeedTarget target = *coordinator->LookupFeed(1);
  EXPECT_EQ(target.state, FeedTarget::State::kRunning);
  EXPECT_EQ(target.tcp_endpoint, "tcp://127.0.0.1:9");
  EXPECT_EQ(target.key, "secret");
  EXPECT_EQ(target.nonce, a->registered()->nonce());

  coordinator->FeedEnd("feed-1", false);
  coordinator->EndFeed("input");
  ASSERT_THAT(coordinator->AnnounceFeeder("feeder/1", std::string(40, 'a')), IsOk());
  auto told = [](const FakeAgent& agent) {
    bool feed_end = false, end_feed = false, feeder = false;
    for (const auto& message : agent.received()) {
      feed_end = feed_end || message.feed_end().feed_id() == "feed-1";
      end_feed = end_feed || message.end_feed().queue() == "input";
      feeder = feeder || message.feeder_keys().keys().count("feeder/1") > 0;
    }
    return feed_end && end_feed && feeder;
  };
  EXPECT_TRUE(a->WaitUntil(told));
  EXPECT_TRUE(b->WaitUntil(told));
  auto again = AgentFor(*coordinator, 1, "a", /*plays_along=*/false);
  EXPECT_TRUE(again->WaitUntil(told));
  EXPECT_FALSE(told(*ps));

  again->SendExit({.kind = ExitStatus::Kind::kExited, .code = 1});
  EXPECT_THAT(coordinator->WaitFailure(kLong), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(coordinator->LookupFeed(1)->state, FeedTarget::State::kFailed);
}

TEST(CoordinatorTest, FedEndpointsThatDoNotComeAreNamed) {
  CoordinatorOptions options = Options({.num_executors = 2});
  options.input_mode = InputMode::kFeed;
  auto coordinator = Start(std::move(options));
  auto a = AgentFor(*coordinator, 0, "a");
  auto b = AgentFor(*coordinator, 1, "b", /*plays_along=*/false);
  ASSERT_TRUE(b->WaitRegistered());
  b->SendNode(v1::NODE_STATE_RUNNING);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  EXPECT_THAT(coordinator->WaitFedEndpoints(absl::Milliseconds(100)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("1 fed node published no feed endpoint in 0.1 s: worker:1 "
                                       "(executor 1) running for"),
                             HasSubstr("RunNode"))));
  b->SendExit({.kind = ExitStatus::Kind::kExited, .code = 0});
  EXPECT_THAT(coordinator->WaitFedEndpoints(kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("worker:1 (executor 1) has finished and published no")));
}

TEST(CoordinatorTest, LogsAndMetricsReachTheObserverInOrder) {
  RecordingObserver observer;
  CoordinatorOptions options = Options({.num_executors = 1});
  options.observer = &observer;
  auto coordinator = Start(std::move(options));
  auto agent = AgentFor(*coordinator, 0, "a");
  ASSERT_TRUE(agent->WaitRegistered());
  v1::AgentMessage message;
  message.mutable_log()->set_source(v1::LogLines::SOURCE_STDERR);
  message.mutable_log()->add_lines("hello");
  message.mutable_log()->set_dropped(7);
  agent->Send(message);
  message.mutable_metric()->set_name("loss");
  message.mutable_metric()->set_step(3);
  message.mutable_metric()->set_value(0.5);
  agent->Send(message);
  agent->HalfClose();
  ASSERT_THAT(agent->WaitStatus(), IsOk());
  coordinator->Shutdown();
  const std::vector<std::string> events = observer.events();
  EXPECT_THAT(events, Contains("log worker:0 err hello 7"));
  EXPECT_THAT(events, Contains("metric worker:0 loss 3 0.5"));
  EXPECT_THAT(events[0], "slot worker:0 connected");
}

TEST(CoordinatorTest, TheLedgerIsReachable) {
  auto coordinator = Start(Options({.num_executors = 1}));
  EXPECT_THAT(coordinator->OpenFeed("f", "input", 2), IsOk());
  EXPECT_THAT(coordinator->ReportPartition(
                  "f", {.partition = 1, .state = PartitionState::kReceived, .executor_id = 0}),
              IsOk());
  EXPECT_EQ(coordinator->FeedSummaryOf("f")->received, 1);
  EXPECT_THAT(coordinator->UnfinishedPartitions("f", 0, 0), ElementsAre(1));
  coordinator->CloseFeed("f");
  EXPECT_THAT(coordinator->FeedSummaries(), SizeIs(1));
}

TEST(CoordinatorTest, BadOptionsAreNamedAndNothingIsStarted) {
  auto refused = [](void (*change)(CoordinatorOptions&), const std::string& text,
                    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    CoordinatorOptions options = Options({.num_executors = 2});
    change(options);
    EXPECT_THAT(Coordinator::Start(std::move(options)), StatusIs(code, HasSubstr(text)));
  };
  refused([](auto& o) { o.roles.clear(); }, "roles");
  refused([](auto& o) { o.roles[1] = o.roles[0]; }, "worker:0 comes twice");
  refused([](auto& o) { o.roles[1].job_name = "Work er"; }, "Work er");
  refused([](auto& o) { o.cluster_id = "a/b"; }, "cluster_id");
  refused([](auto& o) { o.port = 70000; }, "port");
  refused([](auto& o) { o.program.path.clear(); }, "program.path");
  refused([](auto& o) { o.program.env["A=B"] = ""; }, "program.env");
  refused([](auto& o) { o.program.args = {std::string("a\0b", 3)}; }, "program.args");
  refused([](auto& o) { o.feed.budget_bytes = 0; }, "feed.budget_bytes");
  refused([](auto& o) { o.failure.stop_timeout = absl::ZeroDuration(); }, "stop_timeout");
  refused([](auto& o) { o.lease = absl::ZeroDuration(); }, "lease");
  refused([](auto& o) { o.lost_after = o.heartbeat_interval; }, "lost_after");
  refused([](auto& o) { o.reservation_timeout = -absl::Seconds(1); }, "reservation_timeout");
  refused([](auto& o) { o.failure.restart.max_restarts = -1; }, "restart.max_restarts");
  refused([](auto& o) { o.failure.restart_by_job["pilot"] = {}; }, "pilot");
  refused([](auto& o) { o.failure.restart_by_job["worker"].window = absl::ZeroDuration(); },
          "failure.restart_by_job[worker]");
  refused([](auto& o) { o.failure.quarantine.failures = 0; }, "quarantine.failures");
  refused(
      [](auto& o) {
        o.program.path = "/nonexistent/x";
        o.program.shipped = true;
      },
      "/nonexistent/x", absl::StatusCode::kNotFound);
  refused(
      [](auto& o) {
        o.program.path = "/tmp";
        o.program.shipped = true;
      },
      "/tmp is a folder");
  refused([](auto& o) { o.bind_address = "203.0.113.7"; }, "203.0.113.7",
          absl::StatusCode::kUnavailable);
}

TEST(CoordinatorTest, IsFoundByItsFileWhileItLives) {
  const auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  ::setenv("MILLRACE_CLUSTERS_DIR", JoinPath(dir->path(), "clusters").c_str(), 1);
  CoordinatorOptions options = Options({.num_executors = 1});
  options.log_dir = "/tmp/logs";
  const auto coordinator = Start(std::move(options));
  coordinator->PublishClusterFile();
  const auto file = NewestClusterFile();
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->cluster_id, coordinator->cluster_id());
  EXPECT_EQ(file->address, coordinator->address());
  EXPECT_EQ(file->ca_pem, coordinator->ca_pem());
  EXPECT_EQ(file->identity_pem, coordinator->viewer_identity_pem());
  EXPECT_EQ(file->viewer_token, coordinator->tokens().viewer);
  EXPECT_EQ(file->operator_token, coordinator->tokens().operator_token);
  EXPECT_EQ(file->program, "/bin/true");
  EXPECT_EQ(file->log_dir, "/tmp/logs");
  EXPECT_EQ(file->pid, ::getpid());
  EXPECT_TRUE(ListEndedClusters(JoinPath(dir->path(), "clusters")).empty());
  coordinator->Shutdown();
  coordinator->Shutdown();
  EXPECT_THAT(NewestClusterFile(), StatusIs(absl::StatusCode::kNotFound));
  const auto ended = ListEndedClusters(JoinPath(dir->path(), "clusters"));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cluster_id, coordinator->cluster_id());
  EXPECT_EQ(ended[0].program, "/bin/true");
  EXPECT_EQ(ended[0].log_dir, "/tmp/logs");
  EXPECT_EQ(ended[0].outcome, "ended");
}

TEST(CoordinatorTest, LivesWithoutAFileThatCannotBeWritten) {
  const auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  ASSERT_EQ(::chmod(dir->path().c_str(), 0777), 0);  // others could put a false one there
  ::setenv("MILLRACE_CLUSTERS_DIR", dir->path().c_str(), 1);
  const auto coordinator = Start(Options({.num_executors = 1}));
  coordinator->PublishClusterFile();
  FakeAgentGroup agents(FakeAgentOptions::For(*coordinator), 1);
  EXPECT_THAT(coordinator->WaitRunning(kLong), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(dir->path()));
}

TEST(CoordinatorTest, TwoCoordinatorsDoNotShareAPort) {
  auto first = Start(Options({.num_executors = 1}));
  CoordinatorOptions options = Options({.num_executors = 1});
  options.port = first->port();
  EXPECT_THAT(Coordinator::Start(std::move(options)), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace millrace
