#include "core/balance/step_grants.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using AtEnd = StepGrants::AtEnd;
using ::testing::ElementsAre;

void Answer(StepGrants* grants, int rank, int64_t rows) {
  grants->SetFed(rank, true);
  grants->Tell(rank, {.generation = grants->generation(),
                      .answer = grants->question(rank),
                      .rows = rows,
                      .can_repeat = rows > 0});
}

TEST(StepGrantsTest, NobodyIsAheadOfTheRankWithTheFewestRows) {
  StepGrants grants({0, 1}, 64, AtEnd::kDrop, 1);
  grants.Tell(0, {.generation = 1, .rows = 640});
  EXPECT_EQ(grants.steps(), 0);
  grants.Tell(1, {.generation = 1, .rows = 200});
  EXPECT_EQ(grants.steps(), 3);
  EXPECT_FALSE(grants.last());
}

TEST(StepGrantsTest, TheRankThatHasAllItsRowsEndsTheCallBeforeTheOthersHaveTheirs) {
  StepGrants grants({0, 1}, 64, AtEnd::kDrop, 1);
  grants.Tell(0, {.generation = 1, .rows = 6400});
  Answer(&grants, 1, 200);
  EXPECT_TRUE(grants.last());
  EXPECT_EQ(grants.steps(), 3);
  EXPECT_FALSE(grants.settled());
  Answer(&grants, 0, 10'000);
  EXPECT_TRUE(grants.settled());
  EXPECT_EQ(grants.dropped(0), 10'000 - 192);
  EXPECT_EQ(grants.dropped(1), 8);
  EXPECT_EQ(grants.repeated(0), 0);
}

TEST(StepGrantsTest, ARankWithoutRowsLeavesNoSteps) {
  StepGrants grants({3, 7}, 64, AtEnd::kDrop, 1);
  grants.Tell(3, {.generation = 1, .rows = 64});
  Answer(&grants, 7, 0);
  EXPECT_TRUE(grants.last());
  EXPECT_EQ(grants.steps(), 0);
}

TEST(StepGrantsTest, PaddingGoesOnAsLongAsOneRankHasRows) {
  StepGrants grants({0, 1}, 64, AtEnd::kPad, 1);
  Answer(&grants, 1, 70);
  EXPECT_EQ(grants.steps(), 0);  // the other one has none yet
  grants.Tell(0, {.generation = 1, .rows = 200});
  EXPECT_EQ(grants.steps(), 3);
  Answer(&grants, 0, 257);
  EXPECT_TRUE(grants.settled());
  EXPECT_EQ(grants.steps(), 5);
  EXPECT_EQ(grants.repeated(0), 5 * 64 - 257);
  EXPECT_EQ(grants.repeated(1), 5 * 64 - 70);
  EXPECT_EQ(grants.dropped(0), 0);
}

TEST(StepGrantsTest, NothingIsPaddedWhereThereIsNothingToRepeat) {
  StepGrants grants({0, 1}, 64, AtEnd::kPad, 1);
  Answer(&grants, 1, 0);
  EXPECT_THAT(grants.without_rows(), ElementsAre());  // perhaps nobody has any
  grants.Tell(0, {.generation = 1, .rows = 200, .can_repeat = true});
  EXPECT_THAT(grants.without_rows(), ElementsAre(1));
  EXPECT_EQ(grants.steps(), 0);
  EXPECT_FALSE(grants.last());
}

TEST(StepGrantsTest, NoRowsAtAllAreNoStepsHoweverTheyEnd) {
  for (const AtEnd at_end : {AtEnd::kDrop, AtEnd::kPad}) {
    StepGrants grants({0, 1}, 64, at_end, 1);
    Answer(&grants, 0, 0);
    Answer(&grants, 1, 0);
    EXPECT_TRUE(grants.settled());
    EXPECT_EQ(grants.steps(), 0);
  }
}

TEST(StepGrantsTest, ADeathBeginsAnotherGeneration) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  grants.Tell(0, {.generation = 1, .rows = 100});
  Answer(&grants, 1, 100);
  EXPECT_TRUE(grants.last());
  grants.End(1);
  EXPECT_EQ(grants.generation(), 2);
  EXPECT_EQ(grants.steps(), 0);
  EXPECT_FALSE(grants.last());
  EXPECT_EQ(grants.question(1), 0);                 // what it had is fed again
  grants.Tell(0, {.generation = 1, .rows = 1000});  // was under way
  grants.Tell(1, {.generation = 2, .rows = 1000});
  EXPECT_EQ(grants.steps(), 0);
  grants.Tell(0, {.generation = 2, .rows = 40});
  EXPECT_EQ(grants.steps(), 4);
}

TEST(StepGrantsTest, WhatARankThatDiedMayHaveDroppedIsNotKnown) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  grants.Tell(0, {.generation = 1, .rows = 10});
  Answer(&grants, 1, 10);
  EXPECT_TRUE(grants.last());
  EXPECT_TRUE(grants.complete(1));
  EXPECT_FALSE(grants.complete(0));  // it has not answered, and may get more
  grants.End(0);                     // all that it got after its step it acknowledged unused
  Answer(&grants, 0, 0);
  Answer(&grants, 1, 0);
  EXPECT_TRUE(grants.settled());
  EXPECT_EQ(grants.dropped(0), 0);
  EXPECT_FALSE(grants.complete(0));
  EXPECT_TRUE(grants.complete(1));
}

