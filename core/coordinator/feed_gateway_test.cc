// The feed gateway of a real coordinator, over gRPC and the client library.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "core/base/status_matchers.h"
#include "core/client/feed_gateway_client.h"
#include "core/client/raw_cluster_client.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_testing.h"
#include "core/coordinator/fake_agent.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// As an agent of the cluster.
FeedGatewayOptions AgentOptions(const Coordinator& coordinator) {
  return {.address = coordinator.address(),
          .ca_pem = coordinator.ca_pem(),
          .identity_pem = coordinator.agent_identity_pem(),
          .agent_token = coordinator.tokens().agent,
          .timeout = kLong};
}

TEST(FeedGatewayTest, AFeederIsToldWhereToGoAndReportsBack) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  const FeedGatewayOptions options = AgentOptions(*coordinator);
  auto gateway = FeedGatewayClient::Connect(options);
  ASSERT_THAT(gateway, IsOk());
  FeedGatewayOptions wrong = options;
  wrong.agent_token = coordinator->tokens().viewer;
  v1::LookupRequest lookup;
  lookup.set_feed_id("f");
  EXPECT_THAT((*FeedGatewayClient::Connect(wrong))->Lookup(lookup),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT((*gateway)->Lookup(lookup), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 4), IsOk());
  auto reply = (*gateway)->Lookup(lookup);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->state(), v1::LookupReply::STATE_STARTING);

  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  reply = (*gateway)->Lookup(lookup);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->state(), v1::LookupReply::STATE_RUNNING);
  EXPECT_EQ(reply->endpoint().key(), "secret");
  EXPECT_EQ(reply->host(), "fake-host");
  EXPECT_EQ(reply->nonce().size(), 16u);
  EXPECT_EQ(reply->partition_state(), v1::PARTITION_STATE_PENDING);
  // Asked again: the same node. Another partition: the node with fewer.
  const int chosen = reply->executor_id();
  EXPECT_EQ((*gateway)->Lookup(lookup)->executor_id(), chosen);
  EXPECT_EQ(reply->endpoint().key(), "secret");
  lookup.set_partition(1);
  EXPECT_EQ((*gateway)->Lookup(lookup)->executor_id(), 1 - chosen);
  lookup.set_executor_id(chosen);
  EXPECT_EQ((*gateway)->Lookup(lookup)->executor_id(), chosen);
  lookup.set_executor_id(9);
  EXPECT_THAT((*gateway)->Lookup(lookup), StatusIs(absl::StatusCode::kNotFound));
  lookup.clear_executor_id();
  lookup.set_partition(-1);
  EXPECT_THAT((*gateway)->Lookup(lookup), StatusIs(absl::StatusCode::kInvalidArgument));

  v1::ReportRequest report;
  report.set_feed_id("f");
  EXPECT_THAT((*gateway)->Report(report), StatusIs(absl::StatusCode::kInvalidArgument));
  report.set_state(v1::PARTITION_STATE_FEEDING);
  report.set_executor_id(chosen);
  report.set_feeder_attempt(7);
  report.set_rows_received(20);
  report.set_rows_acked(10);
  EXPECT_THAT((*gateway)->Report(report), IsOk());
  lookup.set_partition(0);
  reply = (*gateway)->Lookup(lookup);
  EXPECT_EQ(reply->resume_row(), 10u);
  EXPECT_EQ(reply->partition_state(), v1::PARTITION_STATE_FEEDING);
  report.set_feeder_attempt(6);
  EXPECT_THAT((*gateway)->Report(report), StatusIs(absl::StatusCode::kAborted));
  report.set_feed_id("g");
  EXPECT_THAT((*gateway)->Report(report), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(coordinator->FeedSummaryOf("f")->rows_acked, 10u);

  // A key is told to the nodes that are there, and to those that come.
  v1::AnnounceRequest announce;
  EXPECT_THAT((*gateway)->Announce(announce), StatusIs(absl::StatusCode::kInvalidArgument));
  announce.set_principal("feeder/1");
  announce.set_curve_key(std::string(40, ' '));
  EXPECT_THAT((*gateway)->Announce(announce), StatusIs(absl::StatusCode::kInvalidArgument));
  announce.set_curve_key(std::string(40, 'a'));
  EXPECT_THAT((*FeedGatewayClient::Connect(wrong))->Announce(announce),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT((*gateway)->Announce(announce), IsOk());
  EXPECT_THAT((*gateway)->Announce(announce), IsOk());
  announce.set_principal("feeder/2");
  EXPECT_THAT((*gateway)->Announce(announce), StatusIs(absl::StatusCode::kAlreadyExists));
  announce.set_principal("feeder/1");
  announce.set_curve_key(std::string(40, 'b'));
  EXPECT_THAT((*gateway)->Announce(announce), StatusIs(absl::StatusCode::kAlreadyExists));
  announce.set_principal("node/1");
  EXPECT_THAT((*gateway)->Announce(announce), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto told = [](const FakeAgent& agent) {
    for (const auto& message : agent.received()) {
      const auto& keys = message.feeder_keys().keys();
      if (keys.count("feeder/1") > 0) return keys.at("feeder/1") == std::string(40, 'a');
    }
    return false;
  };
  EXPECT_TRUE(first->WaitUntil(told));
  EXPECT_TRUE(second->WaitUntil(told));

  v1::CauseRequest cause;
  auto why = (*gateway)->Cause(cause);
  ASSERT_THAT(why, IsOk());
  EXPECT_FALSE(why->has_error() || why->has_first_cause());
  cause.set_executor_id(5);
  EXPECT_THAT((*gateway)->Cause(cause), StatusIs(absl::StatusCode::kNotFound));

  // A program that reads no more is not chosen; then one that has failed is named.
  FakeAgent& stays = chosen == 0 ? *second : *first;
  FakeAgent& leaves = chosen == 0 ? *first : *second;
  const auto tell = [](FakeAgent& node, bool done) {
    v1::AgentMessage sample;
    sample.mutable_sample()->add_queues()->set_queue("input");
    sample.mutable_sample()->mutable_queues(0)->set_program_done(done);
    node.Send(sample);
  };
  const absl::Time deadline = absl::Now() + kLong;
  const auto wait_for_choice = [&](int executor_id) {
    do {
      reply = (*gateway)->Lookup(lookup);
      ASSERT_THAT(reply, IsOk());
    } while (reply->executor_id() != executor_id && absl::Now() < deadline);
    EXPECT_EQ(reply->executor_id(), executor_id);
  };
  tell(leaves, true);
  wait_for_choice(1 - chosen);
  // A program that has left training may read the queue again, in inference.
  tell(stays, true);
  tell(leaves, false);
  wait_for_choice(chosen);
  tell(leaves, true);
  tell(stays, false);
  wait_for_choice(1 - chosen);
  stays.SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 9});
  do {
    reply = (*gateway)->Lookup(lookup);
    ASSERT_THAT(reply, IsOk());
  } while (reply->state() == v1::LookupReply::STATE_RUNNING && absl::Now() < deadline);
  EXPECT_EQ(reply->state(), v1::LookupReply::STATE_FAILED);
  cause.set_executor_id(1 - chosen);
  why = (*gateway)->Cause(cause);
  EXPECT_THAT(why->error().message(), HasSubstr("SIGKILL"));
  EXPECT_THAT(why->first_cause().message(), HasSubstr("SIGKILL"));

  coordinator->CloseFeed("f");
  EXPECT_THAT((*gateway)->Lookup(lookup), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(FeedGatewayTest, AFailedClusterIsNotFedThoughOtherNodesRun) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 4), IsOk());
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  second->SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 9});
  EXPECT_THAT(coordinator->WaitFailure(kLong), StatusIs(absl::StatusCode::kAborted));
  v1::LookupRequest lookup;
  lookup.set_feed_id("f");
  for (const bool asks_for_node : {false, true}) {
    if (asks_for_node) lookup.set_executor_id(0);
    const auto reply = (*gateway)->Lookup(lookup);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->state(), v1::LookupReply::STATE_FAILED);
    EXPECT_EQ(reply->executor_id(), 1);
    EXPECT_EQ(reply->node(), "worker:1");
  }
}

