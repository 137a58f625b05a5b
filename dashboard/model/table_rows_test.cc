#include "dashboard/model/table_rows.h"

#include <vector>

#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

TEST(MatchesTest, IgnoresCaseAndMatchesAllWithoutText) {
  EXPECT_TRUE(Matches("Worker:1", "WORK"));
  EXPECT_TRUE(Matches("Worker:1", ""));
  EXPECT_FALSE(Matches("worker:1", "ps"));
}

TEST(SortRowsTest, WhatIsNotKnownComesLastInEitherDirectionAndEqualRowsKeepTheirOrder) {
  const SortKey keys[] = {{.number = 2}, {}, {.number = 7}, {.number = 2}, {.text = "a"}};
  const auto sorted = [&](bool descending) {
    std::vector<int> rows = {0, 1, 2, 3, 4};
    SortRows(&rows, descending, [&](int row) { return keys[row]; });
    return rows;
  };
  EXPECT_EQ(sorted(false), (std::vector<int>{0, 3, 2, 4, 1}));
  EXPECT_EQ(sorted(true), (std::vector<int>{2, 0, 3, 4, 1}));
}

}  // namespace
}  // namespace millrace::dashboard
