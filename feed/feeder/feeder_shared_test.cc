// The feeder's shared memory, with nodes that do with it what the test wants, right or wrong.

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/ipc/ipc.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment.h"
#include "feed/source/id_source.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;

constexpr int64_t kSegmentBytes = int64_t{1} << 20;

class FeederSharedTest : public ::testing::Test {
 protected:
  FeederSharedTest() {
    feeder_ = *Feeder::Start({.shared_memory = true, .shared_min_bytes = 1});
    segment_ = *NodeSegment::Create(kSegmentBytes, std::make_shared<RoomAccount>(kSegmentBytes));
  }

  std::shared_ptr<FeedSession> Open(const FakeFeedNode& node) {
    return *feeder_->OpenSession(
        node.target(),
        {.feed_id = "f1", .queue = "input", .partition = 3, .feed_timeout = absl::Seconds(20)});
  }

  void SendSegment(Session& session, const SegmentName& name) const {
    session.Frame(
        {.type = FrameType::kSegment, .flags = kFrameFlagOptional},
        EncodeSegment({.pid = name.pid, .fd = name.fd, .bytes = name.bytes, .id = name.id}));
  }
  static void SendRoom(Session& session, int64_t offset, int64_t length) {
    session.Frame({.type = FrameType::kRoom, .flags = kFrameFlagOptional},
                  EncodeRoom({.offset = offset, .length = length}));
  }

  // What a session says that the node has wronged as `offend` does, after OPEN.
  void ExpectBadPeer(const FakeFeedNode::Script& offend, const std::string& message) {
    FakeFeedNode node("worker:1", [&](Session& session, FrameType type) {
      if (type == FrameType::kOpen) offend(session, type);
    });
    const auto session = Open(node);
    const absl::Status status = session->Send(Ids(0, 10));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
    EXPECT_EQ(session->state().end, SessionEnd::kBadPeer);
  }

  std::unique_ptr<Feeder> feeder_;
  std::shared_ptr<NodeSegment> segment_;
};

TEST_F(FeederSharedTest, ItIsAskedForWhereTheNodeIsReachedByPlain) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  const auto session = Open(node);
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Finish(10), IsOk());
  ASSERT_THAT(session->WaitDone(), IsOk());
  EXPECT_TRUE(node.events().at(0).open.shared_memory);
  EXPECT_EQ(node.values().size(), 10u) << "a node that does not answer it gets BATCH";
  EXPECT_EQ(feeder_->stats().batches_placed, 0);
}

TEST_F(FeederSharedTest, WithoutTheOptionNobodyAsks) {
  const auto plain = *Feeder::Start({});
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  const auto session = *plain->OpenSession(node.target(), {.feed_id = "f1", .queue = "input"});
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  EXPECT_FALSE(node.events().at(0).open.shared_memory);
}

TEST_F(FeederSharedTest, WhatCannotBeMappedIsNamedAndRowsComeAsBatch) {
  SegmentName other = segment_->name();
  other.id[0] ^= 1;
  FakeFeedNode node("worker:1", [&](Session& session, FrameType type) {
    if (type == FrameType::kOpen) {
      SendSegment(session, other);
      session.CreditAll();
    }
  });
  const auto session = Open(node);
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_TRUE(node.WaitFor(
      [](const std::vector<Event>& events) { return events.back().type == FrameType::kBatch; }));
  bool told = false;
  for (const Event& event : node.events()) told |= event.type == FrameType::kMapped;
  EXPECT_TRUE(told);
  EXPECT_EQ(feeder_->stats().batches_placed, 0);
}

TEST_F(FeederSharedTest, RowsLieWhereTheNodeGrantedRoom) {
  const std::optional<Room> room = segment_->Grant(1, 4096, 4096);
  ASSERT_TRUE(room.has_value());
  FakeFeedNode node("worker:1", [&](Session& session, FrameType type) {
    if (type == FrameType::kOpen) SendSegment(session, segment_->name());
    if (type != FrameType::kMapped) return;
    SendRoom(session, room->offset, room->length);
    session.CreditAll();
  });
  const auto session = Open(node);
  ASSERT_THAT(session->Send(Ids(7, 10)), IsOk());
  ASSERT_TRUE(node.WaitFor(
      [](const std::vector<Event>& events) { return events.back().type == FrameType::kPlaced; }));
  const SharedBytes body = *segment_->Use(1, {room->offset, 80});
  int64_t last = 0;
  std::memcpy(&last, body.data + 72, sizeof(last));
  EXPECT_EQ(last, 16);
  // However it ends, the node hears that nothing writes there any more.
  node.Post([](Session& session) { session.Error(absl::NotFoundError("no such queue")); });
  EXPECT_TRUE(node.WaitFor(
      [](const std::vector<Event>& events) { return events.back().type == FrameType::kAbort; }));
}

// The bytes of a result that lies there.
std::string PlacedResult(Room body, const RecordBatch& rows, int64_t first_row) {
  return EncodePlacedPrefix({.offset = body.offset, .length = body.length}) +
         EncodeBatchPrefix({.first_row = first_row, .rows = rows.num_rows()}) +
         EncodeBatch(rows)->metadata;
}

