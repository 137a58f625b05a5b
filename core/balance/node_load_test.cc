#include "core/balance/node_load.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Optional;

absl::Duration Ms(int64_t ms) { return absl::Milliseconds(ms); }

// ------------------------------------------------------------------------------------ PaceMeter

TEST(PaceMeterTest, APaceIsKnownFromTheFirstAcknowledgementOn) {
  PaceMeter pace;
  pace.Update(Ms(1000), 0, true);
  pace.Update(Ms(1300), 0, true);
  EXPECT_EQ(pace.RowsPerSecond(), std::nullopt);
  EXPECT_EQ(pace.silent(), Ms(300));
  pace.Update(Ms(1500), 100, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(200, 1)));
  EXPECT_EQ(pace.silent(), absl::ZeroDuration());
}

TEST(PaceMeterTest, TimeWithoutRowsDoesNotCount) {
  PaceMeter pace;
  pace.Update(Ms(0), 0, true);
  pace.Update(Ms(500), 100, false);
  pace.Update(Ms(9500), 100, true);
  pace.Update(Ms(10000), 200, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(200, 1)));
}

TEST(PaceMeterTest, ANodeThatBecomesSlowerIsSlowerSoon) {
  PaceMeter pace;
  for (int i = 0; i <= 100; ++i) pace.Update(Ms(100 * i), 100 * i, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(1000, 10)));
  for (int i = 1; i <= 5; ++i) pace.Update(Ms(10000 + 1000 * i), 10000 + 100 * i, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(100, 10)));
}

TEST(PaceMeterTest, ANodeThatFallsSilentIsSlower) {
  PaceMeter pace;
  for (int i = 0; i <= 10; ++i) pace.Update(Ms(100 * i), 100 * i, true);
  pace.Update(Ms(1150), 1000, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(1000, 10))) << "no longer than usual";
  pace.Update(Ms(4000), 1000, true);
  EXPECT_THAT(pace.RowsPerSecond(), Optional(DoubleNear(250, 10)));
}

// -------------------------------------------------------------------------------------- Choosing

struct ChoiceCase {
  std::string name;
  std::vector<NodeLoad> nodes;
  bool patient;
  std::optional<size_t> chosen;
};

class ChooseNodeTest : public ::testing::TestWithParam<ChoiceCase> {};

TEST_P(ChooseNodeTest, IsAsTheTableSays) {
  EXPECT_EQ(ChooseNode(GetParam().nodes, /*partition_rows=*/1000, GetParam().patient),
            GetParam().chosen);
}

NodeLoad Idle(std::optional<double> pace = std::nullopt) { return {.pace = pace}; }
NodeLoad Busy(int64_t partitions, double rows, std::optional<double> pace = std::nullopt) {
  return {.partitions = partitions, .rows = rows, .pace = pace, .assigned = partitions};
}

INSTANTIATE_TEST_SUITE_P(
    Choices, ChooseNodeTest,
    ::testing::Values(
        ChoiceCase{"AllAreNew", {Idle(), Idle()}, true, 0},
        ChoiceCase{"OneHasHadNothing", {Busy(1, 1000), Idle()}, true, 1},
        ChoiceCase{"ANewNodeGetsOneOnly", {Busy(1, 1000), Busy(1, 1000)}, true, std::nullopt},
        ChoiceCase{"OneMoreAllTheSame", {Busy(2, 2000), Busy(1, 1000)}, false, 1},
        ChoiceCase{"ANewNodeIsMeasuredFirst", {Busy(1, 10, 1000), Idle()}, true, 1},
        ChoiceCase{"WhoNeverSaidAnythingIsSlow", {{.assigned = 3}, Busy(1, 10, 1000)}, true, 1},
        ChoiceCase{"TheSlowOneHasEnough", {Busy(1, 900, 10), Busy(9, 900, 10000)}, true, 1},
        ChoiceCase{"BothHaveEnough", {Busy(1, 900, 10), Busy(9, 9000, 10000)}, true, std::nullopt},
        ChoiceCase{"TheOneThatIsDoneFirst", {Idle(100), Busy(9, 900, 10000)}, true, 1},
        ChoiceCase{"OfAllTheOneThatIsDoneFirst", {Busy(1, 9, 10), Busy(9, 9000, 10000)}, false, 1},
        ChoiceCase{"AKnownPaceBeforeAnUnknownOne", {Busy(1, 9), Busy(9, 9000, 10000)}, false, 1},
        ChoiceCase{"NobodyReads", {{.reading = false}}, false, std::nullopt}),
    [](const auto& info) { return info.param.name; });

TEST(WantsMoreTest, WhoWasGivenMoreOnceIsGivenAsMuchAgain) {
  NodeLoad node = Busy(3, 3000, 100);
  EXPECT_FALSE(WantsMore(node));
  node.allowance = 4;
  EXPECT_TRUE(WantsMore(node));
}

// ---------------------------------------------------------------------------------------- Moving

TEST(PlanMovesTest, WhatAnIdleNodeDoesSoonerIsTakenBack) {
  const MovePlan plan = PlanMoves({Busy(1, 900, 10), Idle(1000)}, {{.node = 0, .rows = 900}});
  EXPECT_THAT(plan.take_back, ElementsAre(0));
}

TEST(PlanMovesTest, WhatIsNotBegunGoesFirstAndNoMoreThanIsWorthIt) {
  // 400 rows at 10 rows/s, while 100 rows/s are idle: two partitions move, 20 rows of work ahead.
  const MovePlan plan =
      PlanMoves({Busy(4, 40, 10), Idle(100)}, {{.node = 0, .begun = true, .rows = 10},
                                               {.node = 0, .rows = 10},
                                               {.node = 0, .rows = 10},
                                               {.node = 0, .rows = 10}});
  EXPECT_THAT(plan.take_back, ElementsAre(1, 2));
}

