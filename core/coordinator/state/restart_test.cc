// Restarts: what the reservation table does when a node fails that may start again.

#include <string>

#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/coordinator/state/reservation_table_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Kind = NodeReport::Kind;

TableOptions Healing(int max_restarts) {
  TableOptions options = Workers(2);
  options.restart.max_restarts = max_restarts;
  return options;
}

// The node of slot 0 fails; its agent stays.
NodeReport Failure(uint32_t attempt, const std::string& next_address = "a0:2") {
  NodeReport report = Exit(Code(3), false, attempt);
  report.next_address = next_address;
  return report;
}

TEST(RestartTest, ANodeWhoseAgentStaysIsStartedAgainThereAfterItsBackoff) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.Bring(SlotState::kRunning, 1);
  const std::string nonce = f.table.nonce(0);
  f.effects = {};
  f.table.Update(1, Failure(0), &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kFailed);
  EXPECT_TRUE(f.table.AwaitsReplacement(0));
  EXPECT_FALSE(f.table.HasEnded(0));
  EXPECT_THAT(f.effects.failures, IsEmpty());
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  EXPECT_EQ(f.effects.restarts[0].used, 1);
  EXPECT_GE(f.effects.restarts[0].after, absl::Seconds(0.8));
  EXPECT_LE(f.effects.restarts[0].after, absl::Seconds(1.2));
  EXPECT_TRUE(f.table.Status(0).restart_at.has_value());
  EXPECT_LE(f.table.NextDeadline(), f.clock.SteadyNow() + absl::Seconds(1.2));
  f.effects = {};
  f.Silence(absl::Seconds(0.7));
  EXPECT_THAT(f.effects.start, IsEmpty());
  f.Silence(absl::Seconds(0.6));
  ASSERT_THAT(f.effects.start, SizeIs(1));
  EXPECT_EQ(f.effects.start[0].stream_id, 1u);
  EXPECT_EQ(f.effects.start[0].attempt, 1u);
  EXPECT_NE(f.effects.start[0].nonce, nonce);
  EXPECT_EQ(f.effects.start[0].nonce, f.table.nonce(0));
  EXPECT_THAT(f.effects.replaced, ElementsAre(0));
  ASSERT_THAT(f.effects.changes, SizeIs(1));
  EXPECT_EQ(f.effects.changes[0].epoch, 2u);
  EXPECT_EQ(f.effects.changes[0].address, "a0:2");
  EXPECT_EQ(f.effects.changes[0].attempt, 1u);
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  EXPECT_EQ(f.table.state(0), SlotState::kRegistered);
  EXPECT_FALSE(f.table.AllRan());
  // The last word of the attempt before is fenced.
  f.table.Update(1, Failure(0), &f.effects);
  EXPECT_EQ(f.table.fenced_updates(), 1u);
  f.table.Update(1, Report(Kind::kRunning, 1), &f.effects);
  EXPECT_TRUE(f.table.AllRan());
  EXPECT_EQ(f.table.Status(0).restarts, 1);
}

