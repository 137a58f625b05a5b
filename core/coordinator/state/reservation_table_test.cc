#include "core/coordinator/state/reservation_table.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/reservation_table_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Kind = NodeReport::Kind;

// ---- every state × every event ------------------------------------------------------------------

// What an event does in each state: the letter of the state after it, then '*' if the cluster fails
// by it, '!' if it is counted as illegal, '~' if it is counted as fenced, and for Connect the code:
// A already exists, P failed precondition. '=' is the same state.
constexpr char kLetters[] = "RSCGYUDFXL";  // requested .. reGistered readY rUnning ...
const std::map<std::string, std::string> kExpected = {
    //                       R    S    C    G    Y    U    D    F    X    L
    {"agent started", "S    =    =    =    =    =    =    =    =    ="},
    {"agent exited", "X*   X*   L*   L*   L*   L*   L*   =    =    ="},
    {"agent awaited", "=    R    =    =    =    =    =    =    =    ="},
    {"connect, same agent", "C    C    =    =    =    =    =    =    =    U"},
    {"connect, another", "C    C    =A   =A   =A   =A   =A   =A   =A   =P"},
    {"registered", "=~   =~   G    =    =    =    =    =    =    =~"},
    {"ready", "=~   =~   =!   Y    =    =!   =!   =!   =!   =~"},
    {"running", "=~   =~   =!   U    U    =    =!   =!   =!   =~"},
    {"stopped", "=~   =~   =!   =!   =!   =    =    =!   =!   =~"},
    {"draining", "=~   =~   =!   D    D    D    =    =!   =!   =~"},
    {"exit 0", "=~   =~   =!   F    F    F    F    =    =    =~"},
    {"exit 1", "=~   =~   =!   X*   X*   X*   X*   =    =    =~"},
    {"killed as asked", "=~   =~   =!   F    F    F    F    =    =    =~"},
    {"launch failed", "=~   =~   =!   X*   X*   =!   X*   =    =    =~"},
    {"foreign attempt", "=~   =~   =!   =!   =!   =!   =!   =!   =!   =~"},
    {"stream lost", "=    =    =    =    =    =    =    =    =    ="},
    {"silence", "=    =    L    L    L    L*   L*   =    =    ="},
    {"lease over", "=    =    L    L    L    L*   L*   =    =    ="},
    {"stopped too long", "=    =    =    =    =    X*   X*   =    =    ="},
    {"driver's stop", "=    =    =    =    =    =    =    =    =    ="},
};

std::string Fire(TableFixture& f, const std::string& event) {
  ReservationTable& table = f.table;
  TableEffects* effects = &f.effects;
  auto connect = [&](const std::string& id) -> std::string {
    auto admission = table.Connect(0, Agent(id), 99, effects);
    if (admission.ok()) return "";
    if (admission.status().code() == absl::StatusCode::kAlreadyExists) return "A";
    if (admission.status().code() == absl::StatusCode::kFailedPrecondition) return "P";
    return absl::StrCat("?", admission.status().ToString());
  };
  if (event == "agent started") table.AgentStarted(0, kAgentPid, effects);
  if (event == "agent exited") table.AgentExited({.executor_id = 0, .exit = Signal(9)}, effects);
  if (event == "agent awaited") table.AgentAwaited(0, "no agent listens", effects);
  if (event == "connect, same agent") return connect("a0");
  if (event == "connect, another") return connect("other");
  if (event == "registered") table.Registered(0, 1, effects);
  if (event == "ready") table.Update(1, Report(Kind::kReady), effects);
  if (event == "running") table.Update(1, Report(Kind::kRunning), effects);
  if (event == "stopped") table.Update(1, Report(Kind::kStopped), effects);
  if (event == "draining") table.Update(1, Report(Kind::kDraining), effects);
  if (event == "exit 0") table.Update(1, Exit(Code(0)), effects);
  if (event == "exit 1") table.Update(1, Exit(Code(1)), effects);
  if (event == "killed as asked") table.Update(1, Exit(Signal(15), true), effects);
  if (event == "launch failed") table.Update(1, Report(Kind::kLaunchFailed), effects);
  if (event == "foreign attempt") table.Update(1, Report(Kind::kRunning, 1), effects);
  if (event == "stream lost") table.StreamLost(1, effects);
  if (event == "silence") f.Silence(absl::Seconds(5));
  if (event == "lease over") {
    table.StreamLost(1, effects);
    f.Silence(absl::Seconds(10));
  }
  if (event == "stopped too long") {
    table.Update(1, Report(Kind::kStopped), effects);
    f.Alive(absl::Seconds(10));
  }
  if (event == "driver's stop") table.Stop(0, "done", false, effects);
  return "";
}

