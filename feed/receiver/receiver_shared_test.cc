// The receiver's shared memory, with a feeder that says what the test wants, right or wrong.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/status_matchers.h"
#include "feed/ipc/ipc.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/raw_feeder.h"
#include "feed/receiver/receiver.h"
#include "feed/receiver/receiver_core.h"
#include "feed/receiver/receiver_rows_testing.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment.h"
#include "feed/segment/segment_testing.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ReceiverSharedTest : public testing::Test {
 protected:
  ReceiverSharedTest() {
    receiver_ = *FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = kNonce, .budget_bytes = int64_t{4} << 20});
    feed_ = *receiver_->GetDataFeed();
    Connect("feeder/raw");
  }

  void Connect(const std::string& principal) {
    feeder_ = std::make_unique<RawFeeder>(receiver_->endpoints().ipc, receiver_->endpoints().key,
                                          principal);
    ASSERT_TRUE(feeder_->Connect());
  }

  // A session that has been told of a segment and has credit.
  void Open(uint64_t session) {
    OpenFrame open = feeder_->Open(kNonce);
    open.feed_id = absl::StrCat("f", session);
    open.shared_memory = true;
    feeder_->Send({.type = FrameType::kOpen, .session = session}, EncodeOpen(open));
    const auto segment = feeder_->Await(session, FrameType::kSegment);
    ASSERT_TRUE(segment.has_value() && segment->header.optional());
    const SegmentFrame name = *DecodeSegment(segment->metadata);
    segment_ =
        *FeederSegment::Open({.pid = name.pid, .fd = name.fd, .bytes = name.bytes, .id = name.id});
    ASSERT_TRUE(feeder_->Await(session, FrameType::kCredit).has_value());
    seq_ = 1;
  }

  void Say(uint64_t session, FrameType type, absl::string_view metadata) {
    feeder_->Send({.type = type, .session = session, .seq = seq_++}, metadata);
  }

  // And room, and a schema.
  Room OpenWithRoom(uint64_t session) {
    Open(session);
    Say(session, FrameType::kMapped, EncodeMapped({}));
    const auto frame = feeder_->Await(session, FrameType::kRoom);
    EXPECT_TRUE(frame.has_value());
    feeder_->SendSchema(session, seq_++, Rows(0, 1).schema());
    const RoomFrame room = *DecodeRoom(frame->metadata);
    EXPECT_TRUE(segment_->Holds({room.offset, room.length}));
    return {room.offset, room.length};
  }

  // 10 rows from `first` on, in one body part of 80 bytes.
  std::string Placed(Room body, int64_t first) {
    return EncodePlacedPrefix({.offset = body.offset, .length = body.length}) +
           EncodeBatchPrefix({.first_row = first, .rows = 10}) +
           EncodeBatch(Rows(first, 10))->metadata;
  }
  void Write(Room body, int64_t first) {
    const EncodedBatch batch = *EncodeBatch(Rows(first, 10));
    ASSERT_EQ(batch.parts.size(), 1u);
    std::memcpy(segment_->data(body), batch.parts[0].data, batch.parts[0].size);
  }

  std::unique_ptr<FeedReceiver> receiver_;
  std::unique_ptr<DataFeed> feed_;
  std::unique_ptr<RawFeeder> feeder_;
  std::shared_ptr<FeederSegment> segment_;
  uint64_t seq_ = 1;
};

TEST_F(ReceiverSharedTest, RowsAreReadWhereTheyWerePlaced) {
  const Room room = OpenWithRoom(1);
  for (int64_t i = 0; i < 3; ++i) {
    const Room body{room.offset + 128 * i, 80};
    Write(body, 10 * i);
    Say(1, FrameType::kPlaced, Placed(body, 10 * i));
  }
  for (int64_t i = 0; i < 3; ++i) {
    const absl::StatusOr<Batch> batch = feed_->NextBatch(10);
    ASSERT_THAT(batch, IsOk());
    const auto ids = batch->column<int64_t>("id");
    EXPECT_EQ(ids[9], 10 * i + 9);
    // Not a copy.
    EXPECT_EQ(std::memcmp(segment_->data({room.offset + 128 * i, 80}), ids.data(), 80), 0);
    segment_->data({room.offset + 128 * i, 80})[0] ^= 1;
    EXPECT_EQ(ids[0], (10 * i) ^ 1);
  }
  EXPECT_EQ(receiver_->stats().queues[0].batches_placed, 3);
}