TEST(RestartTest, WhenTheBudgetIsUsedTheFailureTellsTheAttemptsBeforeAndTheAgentIsSentAway) {
  TableFixture f(Healing(2));
  f.Bring(SlotState::kRunning, 0);
  absl::Duration backoff;
  for (uint32_t attempt = 0; attempt < 2; ++attempt) {
    f.effects = {};
    f.table.Update(1, Failure(attempt), &f.effects);
    ASSERT_THAT(f.effects.restarts, SizeIs(1));
    EXPECT_GT(f.effects.restarts[0].after, backoff);
    backoff = f.effects.restarts[0].after;
    f.Alive(absl::Seconds(3));
    f.table.Update(1, Report(Kind::kRunning, attempt + 1), &f.effects);
  }
  f.effects = {};
  f.table.Update(1, Failure(2), &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  const NodeFailure& failure = f.effects.failures[0];
  EXPECT_EQ(failure.no_restart, "2 of 2 restarts used");
  EXPECT_THAT(failure.earlier_attempts,
              ElementsAre("attempt 0 exited with code 3", "attempt 1 exited with code 3"));
  EXPECT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_FALSE(f.table.AwaitsReplacement(0));
}

TEST(RestartTest, RestartsOutsideTheWindowDoNotCount) {
  TableOptions options = Healing(1);
  options.restart.window = absl::Minutes(10);
  TableFixture f(std::move(options));
  f.Bring(SlotState::kRunning, 0);
  for (uint32_t attempt = 0; attempt < 5; ++attempt) {
    f.table.Update(1, Failure(attempt), &f.effects);
    EXPECT_EQ(f.table.Status(0).restarts, 1);
    f.Alive(absl::Seconds(2));
    f.table.Update(1, Report(Kind::kRunning, attempt + 1), &f.effects);
    f.Alive(absl::Minutes(11));
    EXPECT_EQ(f.table.Status(0).restarts, 0);
  }
  EXPECT_THAT(f.effects.failures, IsEmpty());
  // Each run was long: the backoff is the first one again.
  EXPECT_LE(f.effects.restarts.back().after, absl::Seconds(1.2));
}

TEST(RestartTest, ThreeFailuresInAMinuteOnAHostEndRestartsThere) {
  TableFixture f(Healing(10));
  f.Bring(SlotState::kRunning, 0);
  f.Bring(SlotState::kRunning, 1);  // on another host
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    f.table.Update(1, Failure(attempt), &f.effects);
    f.Alive(absl::Seconds(3));
    f.table.Update(1, Report(Kind::kRunning, attempt + 1), &f.effects);
  }
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.failures[0].no_restart,
              AllOf(HasSubstr("3 failures in 60 s on host host-a0: no restarts there until "),
                    HasSubstr("2 of 10 restarts used")));
  ASSERT_THAT(f.table.Quarantined(), SizeIs(1));
  EXPECT_EQ(f.table.Quarantined()[0].host, "host-a0");
  f.Alive(absl::Minutes(5));
  EXPECT_THAT(f.table.Quarantined(), IsEmpty());
}

TEST(RestartTest, AnAgentThatDiedIsReplacedByItsLauncher) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  f.effects = {};
  f.Silence(absl::Seconds(2));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  f.Silence(absl::Seconds(2));
  EXPECT_THAT(f.effects.relaunch, SizeIs(1));  // once
  // It could not: there is no second restart.
  f.table.AgentExited(
      {.executor_id = 0, .status = absl::ResourceExhaustedError("no processes left")}, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.failures[0].status,
              StatusIs(absl::StatusCode::kUnavailable,
                       "was lost: its agent was killed by SIGKILL; no other agent could be "
                       "started: no processes left"));
}

// An operator asked for it while the lease of one that is out of reach ran on.
TEST(RestartTest, AnAgentThatEndsWhileItWaitsForALeaseIsReplaced) {
  TableFixture f(Healing(2));
  f.Bring(SlotState::kRunning, 0);
  f.Silence(absl::Seconds(5));
  ASSERT_EQ(f.table.state(0), SlotState::kLost);
  ASSERT_THAT(f.table.Restart(0, "by an operator", &f.effects), IsOk());
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  f.table.AgentStarted(0, 77, &f.effects);
  EXPECT_THAT(f.table.Connect(0, Agent("b0"), 9, &f.effects),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is held for its agent")));
  f.table.AgentExited({.executor_id = 0, .pid = 77, .exit = Signal(9)}, &f.effects);
  EXPECT_EQ(f.table.NextDeadline(), f.clock.SteadyNow() + absl::Seconds(10)) << "the lease's end";
  f.effects = {};
  f.Silence(absl::Seconds(10));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  f.table.AgentStarted(0, 78, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kStarted);
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, TheBackoffOfAnAgentsDeathBeginsWhenItsStreamBreaks) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.StreamLost(1, &f.effects);
  f.Silence(absl::Seconds(0.7));
  f.table.AgentExited({.executor_id = 0, .agent_id = "a0", .exit = Signal(9)}, &f.effects);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  EXPECT_LE(f.effects.restarts[0].after, absl::Seconds(0.5));
  EXPECT_GE(f.effects.restarts[0].after, absl::Seconds(0.1));
  f.Silence(absl::Seconds(0.6));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
}

