#include "dashboard/source/split_update.h"

#include <memory>
#include <utility>

#include "google/protobuf/arena.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

v1::WatchUpdate Update(int slots, int nodes) {
  v1::WatchUpdate update;
  update.set_seq(7);
  update.set_snapshot(true);
  update.set_incarnation("inc");
  update.mutable_time()->set_seconds(8);
  update.mutable_cluster()->set_cluster_id("c");
  for (int i = 0; i < slots; ++i) update.add_slots()->set_executor_id(i);
  for (int i = 0; i < nodes; ++i) update.add_nodes()->set_executor_id(i);
  update.add_membership()->set_epoch(3);
  update.add_feeds()->set_feed_id("f");
  update.add_removed_feeds("g");
  update.add_metrics()->set_name("loss");
  update.add_events()->set_number(9);
  update.add_logs()->add_lines("line");
  update.set_dropped_metrics(1);
  update.set_dropped_events(2);
  update.set_dropped_log_lines(3);
  return update;
}

// In an arena, as it comes from the network, or on the heap.
std::shared_ptr<v1::WatchUpdate> Shared(const v1::WatchUpdate& update, bool in_arena) {
  if (!in_arena) return std::make_shared<v1::WatchUpdate>(update);
  auto arena = std::make_shared<google::protobuf::Arena>();
  auto* const copy = google::protobuf::Arena::CreateMessage<v1::WatchUpdate>(arena.get());
  *copy = update;
  return {std::move(arena), copy};
}

class SplitUpdateTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Memory, SplitUpdateTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Arena" : "Heap"; });

TEST_P(SplitUpdateTest, ThePartsTogetherAreTheUpdateAndTheFirstAloneIsASnapshot) {
  // A field that comes anew must be set above.
  ASSERT_EQ(v1::WatchUpdate::descriptor()->field_count(), 16);
  const v1::WatchUpdate update = Update(2 * kSlotsPerPart + 1, 3 * kNodesPerPart);
  auto parts = SplitUpdate(Shared(update, GetParam()));
  ASSERT_EQ(parts.size(), 1u + 3u + 3u);
  v1::WatchUpdate all;
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i]->snapshot(), i == 0);
    EXPECT_LE(parts[i]->slots_size(), kSlotsPerPart);
    EXPECT_LE(parts[i]->nodes_size(), kNodesPerPart);
    all.MergeFrom(*parts[i]);
  }
  EXPECT_EQ(all.SerializeAsString(), update.SerializeAsString());
}

TEST_P(SplitUpdateTest, ThePartsHoldWhatTheUpdateHeldNotACopy) {
  const auto update = Shared(Update(0, kNodesPerPart + 1), GetParam());
  const v1::WatchUpdate::Node* const last = &update->nodes(kNodesPerPart);
  const auto parts = SplitUpdate(update);
  EXPECT_EQ(parts[0], update);
  EXPECT_EQ(&parts[2]->nodes(0), last);
}

TEST_P(SplitUpdateTest, APartOutlivesTheOthers) {
  auto parts = SplitUpdate(Shared(Update(0, kNodesPerPart + 1), GetParam()));
  const auto last = parts.back();
  parts.clear();
  EXPECT_EQ(last->nodes(0).executor_id(), kNodesPerPart);
}

TEST_P(SplitUpdateTest, ASmallUpdateIsOnePart) {
  const v1::WatchUpdate update = Update(kSlotsPerPart, kNodesPerPart);
  const auto parts = SplitUpdate(Shared(update, GetParam()));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0]->SerializeAsString(), update.SerializeAsString());
}

}  // namespace
}  // namespace millrace::dashboard
