// The receiver through real sockets, with a feeder that says what the test wants, right or wrong.

#include "feed/receiver/receiver.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/net/port_range.h"
#include "feed/receiver/raw_feeder.h"
#include "feed/receiver/receiver_rows_testing.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReceiverTest : public testing::Test {
 protected:
  void Start(bool train = true) {
    absl::StatusOr<std::unique_ptr<FeedReceiver>> receiver =
        FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce});
    ASSERT_THAT(receiver, IsOk());
    receiver_ = *std::move(receiver);
    feed_ = *receiver_->GetDataFeed({.train_mode = train});
  }
  std::unique_ptr<RawFeeder> Feeder(const std::string& principal = "feeder/raw") {
    auto feeder = std::make_unique<RawFeeder>(receiver_->endpoints().ipc,
                                              receiver_->endpoints().key, principal);
    EXPECT_TRUE(feeder->Connect());
    return feeder;
  }
  // OPEN, and waits for CREDIT.
  void Open(RawFeeder* feeder, uint64_t session, FeedMode mode = FeedMode::kTrain) {
    OpenFrame open = feeder->Open(kNonce);
    open.mode = mode;
    open.partition = static_cast<int64_t>(session);
    feeder->Send({.type = FrameType::kOpen, .session = session}, EncodeOpen(open));
    ASSERT_TRUE(feeder->Await(session, FrameType::kCredit).has_value());
  }
  void End(RawFeeder* feeder, uint64_t session, uint64_t seq, int64_t end_row) {
    feeder->Send({.type = FrameType::kEndPartition, .session = session, .seq = seq},
                 EncodeEndPartition({.end_row = end_row}));
  }
  // The receiver still serves a peer that behaves.
  void ExpectServes() {
    auto feeder = Feeder("feeder/good");
    Open(feeder.get(), 4711);
    feeder->SendSchema(4711, 1, Rows(0, 1).schema());
    feeder->SendBatch(4711, 2, 0, Rows(0, 2));
    End(feeder.get(), 4711, 3, 2);
    absl::StatusOr<Batch> batch = feed_->NextBatch(2);
    ASSERT_THAT(batch, IsOk());
    EXPECT_THAT(Values(*batch), ElementsAre(0, 1));
  }

  std::unique_ptr<FeedReceiver> receiver_;
  std::unique_ptr<DataFeed> feed_;
};

// -------------------------------------------------------------------------------- What is allowed

TEST_F(ReceiverTest, TrainsOverTcpAndIpc) {
  Start();
  for (const std::string& endpoint : {receiver_->endpoints().tcp, receiver_->endpoints().ipc}) {
    SCOPED_TRACE(endpoint);
    RawFeeder feeder(endpoint, receiver_->endpoints().key);
    ASSERT_TRUE(feeder.Connect());
    Open(&feeder, 7);
    feeder.SendSchema(7, 1, Rows(0, 1).schema());
    feeder.SendBatch(7, 2, 0, Rows(0, 3));
    feeder.SendBatch(7, 3, 3, Rows(3, 3));
    End(&feeder, 7, 4, 6);
    EXPECT_THAT(Values(*feed_->NextBatch(4)), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(Values(*feed_->NextBatch(2)), ElementsAre(4, 5));
    EXPECT_TRUE(feeder.Await(7, FrameType::kReceived).has_value());
    std::optional<RawFeeder::Reply> ack = feeder.Await(7, FrameType::kAck);
    ASSERT_TRUE(ack.has_value());
    EXPECT_EQ(DecodeRow(ack->metadata)->row, 4);
  }
}

TEST(FeedReceiverPortsTest, TheTcpEndpointIsOfTheRange) {
  std::vector<std::unique_ptr<FeedReceiver>> receivers;
  // Somebody else may hold a few of them.
  const PortRange range = {21000, 21003};
  absl::Status full;
  while (receivers.size() < 5 && full.ok()) {
    auto receiver =
        FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce, .tcp_ports = range});
    full = receiver.status();
    if (receiver.ok()) {
      EXPECT_THAT((*receiver)->endpoints().tcp,
                  testing::MatchesRegex("tcp://127\\.0\\.0\\.1:2100[0-3]"));
      receivers.push_back(*std::move(receiver));
    }
  }
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("every port from 21000 to 21003")));
}