TEST(RestartTest, TheDeathOfAnAgentThatIsToldTwiceCountsOnce) {
  TableFixture f(Healing(2));
  f.Bring(SlotState::kRunning, 1);
  f.Bring(SlotState::kConnected, 0);
  const AgentExit death = {.executor_id = 0, .agent_id = "a0", .exit = Signal(9)};
  f.table.AgentExited(death, &f.effects);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  f.Silence(absl::Seconds(1));
  ASSERT_THAT(f.effects.relaunch, ElementsAre(0));
  f.effects = {};
  f.table.AgentExited(death, &f.effects);
  EXPECT_THAT(f.effects.restarts, IsEmpty());
  EXPECT_EQ(f.table.Status(0).restarts, 1);
}

// The agent of slot 0 was killed, and another one has come before the next attempt is due.
void KillAndReplaceEarly(TableFixture& f) {
  f.Bring(SlotState::kRunning, 0);
  f.Bring(SlotState::kRunning, 1);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  f.effects = {};
  const auto admission = f.table.Connect(0, Agent("b0"), 9, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_EQ(admission->attempt, 1u);
  EXPECT_TRUE(f.table.IsEarly(0));
}

TEST(RestartTest, AnAgentThatComesEarlyWaitsUntilItsAttemptIsDue) {
  TableFixture f(Healing(1));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  EXPECT_TRUE(f.table.IsEarly(0));
  f.Silence(absl::Seconds(0.7));
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());
  EXPECT_THAT(f.effects.changes, IsEmpty());
  EXPECT_TRUE(f.table.Status(0).restart_at.has_value());
  f.Silence(absl::Seconds(0.6));
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(9u));
  ASSERT_THAT(f.effects.changes, SizeIs(1));
  EXPECT_EQ(f.effects.changes[0].address, "b0:1");
  EXPECT_EQ(f.effects.changes[0].attempt, 1u);
  EXPECT_FALSE(f.table.IsEarly(0));
  EXPECT_FALSE(f.table.Status(0).restart_at.has_value());
  f.table.Update(9, Report(Kind::kRunning, 1), &f.effects);
  EXPECT_TRUE(f.table.AllRan());
  EXPECT_EQ(f.table.Status(0).restarts, 1);
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, AnEarlyAgentThatHasNoCertificateYetStartsWhenItHas) {
  TableFixture f(Healing(1));
  KillAndReplaceEarly(f);
  f.Silence(absl::Seconds(2));
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  f.table.Registered(0, 9, &f.effects);
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(9u));
}

TEST(RestartTest, AnEarlyAgentIsAskedToStopAndTheFailureCounts) {
  TableFixture f(Healing(1));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  f.table.Stop(0, "done", false, &f.effects);
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_EQ(f.effects.stop[0].stream_id, 9u);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart, "the cluster was stopped before its next attempt");
  f.Alive(absl::Seconds(60));
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
}