TEST_F(ReceiverSharedTest, WhoCannotMapItIsGrantedNothingAndSaysWhy) {
  Open(1);
  Say(1, FrameType::kMapped, EncodeMapped({.reason = "/proc/1/fd/2: Permission denied"}));
  feeder_->SendSchema(1, seq_++, Rows(0, 1).schema());
  feeder_->SendBatch(1, seq_++, 0, Rows(0, 10));
  EXPECT_THAT(feed_->NextBatch(10), IsOk());
  feeder_->patience = absl::ZeroDuration();  // it would have come before the rows were read
  EXPECT_FALSE(feeder_->Await(1, FrameType::kRoom).has_value());
  EXPECT_THAT(receiver_->stats().why_not_shared, HasSubstr("feeder/raw: /proc/1/fd/2: Permission"));
}

TEST_F(ReceiverSharedTest, WhatLiesInNoRoomOfItsOwnPoisons) {
  int poisoned = 0;
  uint64_t session = 10;
  const auto expect_poison = [&](absl::string_view what, const std::string& part) {
    const ErrorFrame error = feeder_->AwaitError(session);
    EXPECT_EQ(error.code, absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(error.message, HasSubstr(part)) << what;
    EXPECT_EQ(receiver_->stats().poisoned_principals, ++poisoned) << what;
    receiver_->FeedEnd(absl::StrCat("f", session), true);  // it may have begun: others would wait
    Connect(absl::StrCat("feeder/raw", ++session));
  };
  struct Case {
    const char* what;
    int64_t offset;  // from the room's
    int64_t length;
  };
  for (const Case& bad : std::vector<Case>{{"before the room", -64, 80},
                                           {"in the first page", -4096, 80},
                                           {"behind the room", int64_t{1} << 40, 80},
                                           {"longer than the room", 0, int64_t{1} << 40},
                                           {"not aligned", 8, 80},
                                           {"empty", 0, 0}}) {
    const Room room = OpenWithRoom(session);
    Say(session, FrameType::kPlaced, Placed({room.offset + bad.offset, bad.length}, 0));
    expect_poison(bad.what, "in no room that was granted");
  }
  const Room room = OpenWithRoom(session);
  Write({room.offset, 80}, 0);
  Say(session, FrameType::kPlaced, Placed({room.offset, 80}, 0));
  Say(session, FrameType::kPlaced, Placed({room.offset, 80}, 10));
  expect_poison("used twice", "in no room that was granted");

  OpenWithRoom(session);
  Say(session, FrameType::kMapped, EncodeMapped({}));
  expect_poison("MAPPED twice", "MAPPED without SEGMENT, or twice");

  const Room short_room = OpenWithRoom(session);
  Say(session, FrameType::kPlaced, Placed({short_room.offset, 72}, 0));
  expect_poison("shorter than its rows", "a body of 80 bytes, 72 came");
}

// What the feeder has answered to the first session's SEGMENT holds for its connection.
TEST_F(ReceiverSharedTest, LaterSessionsAreNotToldOfTheSegmentAgain) {
  for (const bool mapped : {true, false}) {
    const uint64_t first = mapped ? 1 : 3;
    const uint64_t session = first + 1;
    Connect(absl::StrCat("feeder/again", first));
    Open(first);
    Say(first, FrameType::kMapped, EncodeMapped({.reason = mapped ? "" : "none here"}));
    Say(first, FrameType::kAbort, EncodeError({.code = absl::StatusCode::kCancelled}));
    receiver_->FeedEnd(absl::StrCat("f", first), true);
    OpenFrame open = feeder_->Open(kNonce);
    open.feed_id = absl::StrCat("f", session);
    open.shared_memory = true;
    feeder_->Send({.type = FrameType::kOpen, .session = session}, EncodeOpen(open));
    for (const FrameType type : mapped ? std::vector{FrameType::kRoom, FrameType::kCredit}
                                       : std::vector{FrameType::kCredit}) {
      const auto frame = feeder_->Await(session);
      ASSERT_TRUE(frame.has_value());
      EXPECT_EQ(frame->header.type, type);
    }
    receiver_->FeedEnd(open.feed_id, true);
  }
}

// What the node ends may have its END_PARTITION under way already: no ABORT follows that, and more
// of these sessions come than the budget has room for.
TEST_F(ReceiverSharedTest, AnEndThatComesToASessionThatHasEndedGivesItsRoomBack) {
  Room room = OpenWithRoom(1);
  for (uint64_t session = 1; session <= 40; ++session) {
    const uint64_t end_seq = seq_;
    receiver_->FeedEnd(absl::StrCat("f", session), true);
    ASSERT_TRUE(feeder_->Await(session, FrameType::kError).has_value());
    feeder_->Send({.type = FrameType::kEndPartition, .session = session, .seq = end_seq},
                  EncodeRow({.row = 0}));
    OpenFrame open = feeder_->Open(kNonce);
    open.feed_id = absl::StrCat("f", session + 1);
    open.shared_memory = true;
    feeder_->Send({.type = FrameType::kOpen, .session = session + 1}, EncodeOpen(open));
    auto granted = feeder_->Await(session + 1);
    while (granted.has_value() && granted->header.type == FrameType::kWait) {  // its turn comes
      granted = feeder_->Await(session + 1);
    }
    ASSERT_TRUE(granted.has_value());
    ASSERT_EQ(granted->header.type, FrameType::kRoom) << "for session " << session + 1;
    const RoomFrame again = *DecodeRoom(granted->metadata);
    if (session > 1) EXPECT_EQ(again.offset, room.offset);
    room = {again.offset, again.length};
    seq_ = 1;
  }
  EXPECT_LE(receiver_->stats().dropped_frames, 1);  // the first session's schema, if it came late
}

// The program's answers lie in the segment, and where the feeder has said that it looks at one no
// more, the next one lies.
TEST_F(ReceiverSharedTest, ResultsLieInTheSegmentUntilTheFeederHasThem) {
  feed_.reset();
  const auto infer = *receiver_->GetDataFeed({.train_mode = false});
  constexpr int64_t kRows = 10'000;  // 80 KB
  constexpr int64_t kWindow = int64_t{1} << 20;
  OpenFrame open = feeder_->Open(kNonce);
  open.mode = FeedMode::kInference;
  open.shared_memory = true;
  open.result_limit = kWindow;
  feeder_->Send({.type = FrameType::kOpen, .session = 1}, EncodeOpen(open));
  const auto segment = feeder_->Await(1, FrameType::kSegment);
  ASSERT_TRUE(segment.has_value());
  const SegmentFrame name = *DecodeSegment(segment->metadata);
  segment_ =
      *FeederSegment::Open({.pid = name.pid, .fd = name.fd, .bytes = name.bytes, .id = name.id});
  ASSERT_TRUE(feeder_->Await(1, FrameType::kCredit).has_value());
  seq_ = 1;
  Say(1, FrameType::kMapped, EncodeMapped({.results = true}));
  feeder_->SendSchema(1, seq_++, Rows(0, 1).schema());
  int64_t taken = 0;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < 4; ++i) {
    feeder_->SendBatch(1, seq_++, i * kRows, Rows(i * kRows, kRows));
    const absl::StatusOr<Batch> batch = infer->NextBatch(kRows);
    ASSERT_THAT(batch, IsOk());
    ASSERT_THAT(infer->BatchResults(batch->record_batch()), IsOk());
    const auto result = feeder_->Await(1, FrameType::kPlacedResult);
    ASSERT_TRUE(result.has_value() && result->body.empty());
    const PlacedPrefix placed = *DecodePlacedPrefix(result->metadata);
    const Room room{placed.offset, AlignRoom(placed.length)};
    ASSERT_TRUE(segment_->Holds(room));
    std::vector<int64_t> ids(kRows);
    std::memcpy(ids.data(), segment_->data(room), static_cast<size_t>(kRows) * sizeof(int64_t));
    EXPECT_EQ(ids[kRows - 1], (i + 1) * kRows - 1);
    EXPECT_EQ(DecodeBatchPrefix(result->metadata.substr(kPlacedPrefixSize))->first_row, i * kRows);
    offsets.push_back(placed.offset);
    taken += static_cast<int64_t>(result->metadata.size() - kPlacedPrefixSize) + placed.length;
    // One byte of the second is still looked at.
    if (i == 0) Say(1, FrameType::kResultCredit, EncodeResultCredit({.limit = kWindow + taken}));
    if (i == 1)
      Say(1, FrameType::kResultCredit, EncodeResultCredit({.limit = kWindow + taken - 1}));
  }
  EXPECT_EQ(offsets[1], offsets[0]);
  EXPECT_NE(offsets[2], offsets[1]);
  EXPECT_NE(offsets[3], offsets[1]);
  EXPECT_NE(offsets[3], offsets[2]);
  // All of them, when it reads no more.
  Say(1, FrameType::kAbort, EncodeError({.code = absl::StatusCode::kCancelled}));
  segment_.reset();
  feeder_->CloseData();
  EXPECT_TRUE(Eventually([] { return MappedSegments() == 0; }));
}

