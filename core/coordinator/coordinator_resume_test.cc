// A coordinator that goes on where another one, which was killed, left off. What a driver that dies
// leaves behind is its state folder: these tests end the first coordinator without a word to that.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/state/saved_train.h"
#include "core/proto/coordinator.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

class CoordinatorResumeTest : public ::testing::Test {
 protected:
  CoordinatorOptions Options(bool resume) const {
    CoordinatorOptions options;
    options.roles = *DealRoles({.num_executors = 2});
    options.program.path = "/bin/true";
    options.input_mode = InputMode::kFeed;
    options.lost_after = kLong;
    options.lease = kLong;
    options.state_folder = folder_;
    options.failure.restart.max_restarts = restarts_;
    if (observer_ != nullptr) options.output_window_bytes = int64_t{64} << 10;
    options.observer = observer_;
    options.resume = resume;
    return options;
  }

  void Start(bool resume = false) {
    auto started = Coordinator::Start(Options(resume));
    ASSERT_THAT(started.status(), IsOk());
    coordinator_ = *std::move(started);
  }

  // The driver dies, and another one comes.
  void Replace() {
    agents_.clear();
    coordinator_.reset();
    Start(/*resume=*/true);
  }

  // The agent, new or come back, of this slot. `reported`: what its node is by now.
  FakeAgent& Agent(int executor_id, std::optional<v1::NodeState> reported = std::nullopt) {
    FakeAgentOptions options = FakeAgentOptions::For(*coordinator_);
    options.executor_id = executor_id;
    options.agent_id = absl::StrCat("agent", executor_id);
    options.node_address = absl::StrCat("host", executor_id, ":1");
    options.plays_along = !reported.has_value();
    agents_.push_back(std::make_unique<FakeAgent>(options));
    FakeAgent& agent = *agents_.back();
    EXPECT_TRUE(agent.WaitRegistered());
    if (reported.has_value()) agent.SendNode(*reported, agent.registered()->attempt());
    return agent;
  }

  void BringUp() {
    Agent(0);
    Agent(1);
    ASSERT_THAT(coordinator_->WaitRunning(kLong), IsOk());
  }

  static void SendAdd(FakeAgent& agent, uint64_t request_id) {
    v1::AgentMessage message;
    message.mutable_kv()->set_request_id(request_id);
    message.mutable_kv()->set_key("count");
    message.mutable_kv()->set_add(1);
    agent.Send(message);
  }
  static std::string WaitKv(FakeAgent& agent, uint64_t request_id) {
    std::string value;
    const bool answered = agent.WaitUntil([&](const FakeAgent& it) {
      for (const v1::CoordinatorMessage& message : it.received()) {
        if (!message.has_kv() || message.kv().request_id() != request_id) continue;
        value = message.kv().value();
        return true;
      }
      return false;
    });
    return answered ? value : "no answer";
  }

  static void SendBarrier(FakeAgent& agent, uint64_t request_id) {
    v1::AgentMessage message;
    message.mutable_barrier()->set_request_id(request_id);
    message.mutable_barrier()->set_name("b");
    message.mutable_barrier()->mutable_timeout()->set_seconds(60);
    agent.Send(message);
  }
  static bool WaitBarrier(FakeAgent& agent) {
    return agent.WaitUntil([](const FakeAgent& it) {
      for (const v1::CoordinatorMessage& message : it.received()) {
        if (message.has_barrier()) return !message.barrier().has_error();
      }
      return false;
    });
  }

  const TempDir dir_ = *TempDir::Create("resume");
  const std::string folder_ = JoinPath(dir_.path(), "state");
  int restarts_ = 0;
  CoordinatorObserver* observer_ = nullptr;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<FakeAgent>> agents_;
};