TEST(RestartTest, AnEarlyAgentThatIsSilentIsReplacedWhenItsAttemptIsDue) {
  TableOptions options = Healing(1);
  options.restart.initial_backoff = options.restart.max_backoff = absl::Seconds(20);
  TableFixture f(std::move(options));
  const auto silence = [&f](int seconds) {  // of slot 0 alone
    for (; seconds > 0; --seconds) {
      f.table.Heard(f.table.stream(1));
      f.Silence(absl::Seconds(1));
    }
  };
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  silence(6);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  // It comes back, and waits on.
  ASSERT_THAT(f.table.Connect(0, Agent("b0"), 10, &f.effects), IsOk());
  f.table.Registered(0, 10, &f.effects);
  EXPECT_TRUE(f.table.IsEarly(0));
  EXPECT_EQ(f.table.Status(0).restarts, 1);
  silence(26);
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  EXPECT_THAT(f.effects.whole_spec, IsEmpty());
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

// Nobody else waits for it: the reservation is over.
TEST(RestartTest, AnAgentThatIsLostBeforeItsNextAttemptRunsIsAnotherFailure) {
  TableFixture f(Healing(2));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  f.Alive(absl::Seconds(2));
  EXPECT_FALSE(f.table.IsEarly(0));
  f.effects = {};
  f.table.StreamLost(9, &f.effects);
  f.Alive(absl::Seconds(11));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  EXPECT_EQ(f.effects.restarts[0].used, 2);
  f.Alive(absl::Seconds(3));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, AnAgentThatWasLostBeforeItsNextAttemptRanMayComeBack) {
  TableFixture f(Healing(2));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  f.Alive(absl::Seconds(2));
  for (int i = 0; i < 5; ++i) {  // of slot 0 alone
    f.table.Heard(f.table.stream(1));
    f.Silence(absl::Seconds(1));
  }
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_EQ(f.table.Status(0).restarts, 2);
  f.effects = {};
  ASSERT_THAT(f.table.Connect(0, Agent("b0"), 10, &f.effects), IsOk());
  f.table.Registered(0, 10, &f.effects);
  EXPECT_EQ(f.table.Status(0).restarts, 1);
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(10u));
  f.table.Update(10, Report(Kind::kRunning, 1), &f.effects);
  f.Alive(absl::Seconds(60));
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
}

// The report of its launcher may come before its last message.
TEST(RestartTest, ADeadAgentThatStillTakesTheSlotIsReplaced) {
  TableFixture f(Healing(2));
  f.Bring(SlotState::kRunning, 0);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  f.Alive(absl::Seconds(2));
  f.table.AgentStarted(0, kAgentPid, &f.effects);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  ASSERT_THAT(f.table.Connect(0, Agent("b0"), 9, &f.effects), IsOk());
  f.table.Registered(0, 9, &f.effects);
  f.table.StreamLost(9, &f.effects);
  f.effects = {};
  f.Alive(absl::Seconds(20));
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart, "2 of 2 restarts used");
}

TEST(RestartTest, ADeadAgentThatTakesASlotThatNeverRanIsReplacedToo) {
  TableFixture f(Healing(2));
  f.Bring(SlotState::kStarted, 0);
  f.table.AgentExited({.executor_id = 0, .pid = kAgentPid, .exit = Signal(9)}, &f.effects);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  f.table.Registered(0, 9, &f.effects);
  f.table.StreamLost(9, &f.effects);
  f.effects = {};
  f.Alive(absl::Seconds(20));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, AnOperatorsRestartThatIsLostBeforeItRunsIsAFailure) {
  TableFixture f(Healing(0));
  f.Bring(SlotState::kRunning, 0);
  ASSERT_THAT(f.table.Restart(0, "memory grows", &f.effects), IsOk());
  NodeReport end = Failure(0);
  end.as_asked = true;
  f.table.Update(1, end, &f.effects);
  ASSERT_THAT(f.effects.start, SizeIs(1));
  f.Silence(absl::Seconds(5));
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  EXPECT_THAT(f.effects.failures, SizeIs(1));
}

