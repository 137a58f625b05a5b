// A live source on a real coordinator, over gRPC.

#include "dashboard/source/live_source.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "dashboard/model/dashboard_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

std::unique_ptr<Coordinator> StartCluster(int num_executors) {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = num_executors});
  options.program.path = "/bin/true";
  options.input_mode = InputMode::kFeed;
  options.lost_after = absl::Seconds(60);  // a busy machine is not a lost host
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

LiveOptions OptionsFor(const Coordinator& coordinator) {
  LiveOptions options;
  options.client.address = coordinator.address();
  options.client.ca_pem = coordinator.ca_pem();
  options.client.identity_pem = coordinator.viewer_identity_pem();
  options.client.viewer_token = coordinator.tokens().viewer;
  options.client.timeout = kLong;
  options.interval = absl::Milliseconds(50);
  return options;
}

std::unique_ptr<FakeAgent> Dial(const Coordinator& coordinator, int executor_id) {
  FakeAgentOptions options = FakeAgentOptions::For(coordinator);
  options.executor_id = executor_id;
  return std::make_unique<FakeAgent>(options);
}

std::unique_ptr<UpdateSource> Open(LiveOptions options) {
  auto source = MakeLiveSource(std::move(options));
  EXPECT_THAT(source, IsOk());
  return *std::move(source);
}

// Polls as a window does, until the model is as it should be.
bool PollUntil(UpdateSource* source, DashboardModel* model,
               absl::FunctionRef<bool(const DashboardModel&)> condition) {
  return Eventually([&] {
    std::vector<SourceUpdate> updates;
    source->Poll(absl::Now(), 64, &updates);
    for (const SourceUpdate& update : updates) model->Apply(update);
    model->Advance(absl::Now());
    return condition(*model);
  });
}

TEST(LiveSource, ShowsNodesSamplesMetricsLinesAndTheFirstCause) {
  auto coordinator = StartCluster(2);
  const auto source = Open(OptionsFor(*coordinator));
  DashboardModel model;
  ASSERT_TRUE(PollUntil(source.get(), &model,
                        [](const DashboardModel& m) { return m.nodes().size() == 2; }));
  EXPECT_EQ(model.cluster().phase, v1::ClusterInfo::PHASE_RESERVING);
  EXPECT_THAT(model.verdict().start.text, HasSubstr("worker:0"));

  const auto a = Dial(*coordinator, 0);
  const auto b = Dial(*coordinator, 1);
  ASSERT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.cluster().phase == v1::ClusterInfo::PHASE_RUNNING;
  }));
  EXPECT_THAT(model.verdict().start.text, HasSubstr("Running. All 2 slots ready"));
  EXPECT_EQ(model.membership().spec().total_tasks(), 2u);

  v1::AgentMessage message;
  message.mutable_metric()->set_name("loss");
  message.mutable_metric()->set_step(7);
  message.mutable_metric()->set_value(0.5);
  a->Send(message);
  message.mutable_log()->set_source(v1::LogLines::SOURCE_STDERR);
  message.mutable_log()->add_lines("ERROR: out of patience");
  a->Send(message);
  message.mutable_sample()->mutable_process()->set_rss_bytes(4096);
  v1::GpuSample* gpu = message.mutable_sample()->add_gpus();
  gpu->set_uuid("GPU-0");
  gpu->set_source("fake");
  gpu->set_utilization_percent(12);
  a->Send(message);
  ASSERT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.logs().size() > 0 && m.metrics().size() == 1 && m.gpus().size() == 1;
  }));
  EXPECT_EQ(model.logs().line(model.logs().end() - 1).level, LogLevel::kError);
  EXPECT_EQ(model.nodes()[0].rss_bytes, 4096);
  EXPECT_EQ(model.nodes()[0].step, 7);
  EXPECT_EQ(model.gpus()[0].value(GpuMetric::kUtilization), 12);
  EXPECT_EQ(model.health().link.kind, LinkState::Kind::kLive);
  EXPECT_GT(model.health().bytes, 0u);

  b->SendExit({.kind = ExitStatus::Kind::kSignaled, .signal = 9}, {"killed"});
  ASSERT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.timeline().first_cause() != nullptr && m.verdict().failure.mood == Mood::kBad;
  }));
  EXPECT_THAT(model.verdict().failure.text, HasSubstr("worker:1 failed first (killed by SIGKILL"));
}