TEST_F(CoordinatorResumeTest, TheNextDriverIsTheOneBeforeToEveryAgent) {
  Start();
  const std::string id = coordinator_->cluster_id();
  const std::string address = coordinator_->address();
  const std::string ca = coordinator_->ca_pem();
  const CoordinatorTokens tokens = coordinator_->tokens();
  const std::string identity = coordinator_->agent_identity_pem();
  Replace();
  EXPECT_EQ(coordinator_->cluster_id(), id);
  EXPECT_EQ(coordinator_->address(), address);
  EXPECT_EQ(coordinator_->ca_pem(), ca);
  EXPECT_EQ(coordinator_->tokens().agent, tokens.agent);
  EXPECT_EQ(coordinator_->tokens().viewer, tokens.viewer);
  EXPECT_EQ(coordinator_->tokens().operator_token, tokens.operator_token);
  EXPECT_EQ(coordinator_->agent_identity_pem(), identity);
  BringUp();  // with that CA, identity and token
}

TEST_F(CoordinatorResumeTest, AgentsThatComeBackGoOnWithTheirAttempt) {
  Start();
  BringUp();
  const std::string nonce = agents_[1]->registered()->nonce();
  const uint64_t epoch = agents_[1]->epoch();
  Replace();
  EXPECT_EQ(coordinator_->Snapshot().slots[1].state, SlotState::kRegistered);
  Agent(0, v1::NODE_STATE_RUNNING);
  FakeAgent& again = Agent(1, v1::NODE_STATE_RUNNING);
  ASSERT_THAT(coordinator_->WaitRunning(kLong), IsOk());
  EXPECT_EQ(again.registered()->attempt(), 0u);
  EXPECT_EQ(again.registered()->nonce(), nonce);
  // It may have missed a change: it is told all, as something new.
  EXPECT_TRUE(again.WaitUntil([&](const FakeAgent& it) { return it.epoch() > epoch; }));
  EXPECT_EQ(*again.spec().TaskAddress("worker", 0), "host0:1");
}

TEST_F(CoordinatorResumeTest, AnotherAgentDoesNotGetASlotWhoseAgentMayComeBack) {
  Start();
  BringUp();
  Replace();
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator_);
  options.executor_id = 1;
  options.agent_id = "another";
  FakeAgent other(options);
  EXPECT_THAT(other.WaitStatus(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("held for its agent")));
}

TEST_F(CoordinatorResumeTest, ANodeThatHadFinishedStaysSo) {
  Start();
  BringUp();
  agents_[0]->SendExit({.kind = ExitStatus::Kind::kExited, .code = 0});
  agents_[1]->SendExit({.kind = ExitStatus::Kind::kExited, .code = 0});
  ASSERT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  Replace();
  EXPECT_THAT(coordinator_->WaitRunning(kLong), IsOk());
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong), IsOk());
}

// It may still be about to say goodbye to a driver that is gone: the next ones look for it.
TEST_F(CoordinatorResumeTest, TheAgentOfWhatHasFinishedIsGoneWhenThatIsKnown) {
  Start();
  BringUp();
  for (const auto& agent : agents_) agent->SendExit({.kind = ExitStatus::Kind::kExited, .code = 0});
  ASSERT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  for (int driver = 2; driver <= 3; ++driver) {
    Replace();
    EXPECT_EQ(coordinator_->StandingOf(0), AgentTicket::Standing::kTaken) << driver;
  }
  coordinator_->ReportAgentExit({.executor_id = 0, .status = absl::UnavailableError("gone")});
  Replace();
  EXPECT_EQ(coordinator_->StandingOf(0), AgentTicket::Standing::kEnded);
  EXPECT_EQ(coordinator_->Snapshot().slots[0].state, SlotState::kFinished);
}

TEST_F(CoordinatorResumeTest, AFailureOfTheClusterIsNotForgotten) {
  Start();
  BringUp();
  agents_[0]->SendExit({.kind = ExitStatus::Kind::kExited, .code = 3});
  const absl::Status cause = coordinator_->WaitFailure(kLong);
  ASSERT_THAT(cause, StatusIs(absl::StatusCode::kAborted));
  Replace();
  EXPECT_THAT(coordinator_->WaitRunning(kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("exited with code 3")));
}