TEST(RestartTest, AnEarlyAgentThatIsKilledTooIsAnotherFailure) {
  TableFixture f(Healing(2));
  KillAndReplaceEarly(f);
  f.table.AgentExited({.executor_id = 0, .agent_id = "b0", .exit = Signal(9)}, &f.effects);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  EXPECT_EQ(f.effects.restarts[0].used, 2);
  EXPECT_GE(f.effects.restarts[0].after, absl::Seconds(1.6));
  f.Silence(absl::Seconds(3));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, AnEarlyAgentWhoseProgramIsNotThereEndsTheWait) {
  TableFixture f(Healing(3));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  NodeReport report = Report(Kind::kLaunchFailed, 1);
  report.pid = 0;
  f.table.Update(9, report, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart, "another attempt would end in the same way");
  f.Alive(absl::Seconds(60));
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  EXPECT_THAT(f.effects.start, IsEmpty());
  f.table.Stop(0, "done", false, &f.effects);
  EXPECT_THAT(f.effects.failures, SizeIs(1));
}

TEST(RestartTest, AnOperatorStartsAnEarlyAgentAtOnce) {
  TableFixture f(Healing(1));
  KillAndReplaceEarly(f);
  f.table.Registered(0, 9, &f.effects);
  EXPECT_THAT(f.table.Restart(0, "now", &f.effects), IsOk());
  EXPECT_THAT(f.effects.whole_spec, ElementsAre(9u));
  EXPECT_THAT(f.effects.stop, IsEmpty());
}

TEST(RestartTest, OnOneHostEachNodeIsCountedForItself) {
  TableOptions options = Workers(4);
  options.restart.max_restarts = 5;
  TableFixture f(std::move(options));
  auto agent = [](int id) {
    return AgentInfo{absl::StrCat("a", id), "the-host", kAgentPid, absl::StrCat("h:", id)};
  };
  for (int id = 0; id < 4; ++id) {
    ASSERT_THAT(f.table.Connect(id, agent(id), 1 + id, &f.effects), IsOk());
    f.table.Registered(id, 1 + id, &f.effects);
    f.table.Update(1 + id, Report(Kind::kRunning), &f.effects);
  }
  auto fail = [&](int id) {
    f.table.Update(1 + id, Failure(f.table.attempt(id)), &f.effects);
    f.Alive(absl::Seconds(6));
    f.table.Update(1 + id, Report(Kind::kRunning, f.table.attempt(id)), &f.effects);
  };
  for (int id = 0; id < 4; ++id) fail(id);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  for (int id = 0; id < 4; ++id) EXPECT_EQ(f.table.attempt(id), 1u);
  EXPECT_THAT(f.table.Quarantined(), IsEmpty());
  fail(2);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  fail(2);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart,
            "3 failures of worker:2 in 60 s, where quarantine begins, 2 of 5 restarts used");
  fail(3);
  EXPECT_EQ(f.table.attempt(3), 2u);
}

TEST(RestartTest, ASilentAgentHasItsLeaseToComeBackAndThenNothingIsUsed) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.Silence(absl::Seconds(5));
  f.effects = {};
  f.Silence(absl::Seconds(9));
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  EXPECT_EQ(f.table.Status(0).restarts, 0);
  f.table.Registered(0, 9, &f.effects);
  f.Silence(absl::Seconds(5));
  f.Silence(absl::Seconds(10));
  EXPECT_THAT(f.effects.relaunch, ElementsAre(0));
}

TEST(RestartTest, AStoppedNodeIsKilledForItsRestart) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.Update(1, Report(Kind::kStopped), &f.effects);
  f.effects = {};
  for (int i = 0; i < 10; ++i) {
    f.table.Heard(1);
    f.clock.Advance(absl::Seconds(1));
  }
  f.table.Tick(&f.effects);
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_TRUE(f.effects.stop[0].restart);
  EXPECT_TRUE(f.effects.stop[0].now);
  f.table.Update(1, Failure(0), &f.effects);
  f.Alive(absl::Seconds(2));
  EXPECT_THAT(f.effects.start, SizeIs(1));
  EXPECT_EQ(f.table.attempt(0), 1u);
}

