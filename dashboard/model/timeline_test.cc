#include "dashboard/model/timeline.h"

#include <string>

#include "core/proto/time_proto.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

v1::Event Event(uint64_t number, const std::string& kind, v1::Event::Severity severity,
                int executor, double second) {
  v1::Event event;
  event.set_number(number);
  event.set_kind(kind);
  event.set_severity(severity);
  event.set_executor_id(executor);
  event.set_text(kind + " text");
  *event.mutable_time() = TimeToProto(absl::UnixEpoch() + absl::Seconds(second));
  return event;
}

TEST(Timeline, PutsTheNodesFailureFirstAndFoldsWhatFollows) {
  Timeline timeline;
  timeline.Add(Event(0, "cluster", v1::Event::SEVERITY_INFO, -1, 0));
  timeline.Add(Event(1, "failure", v1::Event::SEVERITY_ERROR, 3, 1.0));
  // Came in the moment in which the coordinator still waits for earlier ones.
  timeline.Add(Event(2, "failure", v1::Event::SEVERITY_ERROR, 4, 1.1));
  EXPECT_EQ(timeline.first_cause(), nullptr);
  v1::Event failed = Event(3, "cluster", v1::Event::SEVERITY_ERROR, 3, 1.5);
  failed.set_first_cause(true);
  timeline.Add(failed);
  v1::Event later = Event(4, "failure", v1::Event::SEVERITY_WARNING, 5, 2.0);
  later.set_folded(true);
  timeline.Add(later);
  ASSERT_NE(timeline.first_cause(), nullptr);
  EXPECT_EQ(timeline.first_cause()->number, 1u);
  EXPECT_TRUE(timeline.Find(2)->folded);
  EXPECT_FALSE(timeline.Find(3)->folded);
  EXPECT_TRUE(timeline.Find(4)->folded);
  EXPECT_EQ(timeline.folded(), 2u);
}

TEST(Timeline, TakesTheClustersEventWhereTheNodesOneWasNotSeen) {
  Timeline timeline;
  v1::Event failed = Event(7, "cluster", v1::Event::SEVERITY_ERROR, 3, 1);
  failed.set_first_cause(true);
  timeline.Add(failed);
  ASSERT_NE(timeline.first_cause(), nullptr);
  EXPECT_EQ(timeline.first_cause()->number, 7u);
}

TEST(Timeline, IgnoresAnEventThatIsThereAndKeepsTheFirstCauseForEver) {
  Timeline timeline;
  timeline.Add(Event(0, "failure", v1::Event::SEVERITY_ERROR, 1, 0));
  v1::Event failed = Event(1, "cluster", v1::Event::SEVERITY_ERROR, 1, 0);
  failed.set_first_cause(true);
  timeline.Add(failed);
  const uint64_t version = timeline.version();
  timeline.Add(failed);
  EXPECT_EQ(timeline.version(), version);
  for (uint64_t i = 2; i < Timeline::kMaxEvents + 100; ++i) {
    timeline.Add(Event(i, "security", v1::Event::SEVERITY_INFO, -1, static_cast<double>(i)));
  }
  EXPECT_EQ(timeline.events().size(), Timeline::kMaxEvents);
  ASSERT_NE(timeline.first_cause(), nullptr);
  EXPECT_EQ(timeline.first_cause()->number, 0u);
}

TEST(Timeline, HasPhasesWithoutGaps) {
  Timeline timeline;
  const absl::Time t = absl::UnixEpoch();
  timeline.SetPhase(v1::ClusterInfo::PHASE_RESERVING, t);
  timeline.SetPhase(v1::ClusterInfo::PHASE_RESERVING, t + absl::Seconds(1));
  timeline.SetPhase(v1::ClusterInfo::PHASE_RUNNING, t + absl::Seconds(2));
  ASSERT_EQ(timeline.phases().size(), 2u);
  EXPECT_EQ(timeline.phases()[0].to, t + absl::Seconds(2));
  EXPECT_EQ(timeline.phases()[1].to, absl::InfiniteFuture());
  timeline.SetEpoch(1, t);
  timeline.SetEpoch(1, t);
  timeline.SetEpoch(2, t);
  EXPECT_EQ(timeline.epochs().size(), 2u);
}

TEST(Timeline, MarksFailuresRestartsAndJoinsOneForWhatFallsTogether) {
  Timeline timeline;
  timeline.Add(Event(0, "membership", v1::Event::SEVERITY_INFO, -1, 1));
  timeline.Add(Event(1, "slot", v1::Event::SEVERITY_INFO, 1, 1.2));
  timeline.Add(Event(2, "restart", v1::Event::SEVERITY_WARNING, 1, 5));
  timeline.Add(Event(3, "failure", v1::Event::SEVERITY_ERROR, 2, 9.0));
  // Told late, for it waited for another.
  timeline.Add(Event(4, "restart", v1::Event::SEVERITY_WARNING, 3, 8.8));
  timeline.Add(Event(5, "failure", v1::Event::SEVERITY_ERROR, 4, 9.1));
  const absl::Time t = absl::UnixEpoch();
  const auto marks = timeline.Marks(t, t + absl::Seconds(20), absl::Seconds(1));
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[0].kind, MarkKind::kJoin);
  EXPECT_EQ(marks[1].kind, MarkKind::kRestart);
  EXPECT_EQ(marks[1].event->number, 2u);
  EXPECT_EQ(marks[2].kind, MarkKind::kFailure);
  EXPECT_EQ(marks[2].event->number, 3u);
  EXPECT_EQ(marks[2].time, t + absl::Seconds(9));
  EXPECT_EQ(marks[2].count, 3);
  EXPECT_EQ(FormatMark(marks[2], absl::UTCTimeZone()), "00:00:09.0  failure text (and 2 more)");
  EXPECT_EQ(FormatMark(marks[1], absl::UTCTimeZone(), 6), "00:00:05.0  res...");
  EXPECT_EQ(timeline.Marks(t, t + absl::Seconds(20), absl::ZeroDuration()).size(), 5u);
  EXPECT_EQ(timeline.Marks(t + absl::Seconds(2), t + absl::Seconds(6), absl::Seconds(1)).size(),
            1u);
}

TEST(Timeline, TheFirstCauseIsTheMarkOfWhatFellUponItsTime) {
  Timeline timeline;
  timeline.Add(Event(0, "failure", v1::Event::SEVERITY_ERROR, 4, 8.9));
  v1::Event cause = Event(1, "failure", v1::Event::SEVERITY_ERROR, 3, 9);
  cause.set_first_cause(true);
  timeline.Add(cause);
  const absl::Time t = absl::UnixEpoch();
  const auto marks = timeline.Marks(t, t + absl::Seconds(20), absl::Seconds(1));
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].event->number, 1u);
}

// Events go when there are too many, and their marks with them.
TEST(Timeline, HasNoMarkOfAnEventThatIsGone) {
  Timeline timeline;
  timeline.Add(Event(0, "restart", v1::Event::SEVERITY_WARNING, 3, 1));
  for (uint64_t i = 1; i <= Timeline::kMaxEvents; ++i) {
    timeline.Add(Event(i, "slot", v1::Event::SEVERITY_INFO, -1, static_cast<double>(i)));
  }
  EXPECT_TRUE(timeline.Marks(absl::UnixEpoch(), absl::InfiniteFuture(), absl::Seconds(1)).empty());
}

}  // namespace
}  // namespace millrace::dashboard