TEST_F(CoordinatorResumeTest, HowTheFirstNodeFailedIsKept) {
  Start();
  BringUp();
  agents_[1]->SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 11});
  EXPECT_THAT(coordinator_->WaitFailure(kLong), StatusIs(absl::StatusCode::kAborted));
  agents_[0]->SendExit({.kind = ExitStatus::Kind::kExited, .code = 3});
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  const NodeFailure before = *coordinator_->Snapshot().first_cause;
  Replace();
  ASSERT_FALSE(coordinator_->WaitRunning(kLong).ok());
  const NodeFailure after = *coordinator_->Snapshot().first_cause;
  EXPECT_EQ(after.executor_id, 1);
  EXPECT_EQ(after.exit.signal, 11);
  EXPECT_EQ(after.pid, before.pid);
  EXPECT_EQ(after.stderr_tail, before.stderr_tail);
  EXPECT_EQ(coordinator_->Snapshot().folded_failures, 1);
}

TEST_F(CoordinatorResumeTest, WhoseAgentWasKnownToBeGoneIsReplacedWithoutItsLease) {
  restarts_ = 1;
  Start();
  BringUp();
  agents_[1]->Cancel();
  coordinator_->ReportAgentExit(
      {.executor_id = 1, .status = absl::UnavailableError("its host is gone")});
  ASSERT_EQ(coordinator_->Snapshot().slots[1].state, SlotState::kLost);
  EXPECT_EQ(coordinator_->StandingOf(1),
            AgentTicket::Standing::kNew);  // there was no driver before
  Replace();
  EXPECT_EQ(coordinator_->StandingOf(0), AgentTicket::Standing::kTaken);
  EXPECT_EQ(coordinator_->StandingOf(1), AgentTicket::Standing::kReplaced);
  coordinator_->ReportAgentStarted(1, 77);
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator_);
  options.executor_id = 1;
  options.agent_id = "another";
  FakeAgent other(options);
  ASSERT_TRUE(other.WaitRegistered());
  EXPECT_EQ(other.registered()->attempt(), 1u);
}

TEST_F(CoordinatorResumeTest, WhereAgentsWereFoundIsKnownToEachDriverThatFollows) {
  Start();
  BringUp();
  EXPECT_EQ(coordinator_->PlaceOf(0), "");
  coordinator_->ReportAgentFound(0, "h1:7000");
  coordinator_->ReportAgentFound(7, "nowhere");  // no such slot
  for (int i = 0; i < 2; ++i) {
    Replace();
    EXPECT_EQ(coordinator_->PlaceOf(0), "h1:7000");
    EXPECT_EQ(coordinator_->PlaceOf(1), "");
  }
}

// It was started, and may be about to register.
TEST_F(CoordinatorResumeTest, AnAgentThatWasFoundAndHasNotRegisteredIsLookedFor) {
  Start();
  coordinator_->ReportAgentStarted(1, 77);
  coordinator_->ReportAgentFound(1, "h1:7000");
  Replace();
  EXPECT_EQ(coordinator_->StandingOf(0), AgentTicket::Standing::kNew);
  EXPECT_EQ(coordinator_->StandingOf(1), AgentTicket::Standing::kTaken);
  EXPECT_EQ(coordinator_->PlaceOf(1), "h1:7000");
}

TEST_F(CoordinatorResumeTest, AgentsOfWhatIsOverAreLookedForAndNotStarted) {
  using Standing = AgentTicket::Standing;
  Start();
  Agent(0, v1::NODE_STATE_RUNNING);
  Replace();
  EXPECT_EQ(coordinator_->StandingOf(0), Standing::kTaken);
  EXPECT_EQ(coordinator_->StandingOf(1), Standing::kNew);
  Agent(0).SendExit({.kind = ExitStatus::Kind::kExited, .code = 3});
  ASSERT_FALSE(coordinator_->WaitFailure(kLong).ok());
  Replace();
  EXPECT_EQ(coordinator_->StandingOf(0), Standing::kTaken);
  EXPECT_EQ(coordinator_->StandingOf(1), Standing::kTaken);
}

