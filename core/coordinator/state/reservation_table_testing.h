// File: core/coordinator/state/reservation_table_testing.h
//
// A reservation table whose time and slots a test moves.
//
// Defines: TableFixture, Agent, Code, Signal, Report, Exit.

#ifndef CORE_COORDINATOR_STATE_RESERVATION_TABLE_TESTING_H_
#define CORE_COORDINATOR_STATE_RESERVATION_TABLE_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/process/exit_status.h"
#include "gtest/gtest.h"

namespace millrace {

inline constexpr int64_t kAgentPid = 50;
inline constexpr int64_t kNodePid = 60;

inline AgentInfo Agent(const std::string& id) { return {id, "host-" + id, kAgentPid, id + ":1"}; }

inline ExitStatus Code(int code) { return {.kind = ExitStatus::Kind::kExited, .code = code}; }
inline ExitStatus Signal(int signal) {
  return {.kind = ExitStatus::Kind::kSignaled, .signal = signal};
}

inline NodeReport Report(NodeReport::Kind kind, uint32_t attempt = 0) {
  NodeReport report;
  report.kind = kind;
  report.attempt = attempt;
  report.pid = kNodePid;
  if (kind == NodeReport::Kind::kLaunchFailed) report.error = absl::NotFoundError("no such file");
  return report;
}

inline NodeReport Exit(const ExitStatus& exit, bool as_asked = false, uint32_t attempt = 0) {
  NodeReport report = Report(NodeReport::Kind::kExited, attempt);
  report.exit = exit;
  report.as_asked = as_asked;
  return report;
}

// What a table of so many workers is made of, with the durations that its tests count on.
inline TableOptions Workers(int count) {
  TableOptions options{.lost_after = absl::Seconds(5),
                       .lease = absl::Seconds(10),
                       .stop_timeout = absl::Seconds(10)};
  for (int i = 0; i < count; ++i) options.roles.push_back({"worker", i});
  return options;
}

// A table with its clock, and one slot that can be put into any state.
struct TableFixture {
  explicit TableFixture(int num_slots = 1) : TableFixture(Workers(num_slots)) {}
  explicit TableFixture(TableOptions options) : table(WithClock(std::move(options))) {}

  TableOptions WithClock(TableOptions options) {
    options.clock = &clock;
    return options;
  }

  // Takes slot `id` with agent "a<id>" and stream 1 + id, up to `state`.
  void Bring(SlotState state, int id = 0) {
    if (state == SlotState::kRequested) return;
    table.AgentStarted(id, kAgentPid, &effects);
    if (state == SlotState::kStarted) return;
    const uint64_t stream = 1 + id;
    ASSERT_THAT(table.Connect(id, Agent(absl::StrCat("a", id)), stream, &effects), IsOk());
    if (state == SlotState::kConnected) return;
    ASSERT_TRUE(table.Registered(id, stream, &effects));
    if (state == SlotState::kRegistered) return;
    table.Update(stream, Report(NodeReport::Kind::kReady), &effects);
    if (state == SlotState::kReady) return;
    table.Update(stream, Report(NodeReport::Kind::kRunning), &effects);
    if (state == SlotState::kDraining)
      table.Update(stream, Report(NodeReport::Kind::kDraining), &effects);
    if (state == SlotState::kFinished) table.Update(stream, Exit(Code(0)), &effects);
    if (state == SlotState::kFailed) table.Update(stream, Exit(Code(1)), &effects);
    if (state == SlotState::kLost) Silence(absl::Seconds(5));
  }
  void Silence(absl::Duration duration) {
    clock.Advance(duration);
    table.Tick(&effects);
  }
  // Time passes, and every live agent sends its heartbeats.
  void Alive(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
      for (int id = 0; id < table.size(); ++id) {
        if (table.stream(id) != 0) table.Heard(table.stream(id));
      }
      clock.Advance(absl::Seconds(1));
      table.Tick(&effects);
    }
  }

  FakeClock clock;
  ReservationTable table;
  TableEffects effects;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_RESERVATION_TABLE_TESTING_H_