TEST(ReservationTableTest, EveryEventInEveryStateDoesWhatTheTableSays) {
  for (const auto& [event, row] : kExpected) {
    const std::vector<std::string> cells = absl::StrSplit(row, ' ', absl::SkipEmpty());
    ASSERT_EQ(cells.size(), size_t{kNumSlotStates}) << event;
    for (int i = 0; i < kNumSlotStates; ++i) {
      SCOPED_TRACE(absl::StrCat(event, " in ", SlotStateName(static_cast<SlotState>(i))));
      TableFixture f;
      f.Bring(static_cast<SlotState>(i));
      ASSERT_EQ(f.table.state(0), static_cast<SlotState>(i));
      f.effects = {};
      const uint64_t fenced = f.table.fenced_updates();
      const uint64_t illegal = f.table.illegal_updates();

      const std::string code = Fire(f, event);
      const int after = static_cast<int>(f.table.state(0));
      std::string actual = after == i ? "=" : std::string(1, kLetters[after]);
      if (!f.effects.failures.empty()) actual += "*";
      const bool composite = event == "stopped too long";
      if (f.table.illegal_updates() > illegal && !composite) actual += "!";
      if (f.table.fenced_updates() > fenced && !composite) actual += "~";
      EXPECT_EQ(actual + code, cells[i]);
      EXPECT_LE(f.effects.failures.size(), 1u);
      // A failure is told where the slot ends, and nowhere else.
      if (after != i) {
        EXPECT_THAT(f.effects.changed, Not(IsEmpty()));
        EXPECT_GT(f.table.Status(0).reached[after], absl::InfinitePast());
      }
      EXPECT_EQ(f.effects.ended.empty(), after == i || !IsEnded(static_cast<SlotState>(after)));
    }
  }
}

// ---- the ladder ---------------------------------------------------------------------------------

TEST(ReservationTableTest, TheSpecIsMadeWhenTheLastHasRegisteredAndGoesToAll) {
  TableFixture f(3);
  f.Bring(SlotState::kRegistered, 0);
  f.Bring(SlotState::kRegistered, 1);
  EXPECT_EQ(f.table.epoch(), 0u);
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());
  f.Bring(SlotState::kRegistered, 2);
  EXPECT_EQ(f.table.epoch(), 1u);
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(1, 2, 3));
  EXPECT_THAT(f.table.spec().TaskAddress("worker", 2), IsOkAndHolds("a2:1"));
  EXPECT_FALSE(f.table.AllRan());
  for (int id = 0; id < 3; ++id) f.table.Update(1 + id, Report(Kind::kRunning), &f.effects);
  EXPECT_TRUE(f.table.AllRan());
}

TEST(ReservationTableTest, EachStepHasItsTime) {
  TableFixture f;
  const absl::Time start = f.clock.Now();
  f.clock.Advance(absl::Seconds(1));
  f.table.AgentStarted(0, kAgentPid, &f.effects);
  f.clock.Advance(absl::Seconds(1));
  ASSERT_THAT(f.table.Connect(0, Agent("a"), 1, &f.effects), IsOk());
  const SlotStatus status = f.table.Status(0);
  EXPECT_EQ(status.ReachedAt(SlotState::kRequested), start);
  EXPECT_EQ(status.ReachedAt(SlotState::kStarted), start + absl::Seconds(1));
  EXPECT_EQ(status.ReachedAt(SlotState::kConnected), start + absl::Seconds(2));
  EXPECT_EQ(status.ReachedAt(SlotState::kRunning), absl::InfinitePast());
  EXPECT_EQ(status.host, "host-a");
  EXPECT_TRUE(status.attached);
}