TEST_F(CoordinatorResumeTest, AnEndThatWasAskedForIsNotForgotten) {
  Start();
  BringUp();
  coordinator_->Cancel("SIGTERM");
  coordinator_->Stop(NodeFilter::kAll, "SIGTERM");
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  Replace();
  EXPECT_THAT(coordinator_->WaitRunning(kLong),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("SIGTERM")));
}

TEST_F(CoordinatorResumeTest, WhatADriverLeavesIsThereForTheNext) {
  Start();
  BringUp();
  coordinator_->Leave(absl::UnavailableError("this driver leaves"));
  EXPECT_THAT(coordinator_->fenced(), StatusIs(absl::StatusCode::kUnavailable));
  for (const auto& agent : agents_) {
    EXPECT_THAT(agent->WaitStatus(), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong),
              StatusIs(absl::StatusCode::kUnavailable));
  Replace();
  Agent(0, v1::NODE_STATE_RUNNING);
  Agent(1, v1::NODE_STATE_RUNNING);
  EXPECT_THAT(coordinator_->WaitRunning(kLong), IsOk());
}

TEST_F(CoordinatorResumeTest, OutputGoesOnWhereTheAgentIs) {
  class Bytes : public CoordinatorObserver {
   public:
    void OnBytes(int, const NodeRole&, LogSource, std::string bytes,
                 const std::function<void()>& taken) override {
      taken();
      if (bytes == "more") more_.Notify();
    }
    [[nodiscard]] bool WaitMore() { return more_.WaitForNotificationWithTimeout(kLong); }

   private:
    Notification more_;
  } bytes;
  observer_ = &bytes;
  Start();
  BringUp();
  Replace();
  FakeAgent& again = Agent(1, v1::NODE_STATE_RUNNING);
  v1::AgentMessage message;
  message.mutable_output()->set_source(v1::LogLines::SOURCE_STDOUT);
  message.mutable_output()->set_offset(5000);
  message.mutable_output()->set_data("more");
  again.Send(message);
  EXPECT_TRUE(bytes.WaitMore());
  agents_.clear();
  coordinator_.reset();  // before its observer
}

TEST_F(CoordinatorResumeTest, WhatWasAskedToStopIsAskedAgain) {
  Start();
  Agent(0, v1::NODE_STATE_RUNNING);  // and it does not end when it is asked
  Agent(1, v1::NODE_STATE_RUNNING);
  ASSERT_THAT(coordinator_->WaitRunning(kLong), IsOk());
  coordinator_->Stop(NodeFilter::kAll, "enough");
  Replace();
  FakeAgent& again = Agent(0, v1::NODE_STATE_RUNNING);
  EXPECT_TRUE(again.WaitUntil([](const FakeAgent& it) {
    for (const v1::CoordinatorMessage& message : it.received()) {
      if (message.has_stop()) return message.stop().reason() == "enough";
    }
    return false;
  }));
}

TEST_F(CoordinatorResumeTest, AnAddThatIsAskedForAgainCountsOnce) {
  Start();
  BringUp();
  SendAdd(*agents_[0], 6);
  SendAdd(*agents_[0], 7);
  ASSERT_EQ(WaitKv(*agents_[0], 7), "2");
  Replace();
  FakeAgent& again = Agent(0, v1::NODE_STATE_RUNNING);
  SendAdd(again, 7);
  EXPECT_EQ(WaitKv(again, 7), "2");
  SendAdd(again, 8);
  EXPECT_EQ(WaitKv(again, 8), "3");
}

TEST_F(CoordinatorResumeTest, ABarrierThatTheOthersHavePassedIsPassed) {
  Start();
  BringUp();
  SendBarrier(*agents_[0], 3);
  SendBarrier(*agents_[1], 4);
  ASSERT_TRUE(WaitBarrier(*agents_[0]));
  Replace();
  FakeAgent& again = Agent(1, v1::NODE_STATE_RUNNING);
  SendBarrier(again, 4);
  EXPECT_TRUE(WaitBarrier(again));
}

