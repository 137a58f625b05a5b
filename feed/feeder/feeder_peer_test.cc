// Nodes that break the protocol: what a feeder makes of it, and whom it does not touch.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/feeder_fixture.h"
#include "feed/ipc/ipc.h"
#include "feed/source/id_source.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;

class FeederPeerTest : public FeederTest {};

struct WrongResults {
  const char* name;
  std::function<void(Session&)> answer;  // after 10 rows and END_PARTITION
  const char* message;
};

class WrongResultsTest : public FeederPeerTest,
                         public ::testing::WithParamInterface<WrongResults> {};

TEST_P(WrongResultsTest, AreDataLoss) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kEndPartition) GetParam().answer(session);
  });
  auto session = Open(node.target(), Options(FeedMode::kInference));
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Finish(10), IsOk());
  absl::StatusOr<std::optional<RecordBatch>> result;
  do {
    result = session->NextResult();
  } while (result.ok() && result->has_value());
  EXPECT_THAT(result,
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("worker:1, partition 3"), HasSubstr(GetParam().message))));
  EXPECT_EQ(session->state().end, SessionEnd::kBadPeer);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongResultsTest,
    ::testing::Values(
        WrongResults{"Gap", [](Session& s) { s.Result(Ids(5, 5), 5); }, "a gap"},
        WrongResults{"Overlap",
                     [](Session& s) {
                       s.Result(Ids(0, 5), 0);
                       s.Result(Ids(4, 6), 4);
                     },
                     "an overlap"},
        WrongResults{"TooMany", [](Session& s) { s.Result(Ids(0, 11), 0); }, "too many"},
        WrongResults{"TooFew",
                     [](Session& s) {
                       s.Result(Ids(0, 9), 0);
                       s.Done(10, 10);
                     },
                     "DONE with 10 rows in and 10 out"},
        WrongResults{"FewerAndHonest",
                     [](Session& s) {
                       s.Result(Ids(0, 9), 0);
                       s.Done(10, 9);
                     },
                     "DONE with 10 rows in and 9 out"},
        WrongResults{"NoneAtAll", [](Session& s) { s.Done(10, 10); }, "results for 0 came"}),
    [](const auto& info) { return info.param.name; });

TEST_F(FeederPeerTest, DoneBeforeTheEndOfThePartitionIsDataLoss) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch) session.Done(10, 0);
  });
  auto session = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  EXPECT_THAT(session->WaitReady(std::nullopt),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("more are to come")));
}

// ---------------------------------------------------------------------------------- bad frames

struct BadFrame {
  const char* name;
  std::function<void(Session&)> send;
  const char* message;
};

class BadFrameTest : public FeederPeerTest, public ::testing::WithParamInterface<BadFrame> {};

TEST_P(BadFrameTest, PoisonsItsSenderAndNobodyElse) {
  FakeFeedNode bad("worker:1", FakeFeedNode::ReceiveOnly());
  FakeFeedNode good("worker:2", FakeFeedNode::ReadAll());
  auto first = Open(bad.target(), Options());
  auto second = Open(bad.target(), Options());
  auto other = Open(good.target(), Options());
  for (const auto& session : {first, second}) {
    ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
    ASSERT_THAT(session->Finish(10), IsOk());
    ASSERT_THAT(session->WaitReceived(), IsOk());
  }
  bad.Post([first](Session& s) {
    if (s.id == first->id()) GetParam().send(s);
  });
  for (const auto& session : {first, second}) {
    EXPECT_THAT(session->WaitDone(),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("bad frame"), HasSubstr(GetParam().message))));
  }
  EXPECT_EQ(feeder_->stats().bad_frames, 1);
  // Its sessions are told, later frames are dropped, later sessions end at once.
  EXPECT_TRUE(bad.WaitFor([](const auto& events) {
    int aborts = 0;
    for (const Event& event : events) aborts += event.type == FrameType::kAbort;
    return aborts == 2;
  }));
  auto third = Open(bad.target(), Options());
  EXPECT_THAT(third->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kDataLoss));

  EXPECT_THAT(other->Send(Ids(0, 10)), IsOk());
  EXPECT_THAT(other->Finish(10), IsOk());
  EXPECT_THAT(other->WaitDone(), IsOk());
}