TEST(ReservationTableTest, AFastProgramThatFinishedCountsAsHavingRun) {
  TableFixture f(2);
  f.Bring(SlotState::kRegistered, 0);
  f.Bring(SlotState::kRegistered, 1);
  f.table.Update(1, Exit(Code(0)), &f.effects);
  f.table.Update(2, Report(Kind::kRunning), &f.effects);
  EXPECT_TRUE(f.table.AllRan());
}

TEST(ReservationTableTest, AnySlotMeansTheLowestFreeOne) {
  TableFixture f(3);
  auto connect = [&](const std::string& id, uint64_t stream) {
    return f.table.Connect(std::nullopt, Agent(id), stream, &f.effects);
  };
  f.Bring(SlotState::kConnected, 1);
  EXPECT_EQ(connect("x", 10)->executor_id, 0);
  EXPECT_EQ(connect("y", 11)->executor_id, 2);
  EXPECT_EQ(connect("y", 12)->executor_id, 2);  // the same agent again
  EXPECT_THAT(connect("z", 13), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(f.table.Connect(1, Agent("x"), 14, &f.effects),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("executor 0")));
}

TEST(ReservationTableTest, WrongRegistrationsAreRefused) {
  TableFixture f;
  EXPECT_THAT(f.table.Connect(1, Agent("a"), 1, &f.effects),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("0..0")));
  EXPECT_THAT(f.table.Connect(-1, Agent("a"), 1, &f.effects),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(f.table.Connect(0, Agent(""), 1, &f.effects),
              StatusIs(absl::StatusCode::kInvalidArgument));
  f.table.AgentStarted(7, 1, &f.effects);
  f.table.AgentExited({.executor_id = -7}, &f.effects);
  f.table.Stop(7, "x", true, &f.effects);
  EXPECT_TRUE(f.effects.empty());
}

TEST(ReservationTableTest, PatienceWithThousandsDoesNotEndAtOnceWhenTheLastOfThemRuns) {
  TableFixture f(1000);  // 10 s until all run, then 5 s
  for (int id = 0; id < 999; ++id) f.Bring(SlotState::kRunning, id);
  f.Silence(absl::Seconds(8));
  f.Bring(SlotState::kRunning, 999);
  ASSERT_TRUE(f.table.AllRan());
  f.Silence(absl::Seconds(4.9));
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_GT(f.table.NextDeadline(), f.clock.SteadyNow());
  f.Silence(absl::Seconds(0.2));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, SizeIs(1000));
}

// ---- coming back and taking over ----------------------------------------------------------------

