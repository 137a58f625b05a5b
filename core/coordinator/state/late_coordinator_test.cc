// A coordinator whose process is stopped, and continues later: what its table makes of it.

#include <optional>

#include "absl/time/time.h"
#include "core/base/attended_clock.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/coordinator/state/reservation_table_testing.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

// A table by this clock, whose coordinator ticks each second unless it is stopped.
struct Coordinator {
  explicit Coordinator(RestartPolicy restart = {}) {
    TableOptions options = Workers(2);
    options.restart = restart;
    options.clock = &clock;
    table.emplace(options);
    for (int id = 0; id < 2; ++id) Bring(id);
  }
  void Bring(int id) {
    const uint64_t stream = 1 + id;
    EXPECT_THAT(table->Connect(id, Agent(id == 0 ? "a" : "b"), stream, &effects), IsOk());
    EXPECT_TRUE(table->Registered(id, stream, &effects));
    table->Update(stream, Report(NodeReport::Kind::kRunning), &effects);
  }
  void Stopped(absl::Duration duration) {
    real.Advance(duration);
    table->Tick(&effects);
  }
  void Silence(int seconds) {
    for (int i = 0; i < seconds; ++i) Stopped(absl::Seconds(1));
  }

  FakeClock real;
  AttendedClock clock{&real, absl::Seconds(2)};
  std::optional<ReservationTable> table;
  TableEffects effects;
};

TEST(LateCoordinatorTest, ACoordinatorThatWasStoppedLosesNobody) {
  Coordinator f;
  f.Silence(3);
  f.Stopped(absl::Seconds(60));
  f.Silence(1);
  EXPECT_EQ(f.table->state(0), SlotState::kRunning);
  EXPECT_TRUE(f.effects.failures.empty());
  f.Silence(1);  // the fifth second in which it could have heard
  EXPECT_EQ(f.table->state(0), SlotState::kLost);
  EXPECT_EQ(f.effects.failures.size(), 2u);
}

TEST(LateCoordinatorTest, ALeaseWaitsForACoordinatorThatWasStopped) {
  Coordinator f;
  f.table->StreamLost(1, &f.effects);
  f.Stopped(absl::Hours(1));
  EXPECT_EQ(f.table->state(0), SlotState::kRunning);
  const auto back = f.table->Connect(0, Agent("a"), 9, &f.effects);
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(back->again);
  f.table->StreamLost(9, &f.effects);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(f.table->state(0), SlotState::kRunning);
    f.table->Heard(2);
    f.Silence(1);
  }
  EXPECT_EQ(f.table->state(0), SlotState::kLost);
}

TEST(LateCoordinatorTest, AStoppedNodeIsNotBlamedForItsCoordinatorsPause) {
  Coordinator f;
  f.table->Update(1, Report(NodeReport::Kind::kStopped), &f.effects);
  f.Stopped(absl::Minutes(5));
  EXPECT_EQ(f.table->state(0), SlotState::kRunning);
  f.table->Update(1, Report(NodeReport::Kind::kRunning), &f.effects);
  EXPECT_FALSE(f.table->Status(0).stopped);
  EXPECT_TRUE(f.effects.failures.empty());
}

}  // namespace
}  // namespace millrace