TEST(PlanMovesTest, NothingMovesBetweenEquals) {
  const MovePlan plan = PlanMoves({Busy(1, 500, 1000), Idle(1000)}, {{.node = 0, .rows = 500}});
  EXPECT_THAT(plan.take_back, IsEmpty());
  EXPECT_FALSE(plan.more_later);
}

TEST(PlanMovesTest, OfManyPartitionsHalfMovesBetweenEquals) {
  std::vector<OpenPartition> partitions(10, {.node = 0, .rows = 100});
  const MovePlan plan = PlanMoves({Busy(10, 1000, 1000), Idle(1000)}, partitions);
  EXPECT_THAT(plan.take_back, testing::SizeIs(2)) << "as much as keeps the other one busy";
}

TEST(PlanMovesTest, AFewRowsStayWhereTheyAre) {
  const MovePlan plan =
      PlanMoves({Busy(2, 500, 1000), Idle(10000)},
                {{.node = 0, .begun = true, .rows = 4}, {.node = 0, .rows = 496}});
  EXPECT_THAT(plan.take_back, ElementsAre(1));
}

TEST(PlanMovesTest, AFasterNodeThatIsBusyGetsItLater) {
  const MovePlan plan =
      PlanMoves({Busy(1, 900, 10), Busy(2, 1000, 1000)}, {{.node = 0, .rows = 900}});
  EXPECT_THAT(plan.take_back, IsEmpty());
  EXPECT_TRUE(plan.more_later);
}

TEST(PlanMovesTest, ANodeWithoutAPaceIsAsSlowAsItHasBeenSilent) {
  NodeLoad silent = Busy(1, 900);
  silent.silent = absl::Milliseconds(900);
  const std::vector<OpenPartition> partitions = {{.node = 0, .rows = 900}};
  EXPECT_THAT(PlanMoves({silent, Idle(1000)}, partitions).take_back, IsEmpty());
  silent.silent = absl::Milliseconds(1200);
  EXPECT_THAT(PlanMoves({silent, Idle(1000)}, partitions).take_back, ElementsAre(0));
  EXPECT_THAT(PlanMoves({silent, Idle()}, partitions).take_back, IsEmpty())
      << "nobody knows how fast the other one is";
}

TEST(PlanMovesTest, NodesThatReadNoMoreTakeNothing) {
  const MovePlan plan =
      PlanMoves({Busy(1, 900, 10), {.reading = false, .pace = 1000}}, {{.node = 0, .rows = 900}});
  EXPECT_THAT(plan.take_back, IsEmpty());
  EXPECT_FALSE(plan.more_later);
}

// A simulation of the whole rule: each node reads at its pace, whoever wants more gets a partition,
// and in the end what is taken back goes to whoever wants it.
double Simulate(std::vector<double> paces, int partitions, double rows) {
  constexpr double kStep = 0.001;
  struct Held {
    size_t node;
    double rows;
  };
  std::vector<PaceMeter> meters(paces.size());
  std::vector<double> acked(paces.size(), 0);
  std::vector<Held> held;
  std::vector<double> pool(static_cast<size_t>(partitions), rows);
  double now = 0;
  const auto loads = [&] {
    std::vector<NodeLoad> out(paces.size());
    for (size_t i = 0; i < paces.size(); ++i) {
      out[i].pace = meters[i].RowsPerSecond();
      out[i].silent = meters[i].silent();
    }
    for (const Held& one : held) {
      ++out[one.node].partitions;
      out[one.node].rows += one.rows;
    }
    return out;
  };
  while (!pool.empty() || !held.empty()) {
    while (!pool.empty()) {
      const std::optional<size_t> node = ChooseNode(loads(), rows, /*patient=*/true);
      if (!node.has_value()) break;
      held.push_back({*node, pool.back()});
      pool.pop_back();
    }
    if (pool.empty()) {
      std::vector<OpenPartition> open;
      for (const Held& one : held) open.push_back({.node = one.node, .rows = one.rows});
      for (const size_t i : PlanMoves(loads(), open).take_back) {
        pool.push_back(held[i].rows);
        held[i].rows = 0;
      }
    }
    for (size_t i = 0; i < paces.size(); ++i) {
      double left = paces[i] * kStep;
      for (Held& one : held) {
        if (one.node != i) continue;
        const double used = std::min(left, one.rows);
        one.rows -= used;
        left -= used;
        acked[i] += used;
      }
    }
    std::erase_if(held, [](const Held& one) { return one.rows <= 0; });
    now += kStep;
    for (size_t i = 0; i < paces.size(); ++i) {
      bool busy = false;
      for (const Held& one : held) busy = busy || one.node == i;
      meters[i].Update(absl::Seconds(now), static_cast<int64_t>(acked[i]), busy);
    }
  }
  return now;
}

TEST(SkewTest, NodesOfDifferentPacesAreDoneNearlyAtOnce) {
  for (const double ratio : {1.0, 2.0, 10.0, 100.0}) {
    for (const int partitions : {8, 16, 640}) {
      const double total = 300000;
      const double ideal = total / (100000 + 100000 / ratio);
      const double seconds = Simulate({100000 / ratio, 100000}, partitions, total / partitions);
      EXPECT_THAT(seconds / ideal, Lt(1.15)) << ratio << ", " << partitions;
    }
  }
}

TEST(SkewTest, OneSlowNodeOfEightIsNoBurden) {
  std::vector<double> paces(8, 100000);
  paces[3] = 1000;
  EXPECT_THAT(Simulate(paces, 64, 50000) / (64 * 50000 / 701000.0), Lt(1.2));
}

}  // namespace
}  // namespace millrace