TEST(ReservationTableTest, TheSameAgentTakesUpItsSlotAndClosesItsOldStream) {
  TableFixture f;
  f.Bring(SlotState::kRunning);
  const std::string nonce = f.table.nonce(0);
  f.effects = {};
  auto admission = f.table.Connect(0, Agent("a0"), 7, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_TRUE(admission->again);
  EXPECT_EQ(admission->attempt, 0u);
  EXPECT_EQ(admission->nonce, nonce);
  ASSERT_THAT(f.effects.close, SizeIs(1));
  EXPECT_EQ(f.effects.close[0].stream_id, 1u);
  f.effects = {};
  EXPECT_TRUE(f.table.Registered(0, 7, &f.effects));
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(7));
  EXPECT_EQ(f.table.epoch(), 1u);
  f.table.StreamLost(1, &f.effects);  // the old one, late
  EXPECT_EQ(f.table.stream(0), 7u);
  f.table.Update(1, Exit(Code(1)), &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_EQ(f.table.fenced_updates(), 1u);
}

// Its program may have begun, and others have failed of its end, before it could be told that.
TEST(ReservationTableTest, TheLossOfANodeThatIsNotKnownToHaveRunIsAFailureOnceAnotherHasFailed) {
  TableFixture f(3);
  f.Bring(SlotState::kReady, 0);
  f.Bring(SlotState::kRunning, 1);
  f.table.StreamLost(1, &f.effects);
  NodeReport echo = Exit(Code(1));
  echo.error = absl::UnavailableError("the connection to worker 0 broke");
  f.table.Update(2, echo, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_TRUE(f.effects.failures[0].consequence);
  // So it is for a table that takes over.
  TableFixture next(3);
  for (const int id : {0, 1}) next.table.Restore(id, f.table.Save(id), &next.effects);
  for (TableFixture* each : {&f, &next}) {
    each->effects = {};
    each->Alive(absl::Seconds(10));
    EXPECT_EQ(each->table.state(0), SlotState::kLost);
    ASSERT_THAT(each->effects.failures, SizeIs(1));
    EXPECT_EQ(each->effects.failures[0].executor_id, 0);
    EXPECT_FALSE(each->effects.failures[0].consequence);
  }
}

// A message may arrive when its sender's death is known already.
TEST(ReservationTableTest, AnAgentThatHasEndedIsNotTakenBack) {
  TableOptions options = Workers(2);
  options.restart.max_restarts = 1;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRegistered);
  f.table.StreamLost(1, &f.effects);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.table.Connect(0, Agent("a0"), 7, &f.effects),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker:0 has ended")));
  // The next one gets the slot.
  f.effects = {};
  f.Alive(absl::Seconds(2));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  f.table.AgentStarted(0, kAgentPid + 1, &f.effects);
  ASSERT_THAT(f.table.Connect(0, Agent("b"), 8, &f.effects), IsOk());
  EXPECT_TRUE(f.table.Registered(0, 8, &f.effects));
  EXPECT_EQ(f.table.attempt(0), 1u);
}

TEST(ReservationTableTest, WhoComesBackIsSentTheSpecUnlessItHoldsTheCurrentOne) {
  TableFixture f(Workers(2));
  f.Bring(SlotState::kRunning, 1);
  f.Bring(SlotState::kRunning, 0);
  AgentInfo agent = Agent("a0");
  agent.spec_epoch = f.table.epoch();
  f.effects = {};
  ASSERT_THAT(f.table.Connect(0, agent, 7, &f.effects), IsOk());
  ASSERT_TRUE(f.table.Registered(0, 7, &f.effects));
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());

  // It comes back with another address: all others are told, and it is sent the whole.
  agent.address = "a0:2";
  f.effects = {};
  ASSERT_THAT(f.table.Connect(0, agent, 8, &f.effects), IsOk());
  ASSERT_TRUE(f.table.Registered(0, 8, &f.effects));
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(8));
  EXPECT_THAT(f.effects.changes, SizeIs(1));

  // Another one that has not heard of that.
  AgentInfo other = Agent("a1");
  other.spec_epoch = f.table.epoch() - 1;
  f.effects = {};
  ASSERT_THAT(f.table.Connect(1, other, 9, &f.effects), IsOk());
  ASSERT_TRUE(f.table.Registered(1, 9, &f.effects));
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(9));
  EXPECT_THAT(f.effects.changes, IsEmpty());
}