TEST(StepGrantsTest, ARankThatDiedBeforeItHadRowsHasDroppedNone) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  grants.End(0);
  Answer(&grants, 0, 15);
  Answer(&grants, 1, 12);
  EXPECT_EQ(grants.dropped(0), 5);
  EXPECT_TRUE(grants.complete(0));
}

TEST(StepGrantsTest, ARankThatDiesAfterTheLastStepMayHaveDroppedRowsOfWhichItToldNothing) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  Answer(&grants, 1, 0);
  EXPECT_TRUE(grants.last());
  grants.End(0);
  Answer(&grants, 0, 0);
  Answer(&grants, 1, 0);
  EXPECT_TRUE(grants.settled());
  EXPECT_FALSE(grants.complete(0));
}

TEST(StepGrantsTest, ARankThatIsFedAgainIsAskedAgain) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  grants.SetFed(0, true);
  const uint64_t before = grants.question(0);
  grants.SetFed(0, false);
  grants.SetFed(0, true);
  grants.Tell(1, {.generation = 1, .rows = 100});
  grants.Tell(0, {.generation = 1, .answer = before, .rows = 20});
  EXPECT_FALSE(grants.last());
  grants.Tell(0, {.generation = 1, .answer = grants.question(0), .rows = 30});
  EXPECT_TRUE(grants.last());
  EXPECT_EQ(grants.steps(), 3);
}

TEST(StepGrantsTest, NothingIsGrantedOnceARankHasLeft) {
  StepGrants grants({0, 1}, 10, AtEnd::kDrop, 1);
  grants.Tell(0, {.generation = 1, .rows = 20});
  grants.Tell(1, {.generation = 1, .rows = 20});
  grants.Leave(1);
  EXPECT_TRUE(grants.last());
  grants.Tell(0, {.generation = 1, .rows = 200});
  grants.Tell(1, {.generation = 1, .rows = 200});
  EXPECT_EQ(grants.steps(), 2);
}

// ---- random calls -------------------------------------------------------------------------------