TEST_F(ReceiverTest, ExitSendsTheLastFrames) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  Open(feeder.get(), 8);
  feeder->SendSchema(7, 1, Rows(0, 1).schema());
  feeder->SendBatch(7, 2, 0, Rows(0, 3));
  End(feeder.get(), 7, 3, 3);
  EXPECT_THAT(Values(*feed_->NextBatch(3)), ElementsAre(0, 1, 2));
  ASSERT_TRUE(feeder->Await(7, FrameType::kReceived).has_value());
  EXPECT_THAT(receiver_->Finish(absl::OkStatus()), IsOk());
  EXPECT_TRUE(feeder->Await(7, FrameType::kDone).has_value());
  EXPECT_TRUE(feeder->Await(8, FrameType::kTerminated).has_value());
  EXPECT_THAT(receiver_->Finish(absl::OkStatus()), IsOk()) << "idempotent";
}

TEST_F(ReceiverTest, AFailingProgramTellsItsFeeders) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  EXPECT_THAT(receiver_->Finish(absl::InternalError("loss is NaN")),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(feeder->AwaitError(7), (ErrorFrame{absl::StatusCode::kInternal, "loss is NaN", true}));
}

TEST_F(ReceiverTest, InferenceReturnsResultsAndDone) {
  Start(/*train=*/false);
  auto feeder = Feeder();
  Open(feeder.get(), 7, FeedMode::kInference);
  feeder->SendSchema(7, 1, Rows(0, 1).schema());
  feeder->SendBatch(7, 2, 0, Rows(0, 3));
  End(feeder.get(), 7, 3, 3);
  absl::StatusOr<Batch> batch = feed_->NextBatch(64);
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->num_rows(), 3);
  ASSERT_THAT(feed_->BatchResults(Rows(100, 3)), IsOk());
  std::optional<RawFeeder::Reply> schema = feeder->Await(7, FrameType::kSchema);
  std::optional<RawFeeder::Reply> result = feeder->Await(7, FrameType::kResult);
  std::optional<RawFeeder::Reply> done = feeder->Await(7, FrameType::kDone);
  ASSERT_TRUE(schema.has_value() && result.has_value() && done.has_value());
  EXPECT_EQ(*DecodeBatchPrefix(result->metadata), (BatchPrefix{.first_row = 0, .rows = 3}));
  EXPECT_EQ(*DecodeDone(done->metadata), (DoneFrame{.rows_in = 3, .rows_out = 3}));
}

TEST_F(ReceiverTest, AnOptionalFrameOfAnUnknownTypeIsIgnoredAndItsSeqCounts) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->Send(
      {.type = static_cast<FrameType>(200), .flags = kFrameFlagOptional, .session = 7, .seq = 1},
      "later");
  feeder->SendSchema(7, 2, Rows(0, 1).schema());
  feeder->SendBatch(7, 3, 0, Rows(0, 1));
  EXPECT_THAT(Values(*feed_->NextBatch(1)), ElementsAre(0));
}

TEST_F(ReceiverTest, AbortDropsWhatWasNotRead) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->SendSchema(7, 1, Rows(0, 1).schema());
  feeder->SendBatch(7, 2, 0, Rows(0, 4));
  feeder->Send({.type = FrameType::kAbort, .session = 7, .seq = 3},
               EncodeError({absl::StatusCode::kCancelled, "killed"}));
  Open(feeder.get(), 8);
  feeder->SendSchema(8, 1, Rows(0, 1).schema());
  feeder->SendBatch(8, 2, 0, Rows(10, 1));
  EXPECT_THAT(Values(*feed_->NextBatch(1)), ElementsAre(10));
}

// -------------------------------------------------------------------------------------- Refusals

TEST_F(ReceiverTest, AWrongKeyIsRefused) {
  Start();
  RawFeeder feeder(receiver_->endpoints().tcp, "0123");
  EXPECT_FALSE(feeder.Connect());
  ExpectServes();
}

TEST_F(ReceiverTest, APrincipalMustLookLikeOne) {
  Start();
  for (const char* principal : {"feeder 1", "feeder/\n"}) {
    RawFeeder feeder(receiver_->endpoints().ipc, receiver_->endpoints().key, principal);
    EXPECT_FALSE(feeder.Connect()) << principal;
  }
  ExpectServes();
}

TEST_F(ReceiverTest, AnotherNonceAndAnUnknownQueueAreAnswered) {
  Start();
  auto feeder = Feeder();
  feeder->Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(feeder->Open("other")));
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kFailedPrecondition);
  OpenFrame open = feeder->Open(kNonce);
  open.queue = "inptu";
  feeder->Send({.type = FrameType::kOpen, .session = 8}, EncodeOpen(open));
  EXPECT_THAT(feeder->AwaitError(8).message, HasSubstr("there are: input"));
  EXPECT_EQ(receiver_->stats().refused_sessions, 2);
}