TEST(ReservationTableTest, ALostSlotIsTakenAfterItsLeaseWithHigherAttemptAndFreshNonce) {
  TableOptions options = Workers(2);
  options.restart.max_restarts = 1;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRunning, 1);
  f.Bring(SlotState::kRunning, 0);
  f.table.StreamLost(1, &f.effects);
  const std::string nonce = f.table.nonce(0);
  EXPECT_TRUE(f.table.AnyoneMissing());
  EXPECT_THAT(f.table.Connect(0, Agent("b"), 9, &f.effects),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another 10 s")));
  f.Alive(absl::Seconds(10));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  EXPECT_TRUE(f.table.AwaitsReplacement(0));
  f.effects = {};
  auto admission = f.table.Connect(0, Agent("b"), 9, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_EQ(admission->attempt, 1u);
  EXPECT_NE(admission->nonce, nonce);
  EXPECT_THAT(f.effects.replaced, ElementsAre(0));
  ASSERT_TRUE(f.table.Registered(0, 9, &f.effects));
  f.Alive(absl::Seconds(2));  // until its restart is due
  EXPECT_EQ(f.table.epoch(), 2u);
  ASSERT_THAT(f.effects.changes, SizeIs(1));
  EXPECT_EQ(f.effects.changes[0].address, "b:1");
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(9));
  // The budget is used up.
  f.table.Update(9, Report(Kind::kRunning, 1), &f.effects);
  f.table.Update(9, Report(Kind::kRunning, 0), &f.effects);
  EXPECT_EQ(f.table.fenced_updates(), 1u);  // a lower attempt
  f.table.Update(9, Exit(Code(1), false, 1), &f.effects);
  EXPECT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.table.Connect(0, Agent("c"), 10, &f.effects),
              StatusIs(absl::StatusCode::kAlreadyExists));  // its agent is still there
  f.table.StreamLost(9, &f.effects);
  EXPECT_THAT(f.table.Connect(0, Agent("c"), 10, &f.effects),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ReservationTableTest, AnAgentWhoseNodeWasReplacedIsSentAwayAlsoDuringTheLeaseOfTheNextOne) {
  TableOptions options = Workers(1);
  options.restart.max_restarts = 2;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRunning);
  f.Silence(absl::Seconds(5));
  f.Silence(absl::Seconds(10));
  ASSERT_THAT(f.table.Connect(0, Agent("b"), 9, &f.effects), IsOk());
  f.table.Registered(0, 9, &f.effects);
  f.table.Update(9, Report(Kind::kRunning, 1), &f.effects);
  f.table.StreamLost(9, &f.effects);
  AgentInfo replaced = Agent("a0");
  replaced.attempt = 0;  // its node lives
  const auto refused = StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("attempt 0"));
  EXPECT_THAT(f.table.Connect(0, replaced, 10, &f.effects), refused);
  // Nor is the slot's next attempt for it.
  f.Silence(absl::Seconds(10));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.table.Connect(0, replaced, 11, &f.effects), refused);
  EXPECT_EQ(f.table.attempt(0), 1u);
  // The one that has it may come back, and one that had no node yet may wait for it.
  AgentInfo last = Agent("b");
  last.attempt = 1;
  EXPECT_THAT(f.table.Connect(0, last, 12, &f.effects), IsOk());
  f.table.StreamLost(12, &f.effects);
  EXPECT_THAT(f.table.Connect(0, Agent("c"), 13, &f.effects),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ReservationTableTest, AfterProvenDeathASlotIsTakenAtOnce) {
  TableOptions options = Workers(2);
  options.restart.max_restarts = 1;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRegistered);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  f.table.AgentStarted(0, 51, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kStarted);
  auto admission = f.table.Connect(0, Agent("b"), 9, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_EQ(admission->attempt, 1u);
  // A late word about the one that died.
  f.table.AgentExited({.executor_id = 0, .pid = 1234, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kConnected);
}

TEST(ReservationTableTest, ASilentAgentIsLostAfterFiveSecondsAndMayComeBack) {
  TableOptions options = Workers(1);
  options.restart.max_restarts = 1;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRunning);
  EXPECT_EQ(f.table.NextDeadline(), f.clock.SteadyNow() + absl::Seconds(5));
  f.Silence(absl::Seconds(4.9));
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  f.Silence(absl::Seconds(0.1));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  ASSERT_THAT(f.effects.close, SizeIs(1));
  EXPECT_THAT(f.table.Connect(0, Agent("b"), 8, &f.effects),
              StatusIs(absl::StatusCode::kUnavailable));
  f.Silence(absl::Seconds(9));
  const absl::Time ran = f.table.Status(0).ReachedAt(SlotState::kRunning);
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_EQ(f.table.attempt(0), 0u);
  EXPECT_EQ(f.table.Status(0).ReachedAt(SlotState::kRunning), ran);
  EXPECT_THAT(f.table.Status(0).error, IsOk());
}

TEST(ReservationTableTest, AnAgentThatComesBackFromLostTellsThePidOfItsNodeAgain) {
  TableFixture f(1);
  f.Bring(SlotState::kRunning);
  f.Silence(absl::Seconds(5));
  EXPECT_EQ(f.table.Status(0).node_pid, 0);
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  f.table.Registered(0, 9, &f.effects);
  f.effects = {};
  f.table.Update(9, Report(NodeReport::Kind::kRunning), &f.effects);
  EXPECT_EQ(f.table.Status(0).node_pid, kNodePid);
  EXPECT_THAT(f.effects.changed, ElementsAre(0));
}

TEST(ReservationTableTest, ALargeClusterThatGathersIsGivenTimeForItsHandshakes) {
  TableFixture f(2000);
  f.Bring(SlotState::kRegistered);  // slot 0; the others are not there yet
  f.Silence(absl::Seconds(19.9));
  EXPECT_EQ(f.table.state(0), SlotState::kRegistered);
  EXPECT_EQ(f.table.NextDeadline(), f.clock.SteadyNow() + absl::Seconds(0.1));
  f.Silence(absl::Seconds(0.1));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
}