TEST(LiveSource, SaysThatTheTokenIsWrong) {
  auto coordinator = StartCluster(1);
  LiveOptions options = OptionsFor(*coordinator);
  options.client.viewer_token = "guessed";
  const auto source = Open(std::move(options));
  DashboardModel model;
  ASSERT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.health().link.kind == LinkState::Kind::kRefused;
  }));
  EXPECT_THAT(model.verdict().start.text, HasSubstr("Refused: "));
  EXPECT_EQ(model.verdict().start.text.find("guessed"), std::string::npos);
}

TEST(LiveSource, SaysThatAnotherClusterAnswers) {
  auto coordinator = StartCluster(1);
  auto other = StartCluster(1);
  LiveOptions options = OptionsFor(*coordinator);
  options.client.ca_pem = other->ca_pem();
  const auto source = Open(std::move(options));
  DashboardModel model;
  ASSERT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.health().link.kind == LinkState::Kind::kRefused;
  }));
  EXPECT_THAT(model.health().link.reason, HasSubstr("certificate"));
}

TEST(LiveSource, SaysThatTheCoordinatorIsGone) {
  auto coordinator = StartCluster(1);
  LiveOptions options = OptionsFor(*coordinator);
  const auto source = Open(std::move(options));
  DashboardModel model;
  ASSERT_TRUE(
      PollUntil(source.get(), &model, [](const DashboardModel& m) { return m.has_data(); }));
  coordinator.reset();
  EXPECT_TRUE(PollUntil(source.get(), &model, [](const DashboardModel& m) {
    return m.health().link.kind == LinkState::Kind::kEnded ||
           m.health().link.kind == LinkState::Kind::kStale;
  }));
}

// A window that takes nothing holds up neither the cluster nor its own end.
TEST(LiveSource, WaitsForAWindowThatDoesNotPollAndEndsAllTheSame) {
  auto coordinator = StartCluster(1);
  LiveOptions options = OptionsFor(*coordinator);
  options.max_queued = 2;
  Notification woken;
  options.wake = [&woken, once = false]() mutable {
    if (!std::exchange(once, true)) woken.Notify();
  };
  auto source = Open(std::move(options));
  ASSERT_TRUE(woken.WaitForNotificationWithTimeout(kLong));
  const auto agent = Dial(*coordinator, 0);
  ASSERT_TRUE(agent->WaitUntil([](const FakeAgent& a) { return a.epoch() > 0; }, kLong));
  for (int step = 0; step < 100; ++step) {
    v1::AgentMessage message;
    message.mutable_metric()->set_name("loss");
    message.mutable_metric()->set_step(step);
    agent->Send(message);
  }
  // Another one sees all of it meanwhile.
  const auto quick = Open(OptionsFor(*coordinator));
  DashboardModel model;
  EXPECT_TRUE(PollUntil(quick.get(), &model, [](const DashboardModel& m) {
    return m.nodes().size() == 1 && m.nodes()[0].step == 99;
  }));
  // And so does the slow one, once it looks.
  DashboardModel late;
  EXPECT_TRUE(PollUntil(source.get(), &late, [](const DashboardModel& m) {
    return m.nodes().size() == 1 && m.nodes()[0].step == 99;
  }));
  source.reset();
}

TEST(LiveSource, CarriesOutWhatAnOperatorAsksFor) {
  auto coordinator = StartCluster(1);
  LiveOptions options = OptionsFor(*coordinator);
  const auto viewer = Open(options);
  EXPECT_FALSE(viewer->actions()->allowed());
  options.client.operator_token = coordinator->tokens().operator_token;
  const auto source = Open(options);
  ASSERT_TRUE(source->actions()->allowed());
  const auto results = [](OperatorActions* actions) {
    std::vector<ActionResult> all;
    EXPECT_TRUE(Eventually([&] {
      all = actions->TakeResults();
      return !all.empty();
    }));
    return all;
  };
  viewer->actions()->StopCluster(false);
  auto refused = results(viewer->actions());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0].status, StatusIs(absl::StatusCode::kPermissionDenied));
  source->actions()->RestartNode(0, "worker:0");
  auto restarted = results(source->actions());
  ASSERT_EQ(restarted.size(), 1u);
  EXPECT_EQ(restarted[0].what, "restart worker:0");
  EXPECT_THAT(restarted[0].status, StatusIs(absl::StatusCode::kFailedPrecondition));
  const auto agent = Dial(*coordinator, 0);
  ASSERT_TRUE(agent->WaitUntil([](const FakeAgent& a) { return a.epoch() > 0; }, kLong));
  source->actions()->StopCluster(false);
  auto stopped = results(source->actions());
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_THAT(stopped[0].status, IsOk());
}

}  // namespace
}  // namespace millrace::dashboard