std::string Header(const Session& s, FrameType type, uint32_t metadata_length) {
  return EncodeHeader(
      {.type = type, .session = s.id, .seq = 100, .metadata_length = metadata_length});
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFrameTest,
    ::testing::Values(
        BadFrame{"Garbage", [](Session& s) { s.Raw({"garbage"}); }, "header"},
        BadFrame{"Empty", [](Session& s) { s.Raw({""}); }, "header"},
        BadFrame{"RandomHeader",
                 [](Session& s) {
                   s.Raw({std::string(32, '\x7f'), RandomBytes(50)});
                 },
                 "MRF1"},
        BadFrame{"MissingMetadata", [](Session& s) { s.Raw({Header(s, FrameType::kAck, 8)}); },
                 "ACK"},
        BadFrame{"EmptyMetadataPart",
                 [](Session& s) {
                   s.Raw({Header(s, FrameType::kAck, 0), ""});
                 },
                 "ACK"},
        BadFrame{"ShortMetadata", [](Session& s) { s.Frame({.type = FrameType::kAck}, "1234"); },
                 "8 bytes"},
        BadFrame{"UnknownType",
                 [](Session& s) { s.Frame({.type = static_cast<FrameType>(99)}, "x"); }, "type 99"},
        BadFrame{
            "BodyWhereNoneIs",
            [](Session& s) { s.Frame({.type = FrameType::kAck}, EncodeRow({.row = 1}), {"body"}); },
            "has no body"},
        BadFrame{"AFeedersFrame",
                 [](Session& s) {
                   s.Frame({.type = FrameType::kEndPartition}, EncodeEndPartition({.end_row = 1}));
                 },
                 "does not send END_PARTITION"},
        BadFrame{"AckOfUnsentRows", [](Session& s) { s.Ack(11); }, "more than was sent"},
        BadFrame{"AckGoesBack",
                 [](Session& s) {
                   s.Ack(5);
                   s.Ack(4);
                 },
                 "4 after 5"},
        BadFrame{"HugeRow", [](Session& s) { s.Ack(INT64_MAX); }, "more than was sent"},
        BadFrame{"ReleasedUnsentBytes",
                 [](Session& s) { s.Credit(int64_t{1} << 50, int64_t{1} << 49); },
                 "more than was sent"},
        BadFrame{"LimitGoesBack", [](Session& s) { s.Credit(1, 0); }, "limit"},
        BadFrame{"ResultInTraining", [](Session& s) { s.Result(Ids(0, 1), 0); },
                 "training session"},
        BadFrame{"ErrorIsNoJson",
                 [](Session& s) { s.Frame({.type = FrameType::kError}, "{\"code\":"); }, ""}),
    [](const auto& info) { return info.param.name; });

TEST_F(FeederPeerTest, ResultsThatDoNotDecodeAreDataLossAndPoison) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type != FrameType::kBatch) return;
    session.Result(Ids(0, 5), 0);
    session.Frame({.type = FrameType::kResult},
                  EncodeBatchPrefix({.first_row = 5, .rows = 5}) + std::string(64, '\xff'),
                  {"rubbish"});
  });
  auto session = Open(node.target(), Options(FeedMode::kInference));
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  auto good = session->NextResult();
  ASSERT_THAT(good, IsOk());
  EXPECT_THAT(session->NextResult(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 5 does not decode")));
  auto next = Open(node.target(), Options(FeedMode::kInference));
  EXPECT_THAT(next->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kDataLoss));
}

// A Schema message in order, of a column "when" whose type feeds do not carry.
std::string SchemaOfATime() {
  constexpr char kDate = 8, kTime = 9;  // Arrow's numbers of types
  const std::string date = *EncodeSchema(*SchemaBuilder().Add("when", Type::Date32()).Build());
  for (size_t i = 0; i < date.size(); ++i) {
    std::string time = date;
    if (date[i] == kDate) time[i] = kTime;
    if (absl::IsUnimplemented(DecodeSchema(time).status())) return time;
  }
  ADD_FAILURE() << "no type in the message";
  return "";
}

TEST_F(FeederPeerTest, AResultSchemaOfOtherTypesEndsItsSessionOnly) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch) session.Frame({.type = FrameType::kSchema}, SchemaOfATime());
  });
  for (int i = 0; i < 2; ++i) {  // the node is not poisoned
    auto session = Open(node.target(), Options(FeedMode::kInference));
    ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
    EXPECT_THAT(session->NextResult(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("column \"when\": type time")));
  }
}

TEST_F(FeederPeerTest, AFrameForASessionOfAnotherNodePoisons) {
  FakeFeedNode victim("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = Open(victim.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Finish(10), IsOk());
  ASSERT_THAT(session->WaitReceived(), IsOk());
  FakeFeedNode forger("worker:2", FakeFeedNode::ReceiveOnly());
  auto other = Open(forger.target(), Options());
  ASSERT_THAT(other->Send(Ids(0, 1)), IsOk());
  forger.Post([&](Session& s) {
    s.Raw(
        {EncodeHeader(
             {.type = FrameType::kDone, .session = session->id(), .seq = 3, .metadata_length = 16}),
         EncodeDone({.rows_in = 10, .rows_out = 0})});
  });
  EXPECT_THAT(other->WaitReady(std::nullopt),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another node")));
  EXPECT_EQ(session->state().end, SessionEnd::kOpen);
}

TEST_F(FeederPeerTest, AGapInSeqIsDataLossOfThatSessionOnly) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = Open(node.target(), Options());
  auto other = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(other->Send(Ids(0, 10)), IsOk());
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 6; }));
  node.Post([&](Session& s) {
    if (s.id != session->id()) return;
    s.SkipSeq(1);
    s.Ack(3);
  });
  EXPECT_THAT(session->WaitReady(std::nullopt), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(other->Send(Ids(10, 10)), IsOk());
  EXPECT_EQ(feeder_->stats().bad_frames, 0);
}

TEST_F(FeederPeerTest, OptionalFramesOfUnknownTypeAreIgnoredAndCounted) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    session.Frame({.type = static_cast<FrameType>(200), .flags = kFrameFlagOptional}, "new", {"b"});
    FakeFeedNode::ReadAll()(session, type);
  });
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(0, 10)), IsOk());
  EXPECT_THAT(session->Finish(10), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
}

TEST_F(FeederPeerTest, AGreaterVersionIsUnimplemented) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) {
      session.Frame({.type = FrameType::kCredit, .version = kFrameVersion + 1},
                    std::string(24, '\0'));
    }
  });
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_TRUE(node.WaitFor([](const auto& events) {
    return events.back().type == FrameType::kAbort &&
           events.back().abort->code == absl::StatusCode::kUnimplemented;
  }));
}

}  // namespace
}  // namespace millrace
