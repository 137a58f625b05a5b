#include "core/cluster/adoption_table.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/agent_ticket.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"

namespace millrace {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = AdoptionEffect::Kind;

class AdoptionTableTest : public ::testing::Test {
 protected:
  using Standing = AgentTicket::Standing;

  explicit AdoptionTableTest(bool restarts = true, Standing first = Standing::kNew,
                             Standing second = Standing::kNew) {
    table_.emplace(AdoptionOptions(),
                   std::vector<AdoptionSlot>{{0, "worker", 0, restarts, first},
                                             {1, "worker", 1, restarts, second}},
                   &clock_);
  }

  void Name(const ClusterSpec::TaskList& addresses) {
    MembershipUpdate update;
    update.epoch = ++epoch_;
    update.spec = *ClusterSpec::Create({{"worker", addresses}});
    table_->Members(update, &effects_);
  }
  void ResolverFails(const absl::Status& status) {
    MembershipUpdate update;
    update.epoch = epoch_;
    update.status = status;
    table_->Members(update, &effects_);
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    table_->Tick(&effects_);
  }
  // What there is to do since the last call, in short.
  std::vector<std::string> Take() {
    std::vector<std::string> list;
    for (const AdoptionEffect& effect : std::exchange(effects_, {})) {
      switch (effect.kind) {
        case Kind::kDial:
          calls_[effect.executor_id] = effect.call;
          numbers_[effect.executor_id] = effect.number;
          alone_[effect.executor_id] = effect.alone;
          list.push_back(absl::StrCat("dial ", effect.executor_id, " ", effect.address));
          break;
        case Kind::kStart:
          list.push_back(absl::StrCat("start ", effect.executor_id));
          break;
        case Kind::kRedirect:
          list.push_back(absl::StrCat("redirect ", effect.executor_id, " to ", effect.address));
          break;
        case Kind::kTakenOver:
          list.push_back(absl::StrCat("taken over ", effect.executor_id));
          last_exit_ = effect.exit;
          break;
        case Kind::kRelease:
          list.push_back(absl::StrCat("release ", effect.executor_id, effect.now ? " now" : ""));
          break;
        case Kind::kHangUp:
          list.push_back(absl::StrCat("hang up ", effect.executor_id));
          break;
        case Kind::kStarted:
          list.push_back(absl::StrCat("started ", effect.executor_id, " ", effect.pid));
          break;
        case Kind::kEnded:
          list.push_back(absl::StrCat("ended ", effect.executor_id));
          last_exit_ = effect.exit;
          break;
        case Kind::kAwaited:
          list.push_back(absl::StrCat("awaited ", effect.executor_id));
          last_problem_ = effect.note;
          break;
        case Kind::kNote:
          notes_.push_back(effect.note);
          break;
      }
    }
    return list;
  }
  // Both agents are adopted and run.
  void Run() {
    Name({"a:1", "b:1"});
    Take();
    for (int id : {0, 1}) table_->Held(calls_[id], {.peer_host = "d"}, &effects_);
    for (int id : {0, 1}) table_->Started(calls_[id], 100 + id, &effects_);
    Take();
  }

