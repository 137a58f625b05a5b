#include "dashboard/source/demo_source.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/update_source_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;

const absl::Time kStarted =
    absl::FromCivil(absl::CivilSecond(2026, 1, 1, 10, 40, 0), absl::UTCTimeZone());

std::unique_ptr<UpdateSource> MakeSource(DemoOptions options) {
  options.started = kStarted;
  auto source = MakeDemoSource(std::move(options));
  EXPECT_THAT(source, IsOk());
  return *std::move(source);
}

struct Golden {
  std::string scenario;
  int nodes;
  double seconds;
  std::string verdict;
};

class Scenario : public testing::TestWithParam<Golden> {};

TEST_P(Scenario, HasItsVerdict) {
  const Golden& golden = GetParam();
  DemoOptions options;
  options.nodes = golden.nodes;
  options.scenario = golden.scenario;
  options.begin_at = absl::Seconds(golden.seconds);
  const auto source = MakeSource(options);
  ModelOptions model_options;
  model_options.zone = absl::UTCTimeZone();
  DashboardModel model(model_options);
  PollAll(source.get(), kStarted + absl::Seconds(golden.seconds), &model);
  EXPECT_EQ(FormatVerdict(model.verdict()), golden.verdict);
}

INSTANTIATE_TEST_SUITE_P(
    All, Scenario,
    testing::Values(
        Golden{"", 8, 60,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs busy: 88% on average.\n"
               "No failures.\n"},
        Golden{"starting", 8, 6,
               "Starting: 0 of 8 slots run after 6 s; slowest is worker:0: agent connected, not "
               "registered for 1.3 s.\n"
               "GPUs idle 100%: the cluster has not started yet.\n"
               "No failures.\n"},
        Golden{"missing-slot", 8, 14,
               "Waiting for worker:3: agent started, not connected for 14 s; host h6 cannot reach "
               "10.0.0.5:41233: No route to host.\n"
               "GPUs idle 100%: the cluster has not started yet.\n"
               "No failures.\n"},
        Golden{
            "slow-source", 8, 60,
            "Running. All 8 slots ready 1.1 s after start.\n"
            "GPUs idle 67%: starved; the source gives 58.3 MB/s and node chief:0 waits 64% of its "
            "time.\n"
            "No failures.\n"},
        Golden{"slow-node", 8, 60,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs idle 53%: backpressure; worker:2 is slow, its queue is full 93% of the time, "
               "and 5 "
               "others wait up to 56%.\n"
               "No failures.\n"},
        Golden{"skewed", 8, 60,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs idle 80%: skewed; worker:0 gets 82% of the rows and 5 nodes wait.\n"
               "No failures.\n"},
        Golden{"oom-cascade", 8, 60,
               "Failed 42 s after start.\n"
               "GPUs: free, the cluster has failed.\n"
               "worker:3 failed first (killed by SIGKILL, perhaps its host was out of memory) at "
               "10:40:40.3; 4 later failures folded.\n"},
        Golden{
            "flapping", 8, 100,
            "Running with 7 of 8 slots; worker:4 comes back: agent started, not connected, attempt "
            "7.\n"
            "GPUs busy: 89% on average.\n"
            "Nothing fatal, but worker:4 was started again 7 times, last at 10:41:38.7: exited "
            "with "
            "code 3: 'data: checksum mismatch in shard 17'.\n"},
        Golden{
            "gpu-hot", 8, 60,
            "Running. All 8 slots ready 1.1 s after start.\n"
            "GPUs busy: 88% on average, but 3 GPUs throttle for heat; hottest is h5/gpu4 at 92 °C, "
            "its clock 36% below its maximum.\n"
            "No failures.\n"},
        Golden{"gpu-unknown", 8, 60,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs busy: 88% on average. Unknown on h4: no NVML on this host.\n"
               "No failures.\n"},
        Golden{"idle", 8, 120,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs idle 100%: no feed is open.\n"
               "No failures.\n"},
        Golden{"huge", 10000, 12,
               "Running. All 10,000 slots ready 1.1 s after start.\n"
               "GPUs busy: 82% on average.\n"
               "No failures.\n"},
        Golden{"stale", 8, 50,
               "Connection lost 20 s ago; what is shown is as of 10:40:30.0.\n"
               "GPUs: nothing is known since the connection was lost.\n"
               "No failures.\n"},
        Golden{"replay", 8, 120,
               "Running. All 8 slots ready 1.1 s after start.\n"
               "GPUs busy: 89% on average.\n"
               "No failures.\n"}),
    [](const testing::TestParamInfo<Golden>& info) {
      std::string name = info.param.scenario.empty() ? "well" : info.param.scenario;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

TEST(DemoSource, GivesTheSameUpdatesForTheSameSeed) {
  std::vector<std::string> seen[2];
  for (auto& texts : seen) {
    const auto source = MakeSource({.nodes = 9, .begin_at = absl::Seconds(5)});
    std::vector<SourceUpdate> updates;
    source->Poll(kStarted + absl::Seconds(5), 100, &updates);
    for (const SourceUpdate& update : updates) {
      for (const v1::LogBatch& batch : update.watch->logs()) texts.push_back(batch.lines(0));
      for (const v1::Event& event : update.watch->events()) texts.push_back(event.text());
    }
  }
  EXPECT_FALSE(seen[0].empty());
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(DemoSource, GivesNoMoreThanIsAskedForAndGoesOnThere) {
  const auto source = MakeSource({.nodes = 3, .begin_at = absl::Seconds(4)});
  std::vector<SourceUpdate> updates;
  source->Poll(kStarted + absl::Seconds(4), 2, &updates);
  ASSERT_EQ(updates.size(), 2u);
  source->Poll(kStarted + absl::Seconds(4), 100, &updates);
  ASSERT_EQ(updates.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(updates[i].watch->seq(), i + 1);
  source->Poll(kStarted + absl::Seconds(4.5), 100, &updates);
  EXPECT_EQ(updates.size(), 5u);
}

TEST(DemoSource, HasClustersOfNoNodeAndOfOne) {
  for (const int nodes : {0, 1, 2}) {
    for (const std::string& scenario : DemoScenarios()) {
      if (scenario == "huge") continue;
      DemoOptions options;
      options.nodes = nodes;
      options.scenario = scenario;
      options.begin_at = absl::Seconds(90);
      const auto source = MakeSource(options);
      DashboardModel model;
      PollAll(source.get(), kStarted + absl::Seconds(90), &model);
      EXPECT_EQ(model.nodes().size(), static_cast<size_t>(nodes)) << scenario;
      EXPECT_FALSE(model.verdict().start.text.empty()) << scenario;
    }
  }
}

TEST(DemoSource, ConnectsAgainAfterItWasStale) {
  const auto source = MakeSource({.scenario = "stale", .begin_at = absl::Seconds(40)});
  DashboardModel model;
  PollAll(source.get(), kStarted + absl::Seconds(40), &model);
  EXPECT_TRUE(model.health().stale);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(30));
  PollAll(source.get(), kStarted + absl::Seconds(60), &model);
  EXPECT_FALSE(model.health().stale);
  EXPECT_EQ(model.health().link.reconnects, 1);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(60));
  // What was not seen has come.
  EXPECT_GT(model.node_history(NodeMetric::kCpu).ValueAt(2, kStarted + absl::Seconds(45)), 0);
}

TEST(DemoSource, ReplayIsScrubbed) {
  const auto source = MakeSource({.scenario = "replay"});
  ASSERT_NE(source->playback(), nullptr);
  DashboardModel model;
  absl::Time now = absl::FromUnixSeconds(1000);  // the viewer's clock is another one
  PollAll(source.get(), now, &model);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(120));
  EXPECT_EQ(model.timeline().first_cause(), nullptr);
  source->playback()->Seek(kStarted + absl::Seconds(250));
  PollAll(source.get(), now, &model);
  ASSERT_NE(model.timeline().first_cause(), nullptr);
  EXPECT_THAT(model.verdict().failure.text, HasSubstr("worker:3 failed first"));
  source->playback()->Seek(kStarted + absl::Seconds(10));
  PollAll(source.get(), now, &model);
  EXPECT_EQ(model.timeline().first_cause(), nullptr);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(10));
  source->playback()->SetSpeed(10);
  now += absl::Seconds(2);
  PollAll(source.get(), now, &model);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(30));
  source->playback()->SetPaused(true);
  now += absl::Seconds(2);
  PollAll(source.get(), now, &model);
  EXPECT_EQ(source->playback()->position(), kStarted + absl::Seconds(30));
}

TEST(DemoSource, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(MakeDemoSource({.scenario = "no-such"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slow-source")));
  EXPECT_THAT(MakeDemoSource({.nodes = -1}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MakeDemoSource({.gpus_per_node = 17}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace::dashboard
