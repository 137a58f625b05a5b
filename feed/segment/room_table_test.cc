#include "feed/segment/room_table.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Room kAll{.offset = 4096, .length = 64 * 100};

TEST(RoomTableTest, TheLowestRoomThatFitsIsGiven) {
  RoomTable table(kAll);
  EXPECT_EQ(table.Take(100, 1), Room({4096, 128}));
  EXPECT_EQ(table.Take(64, 1), Room({4096 + 128, 64}));
  EXPECT_EQ(table.Take(640, 1), Room({4096 + 192, 640}));
  table.Return({4096, 128});
  EXPECT_EQ(table.Take(192, 1), Room({4096 + 832, 192})) << "the gap is too small";
  EXPECT_EQ(table.Take(128, 1), Room({4096, 128})) << "and is used by what fits";
}

TEST(RoomTableTest, WhereNoneIsLargeEnoughTheLargestIsGivenUnlessItIsTooSmall) {
  RoomTable table(kAll);
  ASSERT_TRUE(table.Take(kAll.length, 1).has_value());
  table.Return({4096, 64});
  table.Return({4096 + 128, 192});
  EXPECT_EQ(table.Take(1024, 256), std::nullopt);
  EXPECT_EQ(table.Take(1024, 192), Room({4096 + 128, 192}));
  EXPECT_EQ(table.Take(1024, 1), Room({4096, 64}));
  EXPECT_EQ(table.Take(1, 1), std::nullopt);
  EXPECT_EQ(table.free_bytes(), 0);
}

TEST(RoomTableTest, NothingIsGivenForNothing) {
  RoomTable table(kAll);
  EXPECT_EQ(table.Take(0, 0), std::nullopt);
  EXPECT_EQ(table.Take(-5, 1), std::nullopt);
  EXPECT_TRUE(table.all_free());
}

TEST(RoomTableTest, PartsThatComeBackInAnyOrderBecomeOneAgain) {
  std::vector<Room> parts = {{4096, 640}, {4736, 640}, {5376, 64}, {5440, 5056}};
  do {
    RoomTable table(kAll);
    ASSERT_EQ(table.Take(kAll.length, 1), kAll);
    for (const Room& part : parts) table.Return(part);
    EXPECT_TRUE(table.all_free());
    EXPECT_EQ(table.Take(kAll.length, kAll.length), kAll);
  } while (std::next_permutation(parts.begin(), parts.end(),
                                 [](const Room& a, const Room& b) { return a.offset < b.offset; }));
}

// Against a table of single lines that can be seen to be right.
TEST(RoomTableTest, NoByteIsGivenTwiceAndNoneIsLost) {
  std::mt19937 random(24);
  RoomTable table(kAll);
  std::vector<bool> taken(100, false);
  std::vector<Room> rooms;
  for (int step = 0; step < 20000; ++step) {
    if (rooms.empty() || random() % 2 == 0) {
      const std::optional<Room> room = table.Take(1 + random() % 900, 1 + random() % 300);
      if (!room.has_value()) continue;
      for (int64_t line = 0; line < room->length / 64; ++line) {
        const auto at = static_cast<size_t>((room->offset - kAll.offset) / 64 + line);
        ASSERT_FALSE(taken[at]);
        taken[at] = true;
      }
      rooms.push_back(*room);
    } else {
      std::swap(rooms[random() % rooms.size()], rooms.back());
      for (int64_t line = 0; line < rooms.back().length / 64; ++line) {
        taken[static_cast<size_t>((rooms.back().offset - kAll.offset) / 64 + line)] = false;
      }
      table.Return(rooms.back());
      rooms.pop_back();
    }
    const auto free = static_cast<int64_t>(std::count(taken.begin(), taken.end(), false));
    ASSERT_EQ(table.free_bytes(), free * 64);
  }
  for (const Room& room : rooms) table.Return(room);
  EXPECT_EQ(table.Take(kAll.length, kAll.length), kAll);
}

TEST(RoomQueueTest, BodiesFollowOneAnotherInARoom) {
  RoomQueue queue;
  queue.Add({4096, 256});
  EXPECT_EQ(queue.Place(65), Room({4096, 65}));
  EXPECT_EQ(queue.Place(64), Room({4096 + 128, 64}));
  EXPECT_EQ(queue.unused_bytes(), 64);
  EXPECT_EQ(queue.Place(65), std::nullopt);
  EXPECT_EQ(queue.unused_bytes(), 64) << "what did not fit took nothing";
  EXPECT_EQ(queue.Place(1), Room({4096 + 192, 1}));
  EXPECT_EQ(queue.unused_bytes(), 0);
}

TEST(RoomQueueTest, WhatIsTooSmallIsGivenUpForTheRoomThatFits) {
  RoomQueue feeder;
  RoomQueue node;
  for (RoomQueue* queue : {&feeder, &node}) {
    queue->Add({4096, 128});
    queue->Add({8192, 64});
    queue->Add({16384, 640});
  }
  ASSERT_EQ(feeder.Place(10), Room({4096, 10}));
  EXPECT_THAT(node.Use({4096, 10}), IsOkAndHolds(IsEmpty()));
  ASSERT_EQ(feeder.Place(300), Room({16384, 300}));
  EXPECT_THAT(node.Use({16384, 300}), IsOkAndHolds(ElementsAre(Room{4160, 64}, Room{8192, 64})));
  EXPECT_EQ(node.unused_bytes(), feeder.unused_bytes());
  EXPECT_THAT(node.Clear(), ElementsAre(Room{16384 + 320, 320}));
  EXPECT_EQ(node.unused_bytes(), 0);
}

TEST(RoomQueueTest, AFeederMayLeaveAGapWithinARoom) {
  RoomQueue node;
  node.Add({4096, 640});
  EXPECT_THAT(node.Use({4096 + 128, 64}), IsOkAndHolds(ElementsAre(Room{4096, 128})));
  EXPECT_EQ(node.unused_bytes(), 640 - 192);
}

TEST(RoomQueueTest, WhatLiesElsewhereIsRefusedAndChangesNothing) {
  RoomQueue node;
  node.Add({4096, 128});
  node.Add({8192, 128});
  for (const Room& body : std::vector<Room>{{0, 1},
                                            {4096, 0},
                                            {4096, -1},
                                            {4096, 129},
                                            {4097, 10},
                                            {4096 + 128, 1},
                                            {8192 + 64, 65},
                                            {8192, INT64_MAX},
                                            {INT64_MAX, 1},
                                            {-64, 64},
                                            {INT64_MIN, INT64_MIN}}) {
    EXPECT_THAT(node.Use(body), StatusIs(absl::StatusCode::kInvalidArgument))
        << body.offset << " " << body.length;
  }
  EXPECT_EQ(node.unused_bytes(), 256);
  EXPECT_THAT(node.Use({8192, 128}), IsOkAndHolds(ElementsAre(Room{4096, 128})));
  EXPECT_THAT(node.Use({4096, 64}), StatusIs(absl::StatusCode::kInvalidArgument))
      << "it was given up";
  EXPECT_THAT(node.Use({8192, 64}), StatusIs(absl::StatusCode::kInvalidArgument)) << "it is used";
}

}  // namespace
}  // namespace millrace