TEST_F(ReceiverTest, ASessionThatIsOpenAlreadyFails) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(feeder->Open(kNonce)));
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kAlreadyExists);
  ExpectServes();
}

TEST_F(ReceiverTest, AGapOrARepetitionInSeqIsDataLoss) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->SendSchema(7, 2, Rows(0, 1).schema());
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kDataLoss);
  Open(feeder.get(), 8);
  feeder->SendSchema(8, 1, Rows(0, 1).schema());
  feeder->SendBatch(8, 1, 0, Rows(0, 1));
  EXPECT_EQ(feeder->AwaitError(8).code, absl::StatusCode::kDataLoss);
  Open(feeder.get(), 9);  // the principal is as good as before
}

TEST_F(ReceiverTest, AGreaterVersionIsUnimplemented) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->Send({.type = FrameType::kSchema, .version = kFrameVersion + 1, .session = 7, .seq = 1},
               "any");
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kUnimplemented);
  feeder->Send({.type = FrameType::kOpen, .version = kFrameVersion + 1, .session = 8},
               EncodeOpen(feeder->Open(kNonce)));
  EXPECT_EQ(feeder->AwaitError(8).code, absl::StatusCode::kUnimplemented);
  feeder->Send({.type = FrameType::kOpen, .version = kFrameVersion + 1, .session = 9},
               "not JSON any more");
  Open(feeder.get(), 10);
  EXPECT_EQ(receiver_->stats().dropped_frames, 1);
}

TEST_F(ReceiverTest, AReplyEndpointThatCannotBeReachedIsNotAnswered) {
  Start();
  auto feeder = Feeder();
  OpenFrame open = feeder->Open(kNonce);
  open.reply.endpoint = "ipc://@millrace-nobody";
  feeder->Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(open));
  open = feeder->Open(kNonce);
  open.reply.endpoint = "tcp://192.0.2.1:9";  // not on this host
  feeder->Send({.type = FrameType::kOpen, .session = 8}, EncodeOpen(open));
  open.reply.endpoint = "no endpoint at all";
  feeder->Send({.type = FrameType::kOpen, .session = 9}, EncodeOpen(open));
  Open(feeder.get(), 10);
  EXPECT_FALSE(feeder->HasReply(7, absl::ZeroDuration()));
  EXPECT_FALSE(feeder->HasReply(8, absl::ZeroDuration()));
  EXPECT_EQ(receiver_->stats().queues[0].sessions_opened, 1);
}

TEST_F(ReceiverTest, AnAnswerToAnotherChallengeIsWorthNothing) {
  Start();
  auto feeder = Feeder();
  OpenFrame open = feeder->Open(kNonce);
  open.reply.challenge = "another";
  feeder->Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(open));
  Open(feeder.get(), 8);
  EXPECT_EQ(receiver_->stats().queues[0].sessions_opened, 1);
}

TEST_F(ReceiverTest, ALostDataConnectionEndsItsSessionsAndIsToldWhereItCanBe) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  feeder->SendSchema(7, 1, Rows(0, 1).schema());
  feeder->SendBatch(7, 2, 0, Rows(0, 4));
  feeder->SendBatch(7, 3, 4, Rows(4, 4));
  ASSERT_TRUE(feeder->Await(7, FrameType::kReceived).has_value());
  feeder->CloseData();
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(receiver_->stats().queues[0].open_sessions, 0);
  ExpectServes();  // and gets rows 0 and 1 of its own, not of the lost session
}

TEST_F(ReceiverTest, ADeadFeederLeavesNothingBehindButCompletePartitions) {
  Start();
  auto feeder = Feeder();
  Open(feeder.get(), 7);
  Open(feeder.get(), 8);
  for (uint64_t session : {7, 8}) {
    feeder->SendSchema(session, 1, Rows(0, 1).schema());
    feeder->SendBatch(session, 2, 0, Rows(static_cast<int64_t>(session) * 10, 2));
  }
  End(feeder.get(), 8, 3, 2);
  Open(feeder.get(), 9);  // when this is answered, everything before it is here
  feeder.reset();
  EXPECT_TRUE(Eventually([&] { return receiver_->stats().queues[0].open_sessions == 1; }));
  EXPECT_THAT(Values(*feed_->NextBatch(2)), ElementsAre(80, 81));
  ExpectServes();
}