TEST_F(CoordinatorResumeTest, WhatOfTheFeedHadEndedIsToldAgain) {
  Start();
  BringUp();
  coordinator_->FeedEnd("f1", /*aborted=*/false);
  coordinator_->EndFeed("input");
  Replace();
  FakeAgent& again = Agent(0, v1::NODE_STATE_RUNNING);
  EXPECT_TRUE(again.WaitUntil([](const FakeAgent& it) {
    bool feed = false;
    bool queue = false;
    for (const v1::CoordinatorMessage& message : it.received()) {
      feed = feed || (message.has_feed_end() && message.feed_end().feed_id() == "f1");
      queue = queue || (message.has_end_feed() && message.end_feed().queue() == "input");
    }
    return feed && queue;
  }));
}

TEST_F(CoordinatorResumeTest, ASecondDriverIsRefused) {
  Start();
  EXPECT_THAT(Coordinator::Start(Options(/*resume=*/true)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has a driver")));
  BringUp();  // it does not mind
}

// Where locks do nothing, as on some file systems between hosts.
TEST_F(CoordinatorResumeTest, ADriverWhoseClusterWasTakenOverLetsGoOfIt) {
  Start();
  BringUp();
  std::filesystem::remove(JoinPath(folder_, "lock"));
  auto next = StateJournal::Resume(folder_);
  ASSERT_THAT(next.status(), IsOk());
  // Though nothing happens that it would write down.
  EXPECT_THAT(coordinator_->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("taken over")));
  EXPECT_THAT(coordinator_->fenced(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kLong),
              StatusIs(absl::StatusCode::kAborted));
  for (const auto& agent : agents_) {  // to look for the other one
    EXPECT_THAT(agent->WaitStatus(), StatusIs(absl::StatusCode::kUnavailable));
  }
  // Nor does it take them again.
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator_);
  options.executor_id = 0;
  FakeAgent back(options);
  EXPECT_THAT(back.WaitStatus(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CoordinatorResumeTest, AnotherClusterIsNoResumption) {
  Start();
  coordinator_.reset();
  CoordinatorOptions options = Options(/*resume=*/true);
  options.roles = *DealRoles({.num_executors = 3});
  EXPECT_THAT(Coordinator::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("another shape"), HasSubstr("worker:2"))));
  options = Options(/*resume=*/true);
  options.program.path = "/bin/false";
  EXPECT_THAT(Coordinator::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another program")));
  options = Options(/*resume=*/true);
  options.input_mode = InputMode::kDirect;
  EXPECT_THAT(Coordinator::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another input mode")));
  options = Options(/*resume=*/true);
  options.feed.queues = {"input", "more"};
  EXPECT_THAT(Coordinator::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another set of queues")));
  Start(/*resume=*/true);
}

TEST_F(CoordinatorResumeTest, APortThatIsTakenIsSaid) {
  Start();
  const int port = coordinator_->port();
  coordinator_.reset();
  CoordinatorOptions options = Options(/*resume=*/false);
  options.state_folder.clear();
  options.port = port;
  const auto taken = Coordinator::Start(options);
  ASSERT_THAT(taken.status(), IsOk());
  EXPECT_THAT(Coordinator::Start(Options(/*resume=*/true)),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("come back to port"), HasSubstr(absl::StrCat(port)))));
}

TEST_F(CoordinatorResumeTest, AfterItsEndThereIsNoClusterToResume) {
  Start();
  coordinator_->GiveUpState();
  coordinator_.reset();
  EXPECT_THAT(Coordinator::Start(Options(/*resume=*/true)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("holds no cluster")));
}

// ---- Train calls ----

TrainCall Call(const std::string& feed_id, const std::string& queue = "input") {
  return {.feed_id = feed_id, .queue = queue, .partitions = 3, .epochs = 2, .deterministic = true};
}

PartitionReport Fed(int64_t partition, PartitionState state, uint64_t rows) {
  return {.partition = partition,
          .state = state,
          .executor_id = 1,
          .rows_received = rows,
          .rows_acked = rows};
}

TEST_F(CoordinatorResumeTest, ATrainCallGoesOnWhereItWas) {
  Start();
  const SavedTrain fresh = *coordinator_->BeginTrain(Call("f1"));
  EXPECT_EQ(fresh.feed_id, "f1");
  EXPECT_TRUE(fresh.begun.empty() && fresh.done.empty());
  ASSERT_THAT(coordinator_->OpenFeed("f1", "input", 6), IsOk());
  PartitionReport begun = Fed(4, PartitionState::kFeeding, 0);
  begun.first_row = 20;
  for (const PartitionReport& report :
       {Fed(0, PartitionState::kFeeding, 0), Fed(1, PartitionState::kFeeding, 5),
        Fed(0, PartitionState::kDone, 10), begun, Fed(1, PartitionState::kReceived, 10)}) {
    ASSERT_THAT(coordinator_->ReportPartition("f1", report), IsOk());
  }
  coordinator_->FeedEnd("f1", false);
  coordinator_->FeedEnd("f1.1", false);
  Replace();
  const SavedTrain saved = *coordinator_->BeginTrain(Call("f2"));
  EXPECT_EQ(saved.feed_id, "f1");
  EXPECT_EQ(saved.rounds, 2);
  EXPECT_FALSE(saved.aborted);
  EXPECT_EQ(saved.done, (std::map<int64_t, int64_t>{{0, 10}}));
  ASSERT_EQ(saved.begun.size(), 2);
  EXPECT_EQ(saved.begun.at(1).executor_id, 1);
  EXPECT_EQ(saved.begun.at(4).first_row, 20);
  ASSERT_THAT(coordinator_->OpenFeed("f1", "input", 6), IsOk());
  EXPECT_EQ(coordinator_->FeedSummaryOf("f1")->done, 1);
  EXPECT_EQ(coordinator_->FeedSummaryOf("f1")->rows_acked, 10u);
  EXPECT_TRUE(coordinator_->FeedSummaryOf("f1")->exactly_once);
  const SavedTrain next = *coordinator_->BeginTrain(Call("f3"));
  EXPECT_EQ(next.feed_id, "f3") << "the driver before had not come to it";
}

TEST_F(CoordinatorResumeTest, RowsThatWereFedAgainStayCounted) {
  Start();
  ASSERT_THAT(coordinator_->BeginTrain(Call("f1")), IsOk());
  ASSERT_THAT(coordinator_->OpenFeed("f1", "input", 6), IsOk());
  const auto refeed = [this](int64_t partition, uint64_t attempt) {
    PartitionReport report = Fed(partition, PartitionState::kFeeding, 0);
    report.feeder_attempt = attempt;
    report.refed_reason = "lost";
    return coordinator_->ReportPartition("f1", report);
  };
  for (const int64_t partition : {0, 1}) {
    ASSERT_THAT(coordinator_->ReportPartition("f1", Fed(partition, PartitionState::kFeeding, 8)),
                IsOk());
    ASSERT_THAT(refeed(partition, 1), IsOk());
  }
  PartitionReport done = Fed(0, PartitionState::kDone, 10);
  done.feeder_attempt = 1;
  ASSERT_THAT(coordinator_->ReportPartition("f1", done), IsOk());
  PartitionReport all_again = Fed(2, PartitionState::kFeeding, 0);
  all_again.refed_all = 2;
  all_again.refed_from = 3;
  all_again.refed_reason = "nobody knows";
  ASSERT_THAT(coordinator_->ReportPartition("f1", all_again), IsOk());
  for (int driver = 0; driver < 2; ++driver) {  // of which the second writes what the first read
    Replace();
    const SavedTrain saved = *coordinator_->BeginTrain(Call("f2"));
    EXPECT_EQ(saved.begun.at(2).refed_all, 2);
    EXPECT_EQ(saved.begun.at(2).refed_from, 3);
    EXPECT_EQ(saved.begun.at(1).refed_all, 0);
    ASSERT_THAT(coordinator_->OpenFeed("f1", "input", 6), IsOk());
    EXPECT_EQ(coordinator_->FeedSummaryOf("f1")->rows_refed, 16u);
    EXPECT_EQ(coordinator_->FeedSummaryOf("f1")->partitions_refed, 3);
  }
}

TEST_F(CoordinatorResumeTest, ACallThatHadReturnedReturnsTheSame) {
  Start();
  ASSERT_THAT(coordinator_->BeginTrain(Call("f1")), IsOk());
  coordinator_->EndTrain("f1", {.rows = 600,
                                .rows_refed = 7,
                                .exactly_once = false,
                                .terminated = true,
                                .elapsed = absl::Seconds(3)});
  ASSERT_THAT(coordinator_->BeginTrain(Call("f2")), IsOk());
  coordinator_->EndTrain("f2", {.status = absl::DeadlineExceededError("too slow")});
  Replace();
  const SavedTrain first = *coordinator_->BeginTrain(Call("g1"));
  ASSERT_TRUE(first.outcome.has_value());
  EXPECT_THAT(first.outcome->status, IsOk());
  EXPECT_EQ(first.outcome->rows, 600);
  EXPECT_EQ(first.outcome->rows_refed, 7);
  EXPECT_FALSE(first.outcome->exactly_once);
  EXPECT_TRUE(first.outcome->terminated);
  EXPECT_EQ(first.outcome->elapsed, absl::Seconds(3));
  const SavedTrain second = *coordinator_->BeginTrain(Call("g2"));
  ASSERT_TRUE(second.outcome.has_value());
  EXPECT_THAT(second.outcome->status,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("too slow")));
  EXPECT_FALSE(coordinator_->BeginTrain(Call("g3"))->outcome.has_value());
}