// A Train call as its parts see it: a feeder that gives each partition to the rank that was given
// the fewest rows, in pieces; ranks that are told of grants late; deaths after which all that a
// rank had not used up is fed to its next process again.
class Call {
 public:
  Call(uint64_t seed, AtEnd at_end) : random_(seed), at_end_(at_end) {
    const int ranks = Number(1, 5);
    batch_rows_ = Number(1, 40);
    for (int i = 0; i < ranks; ++i) ids_.push_back(i);
    ranks_.resize(ranks);
    const int partitions = Number(0, 12);
    for (int i = 0; i < partitions; ++i) {
      pending_.push_back(Number(0, 3) == 0 ? 0 : Number(1, 300));
      source_rows_ += pending_.back();
      largest_ = std::max(largest_, pending_.back());
    }
    deaths_left_ = Number(0, 2);
  }

  void Run() {
    StepGrants grants(ids_, batch_rows_, at_end_, 1);
    int64_t idle = 0;
    while (!Over(grants)) {
      ASSERT_LT(++idle, 200'000) << "nothing happens any more";
      switch (Number(0, 5)) {
        case 0:
          Feed(&grants);
          break;
        case 1:
          Report(&grants, Number(0, Size() - 1));
          break;
        case 2:
        case 3:
          Hear(grants, Number(0, Size() - 1));
          break;
        case 4:
          Take(Number(0, Size() - 1));
          break;
        case 5:
          if (deaths_left_ > 0 && Number(0, 60) == 0) Die(&grants);
          break;
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    Check(grants);
  }

 private:
  struct Rank {
    int64_t given = 0;  // by the feeder, since it was last level
    int64_t left = 0;   // of the partition that is under way
    int64_t held = 0;
    int64_t generation = 0;
    int64_t in_batches = 0;  // rows, of this generation
    int64_t dropped = 0;     // of this generation
    int64_t dropped_before = 0;
    int64_t repeated_before = 0;
    int64_t repeated_now = 0;
    bool has_had = false;
    int64_t taken = 0;
    int64_t granted = 0;
    bool last = false;
    uint64_t question = 0;
    int64_t used_in_all = 0;  // rows in batches that count, of processes that are alive
    int64_t unsettled = 0;    // rows that would be fed again if it died now
  };

  int64_t Number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  int Size() const { return static_cast<int>(ranks_.size()); }

  void Feed(StepGrants* grants) {
    const auto fewest =
        std::min_element(ranks_.begin(), ranks_.end(),
                         [](const Rank& a, const Rank& b) { return a.given < b.given; });
    if (!pending_.empty() && fewest->left == 0) {
      fewest->left = pending_.back();
      pending_.pop_back();
    }
    const int some = static_cast<int>(Number(0, Size() - 1));
    Rank& rank = ranks_[some];
    const int64_t rows = std::min(rank.left, Number(0, 50));
    rank.left -= rows;
    rank.held += rows;
    rank.given += rows;
    rank.unsettled += rows;
    for (int i = 0; i < Size(); ++i) grants->SetFed(i, pending_.empty() && ranks_[i].left == 0);
  }

  void Report(StepGrants* grants, int64_t id) {
    Rank& rank = ranks_[id];
    // One that has heard of a question and has all its rows answers it.
    const bool knows = rank.question != 0 && rank.left == 0 && pending_.empty();
    grants->Tell(static_cast<int>(id), {.generation = static_cast<uint64_t>(rank.generation),
                                        .answer = knows ? rank.question : 0,
                                        .rows = rank.in_batches + rank.dropped + rank.held,
                                        .dropped = rank.dropped_before,
                                        .repeated = rank.repeated_before,
                                        .can_repeat = rank.has_had || rank.held > 0});
  }

  void Hear(const StepGrants& grants, int64_t id) {
    Rank& rank = ranks_[id];
    if (rank.generation != static_cast<int64_t>(grants.generation())) {
      rank.generation = static_cast<int64_t>(grants.generation());
      rank.dropped_before += rank.dropped;
      rank.repeated_before += rank.repeated_now;
      rank.repeated_now = rank.in_batches = rank.dropped = rank.taken = 0;
    }
    rank.granted = grants.steps();
    rank.last = grants.last();
    rank.question = grants.question(static_cast<int>(id));
  }

  void Take(int64_t id) {
    Rank& rank = ranks_[id];
    if (rank.taken < rank.granted) {
      const int64_t rows = std::min(rank.held, batch_rows_);
      if (rows < batch_rows_) {
        // What was granted is there, unless it is to be repeated.
        ASSERT_EQ(at_end_, AtEnd::kPad) << "granted without rows";
        ASSERT_TRUE(rank.left == 0 && pending_.empty());
        ASSERT_TRUE(rank.has_had || rows > 0) << "nothing to repeat";
      }
      rank.held -= rows;
      rank.in_batches += rows;
      rank.used_in_all += rows;
      rank.repeated_now += batch_rows_ - rows;
      rank.has_had = true;
      ++rank.taken;
      // Nobody has taken a step that another one cannot take.
      for (const Rank& other : ranks_) {
        if (other.generation != rank.generation) continue;
        const int64_t can = (other.in_batches + other.dropped + other.held) / batch_rows_;
        ASSERT_TRUE(at_end_ == AtEnd::kPad || can >= rank.taken);
      }
    } else if (rank.last && rank.held > 0) {
      rank.dropped += rank.held;
      rank.held = 0;
    }
  }

  void Die(StepGrants* grants) {
    --deaths_left_;
    ++deaths_;
    const int id = static_cast<int>(Number(0, Size() - 1));
    Rank& rank = ranks_[id];
    // Everything that it ever had of the call is fed again; what it used is lost with it.
    const int64_t again = rank.unsettled + rank.left;
    rank = {};
    rank.left = again;
    grants->End(id);
    // The feeder levels what the ranks have not used.
    for (Rank& each : ranks_) each.given = each.held;
  }

  bool Over(const StepGrants& grants) const {
    if (!grants.without_rows().empty()) return true;
    if (!grants.settled()) return false;
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.generation == static_cast<int64_t>(grants.generation()) && rank.last &&
             rank.taken == grants.steps() && rank.held == 0;
    });
  }

  void Check(const StepGrants& grants) {
    if (!grants.without_rows().empty()) {
      ASSERT_EQ(at_end_, AtEnd::kPad);
      return;
    }
    int64_t used = 0;
    int64_t dropped = 0;
    for (int i = 0; i < Size(); ++i) {
      const Rank& rank = ranks_[i];
      EXPECT_EQ(rank.taken, grants.steps());
      EXPECT_EQ(grants.dropped(i), rank.dropped_before + rank.dropped);
      EXPECT_EQ(grants.repeated(i), rank.repeated_before + rank.repeated_now);
      EXPECT_TRUE(at_end_ == AtEnd::kDrop || deaths_ > 0 || rank.dropped == 0);
      used += rank.used_in_all;
      dropped += rank.dropped_before + rank.dropped;
      // The bound of docs/feed_protocol.md: less than a batch, and the largest partition.
      EXPECT_TRUE(deaths_ > 0 || rank.dropped < batch_rows_ + largest_) << rank.dropped;
    }
    // Every row is in one batch, or dropped.
    EXPECT_EQ(used + dropped, source_rows_);
  }

  std::mt19937_64 random_;
  const AtEnd at_end_;
  int64_t batch_rows_ = 1;
  std::vector<int> ids_;
  std::vector<Rank> ranks_;
  std::vector<int64_t> pending_;
  int64_t source_rows_ = 0;
  int64_t largest_ = 0;
  int64_t deaths_left_ = 0;
  int64_t deaths_ = 0;
};

class RandomCallTest : public ::testing::TestWithParam<AtEnd> {};

TEST_P(RandomCallTest, RanksEndTogetherAndEveryRowCountsOnce) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Call call(seed, GetParam());
    call.Run();
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(AtEnd, RandomCallTest, ::testing::Values(AtEnd::kDrop, AtEnd::kPad));

}  // namespace
}  // namespace millrace