// ----------------------------------------------------------------------------------- Hostile bytes

TEST_F(ReceiverTest, ABadFramePoisonsItsPrincipalAndNobodyElse) {
  Start();
  auto good = Feeder("feeder/good1");
  Open(good.get(), 7);
  auto bad = Feeder("feeder/bad");
  Open(bad.get(), 7);
  Open(bad.get(), 8);
  bad->SendParts({"XXXX"});
  EXPECT_EQ(bad->AwaitError(7).code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bad->AwaitError(8).message, HasSubstr("feeder/bad"));
  EXPECT_EQ(receiver_->stats().poisoned_principals, 1);

  bad->Send({.type = FrameType::kOpen, .session = 9}, EncodeOpen(bad->Open(kNonce)));
  RawFeeder again(receiver_->endpoints().ipc, receiver_->endpoints().key, "feeder/bad");
  EXPECT_FALSE(again.Connect()) << "its key is refused";
  good->SendSchema(7, 1, Rows(0, 1).schema());
  good->SendBatch(7, 2, 0, Rows(5, 1));
  EXPECT_THAT(Values(*feed_->NextBatch(1)), ElementsAre(5));
  EXPECT_EQ(receiver_->stats().dropped_frames, 1);
  EXPECT_FALSE(bad->HasReply(9, absl::ZeroDuration()));
}

TEST_F(ReceiverTest, FramesOutOfPlacePoison) {
  Start();
  const std::string schema = *EncodeSchema(Rows(0, 1).schema());
  int number = 0;
  auto expect_poison = [&](absl::string_view what, FrameType type, absl::string_view metadata) {
    SCOPED_TRACE(what);
    auto feeder = Feeder(absl::StrCat("feeder/", ++number));
    Open(feeder.get(), 7);
    feeder->SendSchema(7, 1, Rows(0, 1).schema());
    feeder->Send({.type = type, .session = 7, .seq = 2}, metadata);
    EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(receiver_->stats().poisoned_principals, number);
  };
  expect_poison("SCHEMA twice", FrameType::kSchema, schema);
  expect_poison("a frame of the node", FrameType::kCredit, EncodeCredit({}));
  expect_poison("an unknown type", static_cast<FrameType>(99), "x");
  expect_poison("no metadata", FrameType::kBatch, "");
  expect_poison("short metadata", FrameType::kEndPartition, "1234567");
  expect_poison("ABORT without JSON", FrameType::kAbort, "{");
  ExpectServes();
}

TEST_F(ReceiverTest, ASchemaOfOtherTypesEndsItsSessionOnly) {
  const char* path = std::getenv("FEED_FRAMES");
  ASSERT_NE(path, nullptr);
  const Json file = *ParseJson(*ReadFile(path));
  Start();
  auto feeder = Feeder();
  uint64_t session = 10;
  for (const Json& frame : file.at("malformed")) {
    if (frame.at("outcome") != "unsupported") continue;
    SCOPED_TRACE(frame.at("name").get<std::string>());
    Open(feeder.get(), ++session);
    feeder->Send({.type = FrameType::kSchema, .session = session, .seq = 1},
                 absl::HexStringToBytes(frame.at("parts")[1].get<std::string>()));
    // Sent before the answer came: dropped, whatever they are.
    feeder->SendBatch(session, 2, 0, Rows(0, 1));
    End(feeder.get(), session, 3, 1);
    const ErrorFrame error = feeder->AwaitError(session);
    EXPECT_EQ(error.code, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(error.message, testing::AnyOf(HasSubstr("column \"column\""), HasSubstr("\"a\"")));
  }
  EXPECT_GT(session, 20);
  Open(feeder.get(), 7);
  feeder->SendSchema(7, 1, Rows(0, 1).schema());
  feeder->SendBatch(7, 2, 0, Rows(5, 1));
  EXPECT_THAT(Values(*feed_->NextBatch(1)), ElementsAre(5));
  EXPECT_EQ(receiver_->stats().poisoned_principals, 0);
}

TEST_F(ReceiverTest, AMistakeInOpenIsAnsweredAndPoisonsNobody) {
  const char* path = std::getenv("FEED_FRAMES");
  ASSERT_NE(path, nullptr);
  const Json file = *ParseJson(*ReadFile(path));
  Start();
  auto feeder = Feeder();
  const std::string reply = DumpJson(ParseJson(EncodeOpen(feeder->Open(kNonce)))->at("reply"));
  uint64_t session = 10;
  for (const Json& frame : file.at("malformed")) {
    if (frame.at("outcome") != "refused") continue;
    SCOPED_TRACE(frame.at("name").get<std::string>());
    Json open = *ParseJson(absl::HexStringToBytes(frame.at("parts")[1].get<std::string>()));
    open["reply"] = *ParseJson(reply);
    feeder->Send({.type = FrameType::kOpen, .session = ++session}, DumpJson(open));
    const ErrorFrame error = feeder->AwaitError(session);
    EXPECT_EQ(error.code, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("OPEN metadata: "));
  }
  EXPECT_GT(session, 22);
  EXPECT_EQ(receiver_->stats().poisoned_principals, 0);
  Open(feeder.get(), 7);
}

TEST_F(ReceiverTest, FramesBeforeCreditPoison) {
  Start(/*train=*/false);  // training sessions wait
  auto feeder = Feeder();
  feeder->Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(feeder->Open(kNonce)));
  ASSERT_TRUE(feeder->Await(7, FrameType::kWait).has_value());
  End(feeder.get(), 7, 1, 0);
  EXPECT_EQ(feeder->AwaitError(7).code, absl::StatusCode::kInvalidArgument);
}