TEST_F(FeederSharedTest, ResultsAreTakenFromWhereTheNodeHasPutThem) {
  const std::shared_ptr<ResultRoom> room = segment_->TakeForResult(80);
  FakeFeedNode node("worker:1", [&](Session& session, FrameType type) {
    if (type == FrameType::kOpen) SendSegment(session, segment_->name());
    if (type == FrameType::kMapped) session.CreditAll();
    if (type != FrameType::kBatch) return;
    session.Result(Ids(100, 10), 0);
    const RecordBatch rows = Ids(110, 10);
    EncodeBatch(rows)->CopyBody(room->data());
    session.Frame({.type = FrameType::kPlacedResult},
                  PlacedResult({room->room().offset, 80}, rows, 10));
  });
  const auto session = *feeder_->OpenSession(
      node.target(), {.feed_id = "f1", .queue = "input", .mode = FeedMode::kInference});
  ASSERT_THAT(session->Send(Ids(0, 30)), IsOk());
  for (int64_t first = 0; first < 20; first += 10) {
    const absl::StatusOr<std::optional<RecordBatch>> result = session->NextResult();
    ASSERT_TRUE(result.ok() && result->has_value()) << result.status();
    if (first == 10) std::memset(room->data(), 0, 80);  // it is a copy
    EXPECT_TRUE((*result)->Equals(Ids(100 + first, 10)));
  }
  EXPECT_EQ(feeder_->stats().results_placed, 1);
  // However it ends, the node hears that nothing is read there any more.
  ASSERT_THAT(session->Finish(30), IsOk());
  node.Post([](Session& at) {
    at.Result(Ids(120, 10), 20);
    at.Done(30, 30);
  });
  ASSERT_TRUE(node.WaitFor(
      [](const std::vector<Event>& events) { return events.back().type == FrameType::kAbort; }));
  const absl::StatusOr<std::optional<RecordBatch>> last = session->NextResult();
  ASSERT_TRUE(last.ok() && last->has_value()) << last.status();
  EXPECT_TRUE((*last)->Equals(Ids(120, 10)));
  EXPECT_EQ(session->state().end, SessionEnd::kDone);
}

// Of a node that was killed: what it had answered is read where that can be done still.
TEST_F(FeederSharedTest, AResultInMemoryThatIsLostEndsTheSessionAsItsConnectionDoes) {
  feeder_ = *Feeder::Start(
      {.drain_timeout = absl::Seconds(20), .shared_memory = true, .shared_min_bytes = 1});
  FakeFeedNode node("worker:1", [&](Session& session, FrameType type) {
    if (type == FrameType::kOpen) SendSegment(session, segment_->name());
    if (type == FrameType::kMapped) session.CreditAll();
  });
  const auto session = *feeder_->OpenSession(
      node.target(), {.feed_id = "f1", .queue = "input", .mode = FeedMode::kInference});
  ASSERT_THAT(session->Send(Ids(0, 30)), IsOk());
  ASSERT_TRUE(node.WaitFor(
      [](const std::vector<Event>& events) { return events.back().type == FrameType::kBatch; }));
  node.CloseData();
  // Whichever connection this one has, that of the first is lost when it has ended.
  EXPECT_THAT(Open(node)->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kUnavailable));
  node.Post([&](Session& at) {
    at.Frame({.type = FrameType::kPlacedResult}, PlacedResult({4096, 80}, Ids(0, 10), 0));
  });
  EXPECT_THAT(session->NextResult(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(session->state().end, SessionEnd::kBroken);
  EXPECT_EQ(feeder_->stats().bad_frames, 0);
}

TEST_F(FeederSharedTest, AResultOutsideOfTheSegmentIsABadFrame) {
  for (const Room& body : std::vector<Room>{{0, 80},
                                            {4096, 0},
                                            {4097, 80},
                                            {kSegmentBytes + 4096 - 64, 80},
                                            {4096, kSegmentBytes + 1},
                                            {4096, INT64_MAX},
                                            {INT64_MAX - 63, 80}}) {
    feeder_ = *Feeder::Start({.shared_memory = true, .shared_min_bytes = 1});
    ExpectBadPeer(
        [&](Session& session, FrameType) {
          SendSegment(session, segment_->name());
          session.Frame({.type = FrameType::kPlacedResult}, PlacedResult(body, Ids(0, 10), 0));
        },
        "which is in no segment");
  }
  feeder_ = *Feeder::Start({.shared_memory = false});
  ExpectBadPeer(
      [&](Session& session, FrameType) {
        session.Frame({.type = FrameType::kPlacedResult}, PlacedResult({4096, 80}, Ids(0, 10), 0));
      },
      "which is in no segment");
}

TEST_F(FeederSharedTest, RoomOutsideOfTheSegmentIsABadFrame) {
  for (const Room& room : std::vector<Room>{{0, 64},
                                            {4096, 0},
                                            {4097, 64},
                                            {4096, kSegmentBytes + 64},
                                            {int64_t{1} << 40, 64},
                                            {INT64_MAX - 63, 64}}) {
    feeder_ = *Feeder::Start({.shared_memory = true, .shared_min_bytes = 1});
    ExpectBadPeer(
        [&](Session& session, FrameType) {
          SendSegment(session, segment_->name());
          SendRoom(session, room.offset, room.length);
        },
        "which is in no segment");
  }
}

TEST_F(FeederSharedTest, RoomWithoutASegmentIsABadFrame) {
  ExpectBadPeer([](Session& session, FrameType) { SendRoom(session, 4096, 64); },
                "which is in no segment");
}

TEST_F(FeederSharedTest, ASegmentTwiceOrUnaskedIsABadFrame) {
  ExpectBadPeer(
      [&](Session& session, FrameType) {
        SendSegment(session, segment_->name());
        SendSegment(session, segment_->name());
      },
      "SEGMENT that was not asked for, or twice");
  feeder_ = *Feeder::Start({});
  ExpectBadPeer([&](Session& session, FrameType) { SendSegment(session, segment_->name()); },
                "SEGMENT that was not asked for, or twice");
}

}  // namespace
}  // namespace millrace