// Its connection may stand for long, and nothing of it is read: its room is for others.
TEST_F(ReceiverSharedTest, ThePoisonedLoseTheirSegment) {
  OpenWithRoom(1);
  segment_.reset();
  EXPECT_EQ(MappedSegments(), 1);
  Say(1, FrameType::kMapped, EncodeMapped({}));
  EXPECT_EQ(feeder_->AwaitError(1).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedSegments(), 0);
}

// The answer was under way when the session ended.
TEST(ReceiverCoreSharedTest, MappedOfASessionThatHasEndedIsNoMistake) {
  ReceiverCore core({.node_name = "worker:0",
                     .nonce = kNonce,
                     .queues = {"input"},
                     .budget_bytes = 1 << 20,
                     .clock = RealClock()},
                    [] {});
  const auto segment = *NodeSegment::Create(1 << 20, std::make_shared<RoomAccount>(1 << 20));
  OpenFrame open{.feed_id = "f1", .queue = "input", .node_nonce = kNonce, .shared_memory = true};
  const auto ended = core.Open("feeder/1", 77, 1, 1, open, {.segment = segment});
  core.Fail(ended, absl::AbortedError("over"));
  EXPECT_THAT(core.Mapped(ended, {}), IsOk());
  const auto without = core.Open("feeder/1", 78, 1, 1, open);
  EXPECT_THAT(core.Mapped(without, {}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ReceiverSharedTest, WhoHasNotAskedForItMayNotUseIt) {
  feeder_->Send({.type = FrameType::kOpen, .session = 1}, EncodeOpen(feeder_->Open(kNonce)));
  const auto first = feeder_->Await(1);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->header.type, FrameType::kCredit) << "and no SEGMENT";
  feeder_->SendSchema(1, 1, Rows(0, 1).schema());
  seq_ = 2;
  Say(1, FrameType::kPlaced, Placed({4096, 80}, 0));
  EXPECT_THAT(feeder_->AwaitError(1).message, HasSubstr("PLACED without a segment"));
}

}  // namespace
}  // namespace millrace