TEST_F(CoordinatorResumeTest, ACallThatWasGivenUpIsNotGoneOnWith) {
  Start();
  ASSERT_THAT(coordinator_->BeginTrain(Call("f1")), IsOk());
  coordinator_->FeedEnd("f1", /*aborted=*/true);
  Replace();
  EXPECT_TRUE(coordinator_->BeginTrain(Call("f2"))->aborted);
}

TEST_F(CoordinatorResumeTest, CallsAreKnownByTheirOrderOnTheirQueueAndByTheirData) {
  Start();
  ASSERT_THAT(coordinator_->BeginTrain(Call("f1")), IsOk());
  ASSERT_THAT(coordinator_->BeginTrain(Call("c1", "control")), IsOk());
  coordinator_->EndTrain("f1", {.rows = 1});
  ASSERT_THAT(coordinator_->BeginTrain(Call("f2")), IsOk());
  Replace();
  TrainCall other = Call("g1");
  other.partitions = 4;
  EXPECT_THAT(
      coordinator_->BeginTrain(other),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("Train call 1 on queue 'input' had 3 partitions in 2 epochs"),
                     HasSubstr("has 4 partitions"))));
  other = Call("g1");
  other.epochs = 1;
  EXPECT_THAT(coordinator_->BeginTrain(other),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1 epoch of")));
  other = Call("g1");
  other.deterministic = false;
  EXPECT_THAT(coordinator_->BeginTrain(other),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not deterministic")));
  EXPECT_EQ(coordinator_->BeginTrain(Call("g1"))->feed_id, "f1") << "refused ones do not count";
  EXPECT_EQ(coordinator_->BeginTrain(Call("d1", "control"))->feed_id, "c1");
  other = Call("g2");
  other.partitions = 4;
  EXPECT_THAT(coordinator_->BeginTrain(other),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Train call 2")));
  EXPECT_EQ(coordinator_->BeginTrain(Call("g2"))->feed_id, "f2");
}

// Inference, and what feeders outside the driver feed, is not gone on with.
TEST_F(CoordinatorResumeTest, OnlyTrainCallsAreWrittenDown) {
  Start();
  ASSERT_THAT(coordinator_->OpenFeed("i1", "input", 6), IsOk());
  ASSERT_THAT(coordinator_->ReportPartition("i1", Fed(0, PartitionState::kFeeding, 1)), IsOk());
  coordinator_->EndTrain("i1", {.rows = 1});
  Replace();
  EXPECT_TRUE(coordinator_->journal()->restored().feeds().empty());
}

}  // namespace
}  // namespace millrace