TEST(FeedGatewayTest, RowsAfterThoseThatAnotherNodeUsedAreFedWhereItStoppedReading) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 4), IsOk());
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  v1::ReportRequest report;
  report.set_feed_id("f");
  report.set_state(v1::PARTITION_STATE_FAILED);
  report.set_executor_id(0);
  report.set_feeder_attempt(1);
  report.set_rows_received(10);
  report.set_rows_acked(10);
  v1::LookupRequest other;
  other.set_feed_id("f");
  other.set_executor_id(1);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  EXPECT_EQ((*gateway)->Lookup(other)->resume_row(), 10u);
  // What it may have used, and what it had not acknowledged, is another matter.
  report.set_rows_received(20);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  EXPECT_EQ((*gateway)->Lookup(other)->resume_row(), 0u);
  report.set_rows_received(10);
  report.set_state(v1::PARTITION_STATE_FEEDING);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  EXPECT_EQ((*gateway)->Lookup(other)->resume_row(), 0u);
  // The same once it has ended well; what a node that failed had learnt is lost.
  report.set_state(v1::PARTITION_STATE_FAILED);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  first->SendExit({.kind = ExitStatus::Kind::kExited, .code = 0});
  ASSERT_TRUE(Eventually(
      [&] { return coordinator->Snapshot().slots[0].state == SlotState::kFinished; }, kLong));
  EXPECT_EQ((*gateway)->Lookup(other)->resume_row(), 10u);
  report.set_rows_received(20);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  EXPECT_EQ((*gateway)->Lookup(other)->resume_row(), 10u) << "a batch in hand when it was stopped";
}