TEST(RestartTest, AnOperatorsRestartUsesNoBudget) {
  TableFixture f(Healing(0));
  f.Bring(SlotState::kRunning, 0);
  EXPECT_THAT(f.table.Restart(7, "x", &f.effects), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(f.table.Restart(1, "x", &f.effects),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("requested")));
  ASSERT_THAT(f.table.Restart(0, "memory grows", &f.effects), IsOk());
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_TRUE(f.effects.stop[0].restart);
  EXPECT_EQ(f.effects.stop[0].reason, "memory grows");
  f.table.Update(1, Report(Kind::kDraining), &f.effects);
  NodeReport end = Failure(0);
  end.as_asked = true;
  f.table.Update(1, end, &f.effects);
  EXPECT_THAT(f.effects.start, SizeIs(1));
  EXPECT_EQ(f.table.state(0), SlotState::kRegistered);
  EXPECT_EQ(f.table.attempt(0), 1u);
  EXPECT_EQ(f.table.Status(0).restarts, 0);
  EXPECT_THAT(f.effects.failures, IsEmpty());
}

TEST(RestartTest, AStopEndsTheWaitForARestartAndTheFailureCounts) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.Update(1, Failure(0), &f.effects);
  f.effects = {};
  f.table.Stop(0, "done", false, &f.effects);
  EXPECT_THAT(f.effects.stop, SizeIs(1));  // the agent that stayed may go
  EXPECT_TRUE(f.table.HasEnded(0));
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart, "the cluster was stopped before its next attempt");
  f.Alive(absl::Seconds(60));
  EXPECT_THAT(f.effects.start, IsEmpty());
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  EXPECT_THAT(f.table.Restart(0, "x", &f.effects), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(RestartTest, AnAgentThatIsAwayWhenItsNextAttemptIsCalledOffIsSentAwayWhenItComes) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.Update(1, Failure(0), &f.effects);  // it stays for the next attempt
  f.table.StreamLost(1, &f.effects);
  f.table.Stop(0, "done", false, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.stop, IsEmpty());
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  f.table.Registered(0, 9, &f.effects);
  f.table.Update(9, Failure(0), &f.effects);  // its last word again
  ASSERT_THAT(f.effects.stop, SizeIs(1));
  EXPECT_EQ(f.effects.stop[0].stream_id, 9u);
  EXPECT_EQ(f.effects.stop[0].reason, "done");
  EXPECT_THAT(f.effects.failures, SizeIs(1));
}