TEST(ReservationTableTest, AnAgentThatComesBackAfterItsReplacementStartedBeginsAnew) {
  TableOptions options = Workers(2);
  options.restart.max_restarts = 1;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRegistered);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  f.table.AgentAwaited(0, "no agent listens", &f.effects);
  f.table.AgentStarted(0, 51, &f.effects);
  auto admission = f.table.Connect(0, Agent("a0"), 9, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_FALSE(admission->again);
  EXPECT_EQ(admission->attempt, 1u);
  EXPECT_EQ(f.table.state(0), SlotState::kConnected);
}

TEST(ReservationTableTest, AnAgentThatComesBackStaysWhileItsLauncherLooksForAnother) {
  TableOptions options = Workers(1);
  options.restart.max_restarts = 3;
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRunning);
  f.table.AgentExited(
      {.executor_id = 0, .pid = kAgentPid, .status = absl::UnavailableError("left")}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  f.Silence(absl::Seconds(2));
  ASSERT_THAT(f.effects.relaunch, ElementsAre(0));
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  ASSERT_TRUE(f.table.Registered(0, 9, &f.effects));
  ASSERT_EQ(f.table.state(0), SlotState::kRunning);
  f.effects = {};
  f.table.AgentAwaited(0, "no answer", &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_EQ(f.table.stream(0), 9u);
  // The other one is found, is not needed, and ends.
  f.table.AgentStarted(0, 51, &f.effects);
  EXPECT_THAT(f.table.Connect(0, Agent("b"), 10, &f.effects),
              StatusIs(absl::StatusCode::kAlreadyExists));
  f.table.AgentExited({.executor_id = 0, .pid = 51, .exit = Code(3)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  // Or is not: not while the one that came back is heard, nor in its lease.
  f.table.StreamLost(9, &f.effects);
  f.table.AgentAwaited(0, "no answer", &f.effects);
  EXPECT_THAT(f.table.Connect(0, Agent("b"), 11, &f.effects),
              StatusIs(absl::StatusCode::kUnavailable));
  f.table.AgentExited({.executor_id = 0, .status = absl::DeadlineExceededError("no agent")},
                      &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_THAT(f.effects.close, IsEmpty());
  EXPECT_EQ(f.table.attempt(0), 0u);
  // Its own death is still one.
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
}

TEST(ReservationTableTest, WhenNoReplacementComesForALostSlotTheLauncherSaysSo) {
  TableFixture f(2);
  f.Bring(SlotState::kRegistered);
  f.Silence(absl::Seconds(5));
  EXPECT_THAT(f.effects.failures, IsEmpty());
  f.table.AgentExited({.executor_id = 0, .exit = Signal(9)}, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].status.code(), absl::StatusCode::kUnavailable);
}

// ---- failures -----------------------------------------------------------------------------------

TEST(ReservationTableTest, AFailureSaysWhoHowAndWithWhichLastLines) {
  TableFixture f;
  f.Bring(SlotState::kRunning);
  NodeReport report = Exit(Signal(9));
  for (int i = 0; i < 60; ++i) report.stderr_tail.push_back(absl::StrCat("line ", i));
  f.table.Update(1, report, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  const NodeFailure& failure = f.effects.failures[0];
  EXPECT_THAT(failure.status, StatusIs(absl::StatusCode::kAborted, "was killed by SIGKILL"));
  EXPECT_EQ(failure.pid, kNodePid);
  EXPECT_EQ(failure.host, "host-a0");
  EXPECT_THAT(failure.stderr_tail, SizeIs(50));
  EXPECT_EQ(failure.stderr_tail.back(), "line 59");
  EXPECT_FALSE(failure.consequence);
  EXPECT_EQ(f.table.Status(0).node_pid, 0);
}

TEST(ReservationTableTest, CodesFollowTheCause) {
  auto failure = [](const NodeReport& report, SlotState at) {
    TableFixture f;
    f.Bring(at);
    f.table.Update(1, report, &f.effects);
    EXPECT_THAT(f.effects.failures, SizeIs(1));
    return f.effects.failures.at(0);
  };
  EXPECT_THAT(failure(Exit(Code(3)), SlotState::kRunning).status,
              StatusIs(absl::StatusCode::kAborted, "exited with code 3"));
  NodeReport said = Exit(Code(1));
  said.error = absl::InvalidArgumentError("bad data");
  EXPECT_THAT(failure(said, SlotState::kRunning).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "failed with INVALID_ARGUMENT: bad data (it exited with code 1)"));
  const NodeFailure unstarted = failure(Report(Kind::kLaunchFailed), SlotState::kReady);
  EXPECT_THAT(unstarted.status,
              StatusIs(absl::StatusCode::kNotFound, "could not start its program: no such file"));
  EXPECT_EQ(unstarted.pid, 0);
  said.error = absl::UnavailableError("peer is gone");
  EXPECT_TRUE(failure(said, SlotState::kRunning).consequence);
}

TEST(ReservationTableTest, TheFirstSignOfAFailureIsWhatTheNodeWroteLast) {
  TableFixture f(4);
  for (int id = 0; id < 4; ++id) f.Bring(SlotState::kRegistered, id);
  for (int id = 0; id < 4; ++id) f.table.Update(1 + id, Report(Kind::kRunning), &f.effects);
  const auto fail = [&](int id) {
    f.effects = {};
    f.table.Update(1 + id, Exit(Code(1)), &f.effects);
    return f.effects.failures.at(0).first_sign;
  };
  const absl::Duration start = f.clock.SteadyNow();
  f.table.NoteStderr(0);
  f.clock.Advance(absl::Seconds(10));
  f.table.NoteStderr(1);
  f.clock.Advance(absl::Milliseconds(200));
  f.table.NoteStderr(1);  // goes on
  f.clock.Advance(absl::Milliseconds(300));
  f.table.NoteStderr(2);
  const absl::Duration now = f.clock.SteadyNow();
  // Only one has written before, and not so long ago that it says nothing.
  EXPECT_TRUE(f.table.AnyoneShowedSigns(start + absl::Seconds(10) + absl::Milliseconds(1)));
  EXPECT_FALSE(f.table.AnyoneShowedSigns(start + absl::Seconds(10)));
  EXPECT_EQ(fail(2), now);
  EXPECT_TRUE(f.table.AnyoneShowedSigns(now));
  // What was written before the first failure counts, however long the end takes.
  f.clock.Advance(absl::Seconds(4));
  EXPECT_EQ(fail(1), start + absl::Seconds(10));
  EXPECT_FALSE(f.table.AnyoneShowedSigns(now));
  // Another one has written nothing shortly before.
  EXPECT_EQ(fail(0), f.clock.SteadyNow());
  f.table.Stop(3, "another node has failed", false, &f.effects);
  EXPECT_FALSE(f.table.AnyoneShowedSigns(absl::InfiniteDuration()));
}

TEST(ReservationTableTest, WhatWasAskedIsNoFailureAndABadExitStillIs) {
  TableFixture f(3);
  for (int id = 0; id < 3; ++id) f.Bring(SlotState::kRegistered, id);
  for (int id = 0; id < 3; ++id) f.table.Update(1 + id, Report(Kind::kRunning), &f.effects);
  f.effects = {};
  for (int id = 0; id < 3; ++id) f.table.Stop(id, "done", false, &f.effects);
  EXPECT_THAT(f.effects.stop, SizeIs(3));
  f.table.Stop(0, "done", false, &f.effects);
  EXPECT_THAT(f.effects.stop, SizeIs(3));  // no news
  f.table.Stop(0, "done", true, &f.effects);
  ASSERT_THAT(f.effects.stop, SizeIs(4));
  EXPECT_TRUE(f.effects.stop[3].now);
  f.table.Update(1, Exit(Signal(9), /*as_asked=*/true), &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kFinished);
  f.table.StreamLost(2, &f.effects);
  f.Alive(absl::Seconds(10));
  EXPECT_EQ(f.table.state(1), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  EXPECT_TRUE(f.table.HasEnded(1));
  f.table.Update(3, Exit(Code(4)), &f.effects);
  EXPECT_THAT(f.effects.failures, SizeIs(1));
}

TEST(ReservationTableTest, AnAgentThatWasTurnedAwayFromAStoppedSlotIsNoFailure) {
  TableFixture f;
  f.Bring(SlotState::kStarted);
  f.table.Stop(0, "over", false, &f.effects);
  f.table.AgentExited({.executor_id = 0, .exit = Code(3)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_TRUE(f.table.HasEnded(0));
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(ReservationTableTest, AStoppedNodeThatContinuesInTimeIsFine) {
  TableFixture f;
  f.Bring(SlotState::kRunning);
  f.table.Update(1, Report(Kind::kStopped), &f.effects);
  EXPECT_TRUE(f.table.Status(0).stopped);
  f.Alive(absl::Seconds(9));
  f.table.Update(1, Report(Kind::kRunning), &f.effects);
  EXPECT_FALSE(f.table.Status(0).stopped);
  f.Alive(absl::Seconds(20));
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_EQ(f.table.illegal_updates(), 0u);
}

TEST(ReservationTableTest, AStoppedNodeIsKilledWhenItsTimeIsOver) {
  TableFixture f;
  f.Bring(SlotState::kRunning);
  f.table.Update(1, Report(Kind::kStopped), &f.effects);
  f.effects = {};
  f.Alive(absl::Seconds(10));
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.failures[0].status,
              StatusIs(absl::StatusCode::kAborted,
                       "was stopped by a signal (SIGSTOP) for 10 s, longer than "
                       "stop_timeout; continue it (SIGCONT) in time, or raise that"));
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_TRUE(f.effects.stop[0].now);
}

TEST(ReservationTableTest, AStoppedSlotTakesNoAgentAndHearsItWhenItComesBack) {
  TableFixture f(2);
  f.table.Stop(1, "over", false, &f.effects);
  EXPECT_TRUE(f.table.HasEnded(1));
  EXPECT_THAT(f.table.Connect(1, Agent("b"), 5, &f.effects),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("over")));
  f.Bring(SlotState::kConnected, 0);
  f.table.Stop(0, "over", false, &f.effects);
  EXPECT_THAT(f.effects.stop, IsEmpty());
  f.table.Registered(0, 1, &f.effects);
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  f.table.AgentExited({.executor_id = 0, .exit = Code(0)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kFinished);
}

// ---- the reservation timeout --------------------------------------------------------------------

TEST(ReservationTableTest, TheTimeoutNamesEachMissingSlotItsStepAndLastLines) {
  TableFixture f(4);
  f.Bring(SlotState::kRegistered, 0);
  f.Bring(SlotState::kConnected, 1);
  f.clock.Advance(absl::Seconds(2));
  f.Bring(SlotState::kStarted, 2);
  f.table.NoteLog(2, "dialling 10.0.0.1:5");
  f.table.NoteLog(2, "  ");
  f.table.NoteLog(2, "connection refused\x1b");
  f.clock.Advance(absl::Seconds(598));
  EXPECT_THAT(
      f.table.ReservationTimeoutError(absl::Seconds(600)),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               "3 of 4 slots did not arrive in 600 s: worker:1 (executor 1) connected 600 s ago "
               "from host host-a1, not registered; worker:2 (executor 2) started 598 s ago, not "
               "connected: 'dialling 10.0.0.1:5' | 'connection refused\\x1b'; worker:3 "
               "(executor 3) requested, its agent never started (no free executor, pod or host for "
               "it?)"));
}

TEST(ReservationTableTest, AfterTheSpecTheTimeoutNamesWhoDoesNotStart) {
  TableFixture f(2);
  f.Bring(SlotState::kRegistered, 0);
  f.Bring(SlotState::kRegistered, 1);
  f.table.Update(1, Report(Kind::kRunning), &f.effects);
  f.clock.Advance(absl::Seconds(4));
  EXPECT_THAT(std::string(f.table.ReservationTimeoutError(absl::Seconds(4)).message()),
              HasSubstr("1 of 2 slots did not start in 4 s: worker:1 (executor 1) registered 4 s "
                        "ago on host host-a1, not ready"));
}

TEST(ReservationTableTest, TheTimeoutOfAHugeClusterIsStillReadable) {
  TableFixture f(1000);
  const std::string text(f.table.ReservationTimeoutError(absl::Seconds(1)).message());
  EXPECT_THAT(text, HasSubstr("1000 of 1000 slots"));
  EXPECT_THAT(text, HasSubstr("and 980 more"));
  EXPECT_LT(text.size(), 4000u);
}

}  // namespace
}  // namespace millrace