TEST(FeedGatewayTest, ASlowNodeGetsLittleAndGivesBackTheRest) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 2), IsOk());
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  v1::PaceRequest pace;
  EXPECT_THAT((*gateway)->Pace(pace), StatusIs(absl::StatusCode::kInvalidArgument));
  pace.set_feeder("feeder/1");
  for (const int id : {0, 1}) pace.add_nodes()->set_executor_id(id);
  pace.mutable_nodes(1)->set_executor_id(9);
  EXPECT_THAT((*gateway)->Pace(pace), StatusIs(absl::StatusCode::kNotFound));
  pace.mutable_nodes(1)->set_executor_id(1);
  v1::ReportRequest report;
  report.set_feed_id("f");
  report.set_state(v1::PARTITION_STATE_RECEIVED);
  report.set_feeder_attempt(7);
  report.set_rows_received(100'000);
  report.set_movable(v1::MOVABLE_ANY_ROW);
  for (const int id : {0, 1}) {
    report.set_partition(id);
    report.set_executor_id(id);
    ASSERT_THAT((*gateway)->Report(report), IsOk());
  }
  // The second one acknowledges whatever is asked of it, the first one a row each time.
  v1::LookupRequest patient;
  patient.set_feed_id("f");
  patient.set_patient(true);
  v1::PaceReply reply;
  const absl::Time deadline = absl::Now() + kLong;
  for (uint64_t i = 1; reply.take_back_size() == 0 && absl::Now() < deadline; ++i) {
    for (v1::FedNode& node : *pace.mutable_nodes()) {
      const bool slow = node.executor_id() == 0;
      node.set_rows_acked(slow ? i : 10'000 * i);
      node.set_rows_unread(slow ? 99'000 : 10);
      node.set_partitions(1);
    }
    auto told = (*gateway)->Pace(pace);
    ASSERT_THAT(told, IsOk());
    reply = *told;
    absl::SleepFor(absl::Milliseconds(20));
  }
  ASSERT_EQ(reply.take_back_size(), 1);
  EXPECT_EQ(reply.take_back(0).feed_id(), "f");
  EXPECT_EQ(reply.take_back(0).partition(), 0);
  EXPECT_EQ(reply.take_back(0).feeder_attempt(), 7u);
  ASSERT_EQ(reply.rooms_size(), 2);
  EXPECT_LT(reply.rooms(0).rows() * 100, reply.rooms(1).rows());
  // Its rest goes to the other, from the row on at which it ended.
  report.set_partition(0);
  report.set_executor_id(0);
  report.set_state(v1::PARTITION_STATE_FAILED);
  report.set_rows_received(10);
  report.set_rows_acked(10);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  v1::LookupRequest lookup;
  lookup.set_feed_id("f");
  const auto route = (*gateway)->Lookup(lookup);
  ASSERT_THAT(route, IsOk());
  EXPECT_EQ(route->executor_id(), 1);
  EXPECT_EQ(route->resume_row(), 10u);
  // While both have enough to do, who is patient is sent nowhere.
  pace.mutable_nodes(1)->set_rows_unread(100'000'000);
  pace.mutable_nodes(1)->set_rows_acked(pace.nodes(1).rows_acked() + 1);
  ASSERT_THAT((*gateway)->Pace(pace), IsOk());
  patient.set_partition(0);
  coordinator->CloseFeed("f");
  ASSERT_THAT(coordinator->OpenFeed("g", "input", 1), IsOk());
  patient.set_feed_id("g");
  const auto busy = (*gateway)->Lookup(patient);
  ASSERT_THAT(busy, IsOk());
  EXPECT_EQ(busy->state(), v1::LookupReply::STATE_BUSY);
  EXPECT_EQ(busy->executor_id(), -1);
}

// Some message of the coordinator is so.
bool Hears(FakeAgent& agent, absl::FunctionRef<bool(const v1::CoordinatorMessage&)> is_so) {
  return agent.WaitUntil([&](const FakeAgent& hearing) {
    const std::vector<v1::CoordinatorMessage> received = hearing.received();
    return std::any_of(received.begin(), received.end(), is_so);
  });
}

// Its program reads in batches of four rows, as many as all others.
bool JoinEqual(FakeAgent& agent) {
  v1::AgentMessage join;
  join.mutable_equal_join()->set_queue("input");
  join.mutable_equal_join()->set_batch_rows(4);
  agent.Send(join);
  return Hears(agent, [](const v1::CoordinatorMessage& message) { return message.has_equal(); });
}

// Rows of the call; a generation of 0 says that it has begun.
void TellRows(FakeAgent& agent, absl::string_view feed_id, uint64_t generation, int64_t rows) {
  v1::AgentMessage message;
  message.mutable_equal_rows()->set_queue("input");
  message.mutable_equal_rows()->set_feed_id(std::string(feed_id));
  message.mutable_equal_rows()->set_generation(generation);
  message.mutable_equal_rows()->set_rows(rows);
  agent.Send(message);
}

TEST(FeedGatewayTest, OfRanksThatEndTogetherThatWithTheFewestRowsIsFed) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 6), IsOk());
  auto first = Dial(*coordinator, 0);
  auto second = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  v1::LookupRequest lookup;
  lookup.set_feed_id("f");
  lookup.set_executor_id(0);
  EXPECT_FALSE((*gateway)->Lookup(lookup)->level());
  ASSERT_TRUE(JoinEqual(*first));
  ASSERT_TRUE(JoinEqual(*second));
  EXPECT_TRUE((*gateway)->Lookup(lookup)->level());

  const auto report = [&](int partition, int executor_id, v1::PartitionState state) {
    v1::ReportRequest request;
    request.set_feed_id("f");
    request.set_partition(partition);
    request.set_executor_id(executor_id);
    request.set_feeder_attempt(1);
    request.set_state(state);
    request.set_rows_received(state == v1::PARTITION_STATE_RECEIVED ? 20 : 0);
    EXPECT_THAT((*gateway)->Report(request), IsOk());
  };
  const auto ask = [&](int partition, bool patient) {
    v1::LookupRequest request;
    request.set_feed_id("f");
    request.set_partition(partition);
    request.set_patient(patient);
    const auto reply = (*gateway)->Lookup(request);
    EXPECT_THAT(reply, IsOk());
    EXPECT_TRUE(reply->level());
    return *reply;
  };
  // Whether a patient feeder of the partition waits for `node`, which has so many rows.
  const auto waits = [&](int partition, absl::string_view node, uint64_t rows) {
    return Eventually([&] {
      const v1::LookupReply reply = ask(partition, /*patient=*/true);
      EXPECT_EQ(reply.state(), v1::LookupReply::STATE_BUSY);
      EXPECT_EQ(reply.executor_id(), -1);
      return reply.node() == node && reply.fewest_rows() == rows;
    });
  };
  report(0, 0, v1::PARTITION_STATE_FEEDING);
  TellRows(*first, "f", 0, 0);
  ASSERT_TRUE(Hears(*first, [](const v1::CoordinatorMessage& message) {
    return message.equal_grant().generation() == 1;
  }));
  EXPECT_EQ(ask(1, /*patient=*/true).executor_id(), 1);
  report(1, 1, v1::PARTITION_STATE_FEEDING);
  TellRows(*first, "f", 1, 20);
  EXPECT_TRUE(waits(2, "worker:1", 0));
  // What is next is fed; the other one is not, but has more.
  report(0, 0, v1::PARTITION_STATE_RECEIVED);
  TellRows(*second, "f", 1, 19);
  EXPECT_TRUE(waits(2, "worker:1", 19));
  TellRows(*second, "f", 1, 21);
  EXPECT_TRUE(Eventually([&] { return ask(2, /*patient=*/true).executor_id() == 0; }));
  EXPECT_TRUE(waits(3, "worker:0", 20));
  // Whoever does not wait is told by what will have come: some 20 more for each.
  report(1, 1, v1::PARTITION_STATE_RECEIVED);
  EXPECT_EQ(ask(3, /*patient=*/false).executor_id(), 1);
}