TEST(RestartTest, AProgramThatIsNotThereIsNotLookedForAgain) {
  TableFixture f(Healing(3));
  f.Bring(SlotState::kReady, 0);
  NodeReport report = Report(Kind::kLaunchFailed);
  report.pid = 0;
  f.table.Update(1, report, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_EQ(f.effects.failures[0].no_restart, "another attempt would end in the same way");
}

TEST(RestartTest, AnEchoOfAHealedFailureNamesIt) {
  TableOptions options = Healing(0);
  options.roles.push_back({"ps", 0});
  options.restart_by_job["ps"].max_restarts = 1;
  TableFixture f(std::move(options));
  for (int id = 0; id < 3; ++id) f.Bring(SlotState::kRunning, id);
  f.table.Update(3, Exit(Signal(9)), &f.effects);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  NodeReport echo = Exit(Code(1));
  echo.error = absl::UnavailableError("ps:0 is gone");
  f.table.Update(1, echo, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.failures[0].healed_nearby,
              ElementsAre("ps:0, whose attempt 0 was killed by SIGKILL"));
}

TEST(RestartTest, AJumpOfTheWallClockChangesNothing) {
  TableFixture f(Healing(1));
  f.Bring(SlotState::kRunning, 0);
  f.table.Update(1, Failure(0), &f.effects);
  f.effects = {};
  for (const absl::Duration jump : {absl::Hours(1000), -absl::Hours(3000)}) {
    f.clock.AdvanceWall(jump);
    f.table.Tick(&f.effects);
  }
  EXPECT_TRUE(f.effects.empty());
  f.Alive(absl::Seconds(2));
  EXPECT_THAT(f.effects.start, SizeIs(1));
  f.clock.AdvanceWall(absl::Hours(1000));
  f.effects = {};
  f.table.Tick(&f.effects);
  EXPECT_TRUE(f.effects.empty());
  EXPECT_EQ(f.table.state(0), SlotState::kRegistered);
}

// The driver is killed while the node ends for it.
TEST(RestartTest, ATableThatTakesOverKnowsThatARestartWasAskedFor) {
  TableFixture before;
  before.Bring(SlotState::kRunning);
  ASSERT_THAT(before.table.Restart(0, "memory grows", &before.effects), IsOk());
  TableFixture f;
  f.table.Restore(0, before.table.Save(0), &f.effects);
  ASSERT_THAT(f.table.Connect(0, Agent("a0"), 9, &f.effects), IsOk());
  ASSERT_TRUE(f.table.Registered(0, 9, &f.effects));
  NodeReport end = Exit(Code(0), /*as_asked=*/true);
  end.next_address = "a0:2";
  f.table.Update(9, end, &f.effects);
  EXPECT_EQ(f.table.attempt(0), 1u);
  ASSERT_EQ(f.effects.start.size(), 1u);
  EXPECT_EQ(f.effects.start[0].attempt, 1u);
}

// An agent of a driver before, which this one's launcher could not find, is told of as gone just
// when another one is asked for.
TEST(RestartTest, ThatTheAgentBeforeIsGoneIsNotThatNoOtherCanBeStarted) {
  TableOptions options = Workers(1);
  options.restart.max_restarts = 1;
  TableFixture before(options);
  before.Bring(SlotState::kRunning);
  before.table.Update(1, Exit(Code(3)), &before.effects);
  ASSERT_THAT(before.effects.restarts, SizeIs(1));
  TableFixture f(options);
  f.table.Restore(0, before.table.Save(0), &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kFailed);
  f.Silence(absl::Seconds(5));
  ASSERT_THAT(f.effects.relaunch, ElementsAre(0));
  const absl::Status gone = absl::UnavailableError("was replaced");
  f.table.AgentExited({.executor_id = 0, .agent_id = "a0", .status = gone}, &f.effects);
  EXPECT_THAT(f.effects.failures, IsEmpty());
  // Were it that none can be, the cause would be that.
  f.table.AgentExited({.executor_id = 0, .status = gone}, &f.effects);
  ASSERT_THAT(f.effects.failures, SizeIs(1));
  EXPECT_THAT(f.effects.failures[0].status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("was replaced")));
}

// The driver is killed when its agent was turned away, and before that heard of it.
TEST(RestartTest, AnAgentThatATableTookForGoneMayComeBackToTheNext) {
  TableOptions options = Workers(1);
  options.restart.max_restarts = 1;
  TableFixture before(options);
  before.Bring(SlotState::kRunning);
  SavedSlot saved = before.table.Save(0);
  saved.agent_gone = true;
  TableFixture f(options);
  f.table.Restore(0, saved, &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kLost);
  const absl::StatusOr<Admission> admission = f.table.Connect(0, Agent("a0"), 9, &f.effects);
  ASSERT_THAT(admission, IsOk());
  EXPECT_TRUE(admission->again);
  ASSERT_TRUE(f.table.Registered(0, 9, &f.effects));
  EXPECT_EQ(f.table.state(0), SlotState::kRegistered);
  f.table.Update(9, Report(Kind::kRunning), &f.effects);
  EXPECT_EQ(f.table.state(0), SlotState::kRunning);
  f.effects = {};
  f.Alive(absl::Minutes(1));
  EXPECT_THAT(f.effects.relaunch, IsEmpty());
  EXPECT_THAT(f.effects.failures, IsEmpty());
  EXPECT_EQ(f.table.attempt(0), 0u);
  // Its budget is what it was.
  f.table.Update(9, Exit(Code(1)), &f.effects);
  ASSERT_THAT(f.effects.restarts, SizeIs(1));
  EXPECT_EQ(f.effects.restarts[0].used, 1);
}

}  // namespace
}  // namespace millrace