TEST_F(ReceiverTest, EveryMalformedGoldenFrameCostsItsSenderTheConnection) {
  const char* path = std::getenv("FEED_FRAMES");
  ASSERT_NE(path, nullptr);
  const Json file = *ParseJson(*ReadFile(path));
  std::map<std::string, std::string> schemas;  // metadata of SCHEMA frames
  for (const Json& frame : file.at("frames")) {
    const std::string name = frame.at("name");
    if (!absl::StartsWith(name, "schema_")) continue;
    schemas[name.substr(7)] = absl::HexStringToBytes(frame.at("parts")[1].get<std::string>());
  }
  Start();
  int bad = 0;
  for (const Json& frame : file.at("malformed")) {
    if (frame.at("receiver") != "node") continue;
    if (frame.at("outcome") == "refused") continue;  // AMistakeInOpenIsAnsweredAndPoisonsNobody
    std::vector<std::string> parts;
    for (const Json& part : frame.at("parts")) {
      parts.push_back(absl::HexStringToBytes(part.get<std::string>()));
    }
    SCOPED_TRACE(frame.at("name").get<std::string>());
    auto feeder = Feeder(absl::StrCat("feeder/", ++bad));
    uint64_t session = 1;
    if (parts[0].size() == kFrameHeaderSize) {
      session = 0;
      for (int i = 7; i >= 0; --i) session = session << 8 | static_cast<uint8_t>(parts[0][8 + i]);
      if (session == 0) session = 1;
    }
    Open(feeder.get(), session);
    const std::string schema = frame.value("schema", "");
    if (!schema.empty()) {
      feeder->Send({.type = FrameType::kSchema, .session = session, .seq = 1}, schemas.at(schema));
    }
    // The seq of a malformed frame means nothing: make it the one that is due.
    if (parts[0].size() == kFrameHeaderSize) parts[0][16] = schema.empty() ? 1 : 2;
    for (int i = 17; i < 24 && parts[0].size() == kFrameHeaderSize; ++i) parts[0][i] = 0;
    feeder->SendParts(parts);
    const absl::StatusCode code = feeder->AwaitError(session).code;
    if (frame.at("outcome") == "unimplemented") {
      EXPECT_EQ(code, absl::StatusCode::kUnimplemented);
      --bad;
    } else if (frame.at("outcome") == "unsupported") {
      EXPECT_EQ(code, absl::StatusCode::kInvalidArgument);
      --bad;
    } else {
      EXPECT_EQ(code, absl::StatusCode::kInvalidArgument);
    }
    ASSERT_EQ(receiver_->stats().poisoned_principals, bad);
  }
  EXPECT_GT(bad, 100);
  ExpectServes();
}

TEST(FeedReceiverOptionsTest, NonsenseIsInvalidArgument) {
  EXPECT_THAT(FeedReceiver::Start({.nonce = ""}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FeedReceiver::Start({.nonce = "a b"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FeedReceiver::Start({.nonce = "a", .queues = {}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FeedReceiver::Start({.nonce = "a", .queues = {"x", "x"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"x\"")));
  EXPECT_THAT(FeedReceiver::Start({.nonce = "a", .budget_bytes = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("budget")));
}

}  // namespace
}  // namespace millrace