// Nothing is reported of it any more: it is fed, and waits for its turn.
TEST(FeedGatewayTest, RanksAreAskedAboutACallThatBeginsWhenAnotherIsClosed) {
  auto coordinator = StartCluster(1, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 1), IsOk());
  ASSERT_THAT(coordinator->OpenFeed("g", "input", 1), IsOk());
  auto agent = Dial(*coordinator, 0);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  ASSERT_TRUE(JoinEqual(*agent));
  TellRows(*agent, "f", 0, 0);
  TellRows(*agent, "g", 0, 0);
  ASSERT_TRUE(Hears(*agent, [](const v1::CoordinatorMessage& message) {
    return message.equal_grant().feed_id() == "f";
  }));
  v1::ReportRequest report;
  report.set_feed_id("g");
  report.set_executor_id(0);
  report.set_feeder_attempt(1);
  report.set_state(v1::PARTITION_STATE_RECEIVED);
  report.set_rows_received(8);
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  coordinator->CloseFeed("f");
  EXPECT_TRUE(Hears(*agent, [](const v1::CoordinatorMessage& message) {
    return message.equal_grant().feed_id() == "g" && message.equal_grant().question() != 0;
  }));
}

TEST(FeedGatewayTest, WhatASessionEndedWithIsToldToTheNext) {
  auto coordinator = StartCluster(1, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  ASSERT_THAT(coordinator->OpenFeed("f", "input", 1), IsOk());
  v1::LookupRequest lookup;
  lookup.set_feed_id("f");
  EXPECT_FALSE((*gateway)->Lookup(lookup)->has_partition_error());
  v1::ReportRequest report;
  report.set_feed_id("f");
  report.set_state(v1::PARTITION_STATE_FAILED);
  report.set_executor_id(-1);
  report.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  report.mutable_error()->set_message("too late");
  ASSERT_THAT((*gateway)->Report(report), IsOk());
  const auto reply = (*gateway)->Lookup(lookup);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->partition_error().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(reply->partition_error().message(), "too late");
}

TEST(FeedGatewayTest, AnAgentWhoseDeathWasSeenIsLostAtOnce) {
  auto coordinator = StartCluster(2, InputMode::kFeed);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  auto first = Dial(*coordinator, 0);
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator);
  options.executor_id = 1;
  options.agent_id = "the second";
  FakeAgent second(options);
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
  v1::AgentGoneRequest gone;
  gone.set_executor_id(1);
  gone.set_signal(9);
  EXPECT_THAT((*gateway)->AgentGone(gone), StatusIs(absl::StatusCode::kInvalidArgument));
  gone.set_agent_id("another agent's");
  EXPECT_FALSE((*gateway)->AgentGone(gone)->awaits_agent());
  EXPECT_EQ(coordinator->Snapshot().slots[1].state, SlotState::kRunning);
  gone.set_agent_id("the second");
  EXPECT_FALSE((*gateway)->AgentGone(gone)->awaits_agent());
  EXPECT_THAT(coordinator->WaitFailure(kLong),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("SIGKILL")));
  EXPECT_EQ(coordinator->Snapshot().slots[1].state, SlotState::kLost);
  gone.set_executor_id(7);
  EXPECT_THAT((*gateway)->AgentGone(gone), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FeedGatewayTest, AnAgentThatIsAwaitedMayComeBeforeItsAttemptIsDue) {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = 2, .master_node = "chief"});
  options.program.path = "/bin/true";
  options.input_mode = InputMode::kFeed;
  options.lost_after = kLong;
  RestartPolicy& slow = options.failure.restart_by_job["worker"];
  slow.max_restarts = 1;
  slow.initial_backoff = slow.max_backoff = absl::Hours(1);
  RestartPolicy& quick = options.failure.restart_by_job["chief"];
  quick.max_restarts = 1;
  quick.initial_backoff = absl::Milliseconds(1);
  auto started = Coordinator::Start(std::move(options));
  ASSERT_THAT(started, IsOk());
  const std::unique_ptr<Coordinator> coordinator = *std::move(started);
  auto gateway = FeedGatewayClient::Connect(AgentOptions(*coordinator));
  ASSERT_THAT(gateway, IsOk());
  const auto dial = [&](int id, const std::string& agent_id) {
    FakeAgentOptions options = FakeAgentOptions::For(*coordinator);
    options.executor_id = id;
    options.agent_id = agent_id;
    return std::make_unique<FakeAgent>(options);
  };
  std::unique_ptr<FakeAgent> agents[] = {dial(0, "chief"), dial(1, "worker")};
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());

  v1::AgentGoneRequest gone;
  gone.set_executor_id(1);
  gone.set_agent_id("worker");
  gone.set_signal(9);
  EXPECT_TRUE((*gateway)->AgentGone(gone)->awaits_agent());
  agents[1] = dial(1, "its successor");
  ASSERT_TRUE(agents[1]->WaitRegistered());
  EXPECT_FALSE((*gateway)->AgentGone(gone)->awaits_agent());
  // The spec changes meanwhile: a change without the spec would mean nothing to it.
  gone.set_executor_id(0);
  gone.set_agent_id("chief");
  EXPECT_TRUE((*gateway)->AgentGone(gone)->awaits_agent());
  agents[0] = dial(0, "the chief's successor");
  ASSERT_TRUE(agents[0]->WaitUntil([](const FakeAgent& agent) { return agent.epoch() == 2; }));
  coordinator->EndFeed("input");
  ASSERT_TRUE(agents[1]->WaitUntil([](const FakeAgent& agent) {
    return !agent.received().empty() && agent.received().back().has_end_feed();
  }));
  EXPECT_EQ(agents[1]->epoch(), 0u);
  EXPECT_EQ(coordinator->Snapshot().slots[1].state, SlotState::kRegistered);
  EXPECT_EQ(coordinator->Snapshot().slots[1].attempt, 1u);

  auto operators =
      RawClusterClient::Connect({.address = coordinator->address(),
                                 .ca_pem = coordinator->ca_pem(),
                                 .identity_pem = coordinator->viewer_identity_pem(),
                                 .viewer_token = coordinator->tokens().viewer,
                                 .operator_token = coordinator->tokens().operator_token,
                                 .timeout = kLong});
  ASSERT_THAT(operators, IsOk());
  EXPECT_THAT((*operators)->RestartNode(1, "it has waited long enough"), IsOkAndHolds(1u));
  ASSERT_TRUE(agents[1]->WaitUntil([](const FakeAgent& agent) { return agent.epoch() == 3; }));
  ASSERT_THAT(coordinator->WaitFedEndpoints(kLong), IsOk());
}

}  // namespace
}  // namespace millrace
