#include "dashboard/source/follower.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/update_source.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

const absl::Time kStarted =
    absl::FromCivil(absl::CivilSecond(2026, 1, 1, 10, 40, 0), absl::UTCTimeZone());

constexpr absl::Duration kAllAtOnce = absl::Hours(1);

std::unique_ptr<UpdateSource> MakeSource(int nodes, const char* scenario) {
  DemoOptions options;
  options.nodes = nodes;
  options.gpus_per_node = 1;
  options.scenario = scenario;
  options.begin_at = absl::Seconds(60);
  options.started = kStarted;
  auto source = MakeDemoSource(std::move(options));
  EXPECT_THAT(source, IsOk());
  return *std::move(source);
}

int KnownSeconds(const DashboardModel& model, ClusterMetric metric, int from, int to) {
  std::vector<HistoryPoint> points;
  model.cluster_history(metric).Query(0, kStarted + absl::Seconds(from),
                                      kStarted + absl::Seconds(to), to - from, &points,
                                      /*hold=*/absl::ZeroDuration());
  int known = 0;
  for (const HistoryPoint& point : points) known += Known(point.mean) ? 1 : 0;
  return known;
}

// Of a large cluster the totals are made as time passes, not with each update, whose parts come
// one by one.
TEST(FollowerTest, APastThatIsCaughtUpWithHasTheTotalsOfEverySecondInAnyCluster) {
  for (const int nodes : {8, 2000}) {
    const auto source = MakeSource(nodes, "");
    DashboardModel model;
    Follower follower(source.get(), &model);
    follower.Poll(kStarted + absl::Seconds(60), kAllAtOnce);
    EXPECT_EQ(KnownSeconds(model, ClusterMetric::kRunning, 0, 60), 60) << nodes;
    EXPECT_EQ(KnownSeconds(model, ClusterMetric::kRows, 20, 60), 40) << nodes;
    EXPECT_EQ(KnownSeconds(model, ClusterMetric::kGpuUtilization, 20, 60), 40) << nodes;
  }
}

TEST(FollowerTest, SoHasARecordingThatIsSetToAnEarlierPlace) {
  const auto source = MakeSource(2000, "replay");
  DashboardModel model;
  Follower follower(source.get(), &model);
  const absl::Time now = absl::Now();
  for (const int second : {200, 100}) {
    source->playback()->Seek(kStarted + absl::Seconds(second));
    follower.Poll(now, kAllAtOnce);
    EXPECT_EQ(KnownSeconds(model, ClusterMetric::kRows, 20, 100), 80) << second;
  }
}

}  // namespace
}  // namespace millrace::dashboard