  FakeClock clock_;
  std::optional<AdoptionTable> table_;
  AdoptionTable::Effects effects_;
  int64_t epoch_ = 0;
  std::map<int, uint64_t> calls_;
  std::map<int, uint32_t> numbers_;  // of the adoptions that were dialled last
  std::map<int, bool> alone_;        // of the same
  AgentExit last_exit_;
  std::string last_problem_;
  std::vector<std::string> notes_;
};

TEST_F(AdoptionTableTest, NothingIsStartedBeforeEverySlotHasItsAgent) {
  Name({"a:1"});
  EXPECT_THAT(Take(), ElementsAre("awaited 1", "dial 0 a:1"));
  EXPECT_THAT(last_problem_, HasSubstr("names no worker:1"));
  table_->Held(calls_[0], {}, &effects_);
  EXPECT_THAT(Take(), IsEmpty());
  Name({"a:1", "b:1"});
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  table_->Held(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 0", "start 1"));
  table_->Started(calls_[1], 7, &effects_);
  EXPECT_THAT(Take(), ElementsAre("started 1 7"));
}

TEST_F(AdoptionTableTest, AnAgentThatIsNotThereIsAskedAgainLessAndLessOften) {
  Name({"a:1", "b:1"});
  Take();
  int dials = 0;
  for (int i = 0; i < 200; ++i) {  // 20 s
    for (const std::string& what : Take()) {
      if (what == "dial 0 a:1") {
        ++dials;
        table_->CallOver(calls_[0], absl::UnavailableError("nobody listens"), &effects_);
      }
    }
    if (i == 0) table_->CallOver(calls_[0], absl::UnavailableError("nobody listens"), &effects_);
    Advance(absl::Milliseconds(100));
  }
  EXPECT_GE(dials, 8);
  EXPECT_LE(dials, 16);
}

TEST_F(AdoptionTableTest, ARefusalIsAnErrorAtTheStartAndWaitedForWhereAnAgentIsReplaced) {
  Name({"a:1", "b:1"});
  Take();
  table_->CallOver(calls_[0], absl::UnauthenticatedError("another secret"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 0"));
  EXPECT_EQ(last_exit_.status.code(), absl::StatusCode::kUnauthenticated);

  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  table_->CallOver(calls_[0], absl::UnauthenticatedError("another secret"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("awaited 0"));
  Advance(absl::Seconds(61));
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  table_->CallOver(calls_[0], absl::UnauthenticatedError("another secret"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 0"));
}

TEST_F(AdoptionTableTest, WhileOneAgentIsTakenNoneOfAHigherAddressIsHeld) {
  Name({"a:1", "b:1"});
  Take();
  table_->Held(calls_[1], {}, &effects_);
  table_->CallOver(calls_[0], absl::ResourceExhaustedError("serves another"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("awaited 0", "hang up 1", "awaited 1"));
  EXPECT_EQ(last_problem_, "its agent is not asked before worker:0 has one");
  Advance(absl::Milliseconds(100));
  EXPECT_THAT(Take(), IsEmpty());
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  table_->CallOver(calls_[0], absl::ResourceExhaustedError("serves another"), &effects_);
  Advance(absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  EXPECT_THAT(notes_, ElementsAre("worker:0 has no agent yet: serves another"));
  table_->Held(calls_[0], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("awaited 0", "dial 1 b:1"));
  EXPECT_THAT(notes_, ElementsAre(_, "worker:0 has its agent now, at a:1"));
}

TEST_F(AdoptionTableTest, AStreamThatBreaksIsTakenUpAgainAndNothingIsTold) {
  Run();
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  EXPECT_THAT(Take(), IsEmpty());
  Advance(absl::Milliseconds(100));
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  table_->Held(calls_[1], {.running = true}, &effects_);
  table_->Started(calls_[1], 101, &effects_);
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(AdoptionTableTest, AnAgentThatWasNeverToldToStartIsToldByTheNextAdoption) {
  Name({"a:1", "b:1"});
  Take();
  for (int id : {0, 1}) table_->Held(calls_[id], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 0", "start 1"));
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Advance(absl::Milliseconds(100));
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  // The hold ended with its call.
  table_->CallOver(calls_[1], absl::AlreadyExistsError("this adoption is over"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  EXPECT_EQ(numbers_[1], 2u);
  table_->Held(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 1"));
  table_->Started(calls_[1], 101, &effects_);
  EXPECT_THAT(Take(), ElementsAre("started 1 101"));
  // Of one that was started that means its end.
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Advance(absl::Milliseconds(100));
  Take();
  table_->CallOver(calls_[1], absl::AlreadyExistsError("this adoption is over"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
}

TEST_F(AdoptionTableTest, AnotherAgentAtTheOldPlaceProvesThatTheFirstIsGone) {
  Run();
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Advance(absl::Milliseconds(100));
  Take();
  table_->Held(calls_[1], {.running = false}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("hang up 1", "ended 1"));
  EXPECT_EQ(last_exit_.pid, 101);
  table_->Relaunch(1, &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
}

TEST_F(AdoptionTableTest, AnAgentThatCannotBeHeardIsLeftAsSoonAsTheResolverNamesAnotherPlace) {
  Run();
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Take();
  Name({"a:1", "c:1"});
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  EXPECT_THAT(std::string(last_exit_.status.message()), HasSubstr("names c:1 and no longer b:1"));
  table_->Relaunch(1, &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 1 c:1"));
  table_->Held(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 1"));
}

// The agent that was left may not know of it, and be where another one is to be.
TEST_F(AdoptionTableTest, AnAgentIsToldThatNoOtherSlotHasItUnlessOneMay) {
  Run();
  EXPECT_TRUE(alone_[0] && alone_[1]);
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Name({"b:1", "c:1"});
  Take();
  Advance(absl::Seconds(5));  // slot 0 settles
  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), Contains("dial 0 b:1"));
  EXPECT_TRUE(alone_[0]);  // slot 1 has left it
}

TEST_F(AdoptionTableTest, APlaceThatAnotherSlotHasIsNotAskedForAlone) {
  Run();
  table_->CallOver(calls_[1], absl::UnavailableError("reset"), &effects_);
  Name({"b:1"});  // and nothing for slot 1, which keeps its agent there
  Take();
  Advance(absl::Seconds(5));
  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), Contains("dial 0 b:1"));
  EXPECT_FALSE(alone_[0]);
}

TEST_F(AdoptionTableTest, AnAgentThatLivesStaysUntilTheResolverHasSaidTheSameForAWhile) {
  Run();
  for (int i = 0; i < 20; ++i) {
    Name({"a:1", i % 2 == 0 ? "c:1" : "b:1"});
    Advance(absl::Seconds(1));
  }
  EXPECT_THAT(Take(), IsEmpty());
  Name({"a:1", "c:1"});
  ResolverFails(absl::UnavailableError("away"));  // changes nothing
  Advance(absl::Seconds(4));
  EXPECT_THAT(Take(), IsEmpty());
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), ElementsAre("release 1 now", "hang up 1", "ended 1"));
}

TEST_F(AdoptionTableTest, EachMoveDoublesTheTimeToTheNext) {
  Run();
  std::string there = "b:1";
  absl::Duration before;
  for (int move = 0; move < 4; ++move) {
    there = there == "b:1" ? "c:1" : "b:1";
    Name({"a:1", there});
    absl::Duration waited;
    while (Take().empty()) {
      Advance(absl::Milliseconds(500));
      waited += absl::Milliseconds(500);
      ASSERT_LT(waited, absl::Minutes(5));
    }
    EXPECT_GT(waited, 1.5 * before);
    before = waited;
    table_->Relaunch(1, &effects_);
    Take();
    table_->Held(calls_[1], {}, &effects_);
    table_->Started(calls_[1], 200 + move, &effects_);
    Take();
  }
}

TEST_F(AdoptionTableTest, AMemberThatIsNotNamedAnyMoreKeepsItsAgent) {
  Run();
  Name({"a:1"});
  Advance(absl::Minutes(5));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(AdoptionTableTest, AReplacementThatNeverComesIsAnErrorAfterItsTime) {
  Run();
  table_->Ended(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  Name({"a:1"});
  table_->Relaunch(1, &effects_);
  EXPECT_THAT(Take(), ElementsAre("awaited 1"));
  Advance(absl::Seconds(599));
  EXPECT_THAT(Take(), IsEmpty());
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  EXPECT_EQ(last_exit_.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(AdoptionTableTest, TheEndOfAnAgentThatWasGivenUpIsToldWithItsPid) {
  Run();
  const uint64_t old_call = calls_[1];
  table_->Relaunch(1, &effects_);
  EXPECT_THAT(Take(), ElementsAre("release 1 now", "dial 1 b:1"));
  table_->Ended(old_call, {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  EXPECT_EQ(last_exit_.pid, 101);
}

TEST_F(AdoptionTableTest, StopEndsHoldsAndAsksAgentsThatRun) {
  Run();
  table_->Stop(/*now=*/false, &effects_);
  EXPECT_THAT(Take(), ElementsAre("release 0", "release 1"));
  EXPECT_EQ(table_->num_running(), 2);
  for (int id : {0, 1}) table_->Ended(calls_[id], {}, &effects_);
  EXPECT_EQ(table_->num_running(), 0);
}

class StayingTableTest : public AdoptionTableTest {
 protected:
  StayingTableTest() : AdoptionTableTest(/*restarts=*/false) {}
};

TEST_F(StayingTableTest, ANodeThatMayNotStartAgainIsNeverMoved) {
  Run();
  Name({"a:1", "c:1"});
  Advance(absl::Hours(1));
  EXPECT_THAT(Take(), IsEmpty());
}

// ---- what a driver before has left --------------------------------------------------------------

TEST_F(AdoptionTableTest, AnAdoptionThatIsOverIsFollowedByTheNextNumber) {
  Name({"a:1", "b:1"});
  Take();
  EXPECT_EQ(numbers_[0], 1u);
  table_->CallOver(calls_[0], absl::AlreadyExistsError("used"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  EXPECT_EQ(numbers_[0], 2u);
  table_->Held(calls_[0], {}, &effects_);
  table_->Held(calls_[1], {}, &effects_);
  for (int id : {0, 1}) table_->Started(calls_[id], 100 + id, &effects_);
  Take();
  table_->Ended(calls_[0], {}, &effects_);
  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 0", "dial 0 a:1"));
  EXPECT_EQ(numbers_[0], 3u);
}

TEST_F(AdoptionTableTest, AnAgentThatADriverBeforeStartedIsNotStartedAgain) {
  Name({"a:1", "b:1"});
  Take();
  table_->Held(calls_[0], {.running = true}, &effects_);
  table_->Started(calls_[0], 100, &effects_);
  EXPECT_THAT(Take(), ElementsAre("redirect 0 to ", "started 0 100"));
  table_->Held(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 1"));
}

class TakenTableTest : public AdoptionTableTest {
 protected:
  TakenTableTest() : AdoptionTableTest(true, Standing::kTaken, Standing::kTaken) {}
};

TEST_F(TakenTableTest, AgentsAreFoundByCountingAndNothingIsTold) {
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(table_->NextDeadline(), absl::InfiniteDuration());  // before the resolver says where
  Name({"a:1", "b:1"});
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1", "dial 1 b:1"));
  table_->CallOver(calls_[0], absl::AlreadyExistsError("used"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  EXPECT_EQ(numbers_[0], 2u);
  for (int id : {0, 1}) {
    table_->Held(calls_[id], {.peer_host = "d2", .running = true}, &effects_);
    table_->Started(calls_[id], 100 + id, &effects_);
  }
  EXPECT_THAT(Take(), ElementsAre("redirect 0 to d2", "redirect 1 to d2"));
  EXPECT_EQ(table_->num_running(), 2);
  table_->Ended(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  EXPECT_EQ(last_exit_.pid, 101);
}

// What was sent over a stream that broke may be lost.
TEST_F(TakenTableTest, AnAgentOfADriverBeforeIsRedirectedByEachStream) {
  Name({"a:1", "b:1"});
  Take();
  for (const char* driver : {"d2", "d3"}) {
    table_->Held(calls_[0], {.peer_host = driver, .running = true}, &effects_);
    table_->Started(calls_[0], 100, &effects_);
    EXPECT_THAT(Take(), ElementsAre(absl::StrCat("redirect 0 to ", driver)));
    table_->CallOver(calls_[0], absl::UnavailableError("broken"), &effects_);
    Advance(absl::Seconds(2));
    EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  }
  // Until it is another one, of this driver.
  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), ElementsAre("release 0 now", "dial 0 a:1"));
  table_->Held(calls_[0], {.peer_host = "d3"}, &effects_);
  table_->Started(calls_[0], 101, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 0", "started 0 101"));
  table_->CallOver(calls_[0], absl::UnavailableError("broken"), &effects_);
  Advance(absl::Seconds(2));
  table_->Held(calls_[0], {.peer_host = "d4", .running = true}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
}

TEST_F(TakenTableTest, WhatAnotherDriverHasTakenOverIsTold) {
  Name({"a:1", "b:1"});
  Take();
  table_->CallOver(calls_[0], absl::AbortedError("has another driver now"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("taken over 0"));
  EXPECT_EQ(last_exit_.status.message(), "has another driver now");
}

TEST_F(TakenTableTest, WhereAnAgentRunsNothingTheSlotsOwnIsGone) {
  Name({"a:1", "b:1"});
  Take();
  table_->Held(calls_[0], {.running = false}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("hang up 0", "ended 0"));
  EXPECT_EQ(last_exit_.status.code(), absl::StatusCode::kUnavailable);
  table_->CallOver(calls_[1], absl::ResourceExhaustedError("serves another"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("ended 1"));
  table_->Relaunch(0, &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  EXPECT_EQ(numbers_[0], 2u);  // its hold was the first
  table_->Held(calls_[0], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 0"));
}

TEST_F(TakenTableTest, AnAgentThatCannotBeHeardYetIsAskedAgain) {
  Name({"a:1", "b:1"});
  Take();
  for (int i = 0; i < 5; ++i) {
    table_->CallOver(calls_[0], absl::UnavailableError("nobody listens"), &effects_);
    Advance(absl::Seconds(2));
    EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
    EXPECT_EQ(numbers_[0], 1u);
  }
}

TEST_F(TakenTableTest, AgentsThatAreFoundAtTheEndOnlyAreReleasedToo) {
  Name({"a:1", "b:1"});
  Take();
  table_->Stop(/*now=*/false, &effects_);
  EXPECT_EQ(table_->num_running(), 2);
  table_->CallOver(calls_[0], absl::AlreadyExistsError("used"), &effects_);
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1"));
  table_->Held(calls_[0], {.running = true}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("release 0"));
  table_->Ended(calls_[0], {}, &effects_);
  table_->CallOver(calls_[1], absl::UnavailableError("nobody listens"), &effects_);
  EXPECT_EQ(table_->num_running(), 0);
}

// Where they were is known.
class PlacedTableTest : public AdoptionTableTest {
 protected:
  PlacedTableTest() {
    table_.emplace(
        AdoptionOptions(),
        std::vector<AdoptionSlot>{{0, "worker", 0, /*restarts=*/true, Standing::kTaken, "a:1"},
                                  {1, "worker", 1, /*restarts=*/true, Standing::kTaken, "b:1"}},
        &clock_);
  }
};

// The resolver may have moved a slot while there was no driver.
TEST_F(PlacedTableTest, AnAgentOfADriverBeforeIsLookedForWhereThatOneHadIt) {
  Name({"a:1", "c:1"});
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1", "dial 1 b:1"));
  table_->Held(calls_[1], {.running = true}, &effects_);
  table_->Started(calls_[1], 101, &effects_);
  EXPECT_THAT(Take(), ElementsAre("redirect 1 to "));
  // It is moved as any other.
  Advance(absl::Seconds(5));
  EXPECT_THAT(Take(), ElementsAre("release 1 now", "hang up 1", "ended 1"));
}

TEST_F(PlacedTableTest, AnAgentOfADriverBeforeThatCannotBeHeardIsLeftInTheEnd) {
  Name({"a:1", "c:1"});
  Take();
  table_->CallOver(calls_[1], absl::UnavailableError("nobody listens"), &effects_);
  Advance(absl::Seconds(4));
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  Advance(absl::Seconds(1));
  EXPECT_THAT(Take(), ElementsAre("hang up 1", "ended 1"));
}

class LeftTableTest : public AdoptionTableTest {
 protected:
  LeftTableTest() : AdoptionTableTest(true, Standing::kEnded, Standing::kNew) {}
};

TEST_F(LeftTableTest, ASlotThatHasEndedIsLeftAloneAndHoldsUpNobody) {
  Name({"a:1", "b:1"});
  EXPECT_THAT(Take(), ElementsAre("dial 1 b:1"));
  table_->Held(calls_[1], {}, &effects_);
  EXPECT_THAT(Take(), ElementsAre("start 1"));
}

class ReplacedTableTest : public AdoptionTableTest {
 protected:
  ReplacedTableTest() : AdoptionTableTest(true, Standing::kReplaced, Standing::kTaken) {}
};

TEST_F(ReplacedTableTest, ASlotThatWaitsForAnotherAgentGetsOneOrItsOwn) {
  Name({"a:1", "b:1"});
  EXPECT_THAT(Take(), ElementsAre("dial 0 a:1", "dial 1 b:1"));
  table_->Held(calls_[0], {.peer_host = "d", .running = true}, &effects_);
  table_->Started(calls_[0], 7, &effects_);
  EXPECT_THAT(Take(), ElementsAre("redirect 0 to d", "started 0 7"));
}

}  // namespace
}  // namespace millrace
