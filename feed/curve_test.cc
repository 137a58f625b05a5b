// CURVE between a feeder and a node, through real sockets: docs/feed_protocol.md, section 8.

#include "feed/wire/curve.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(40);

RecordBatch Rows(std::vector<int64_t> values) {
  return *BatchBuilder().AddColumn("id", std::move(values)).Build();
}

std::vector<int64_t> Values(const Batch& batch) {
  const auto column = batch.column<int64_t>("id");
  return {column.begin(), column.end()};
}

// A node that other hosts would reach at 127.0.0.1, and a feeder that speaks CURVE with it.
class CurveTest : public testing::Test {
 protected:
  void SetUp() override {
    receiver_ = StartNode();
    absl::StatusOr<std::unique_ptr<Feeder>> feeder =
        Feeder::Start({.open_timeout = absl::Seconds(10), .curve_only = true});
    ASSERT_THAT(feeder, IsOk());
    feeder_ = *std::move(feeder);
  }
  std::unique_ptr<FeedReceiver> StartNode() {
    absl::StatusOr<std::unique_ptr<FeedReceiver>> receiver = FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = "5b0c9e1f22d3a4b6", .advertise_host = "127.0.0.1"});
    EXPECT_THAT(receiver, IsOk());
    return *std::move(receiver);
  }
  absl::Status Announce() {
    return receiver_->AnnounceFeeder(feeder_->principal(), feeder_->curve_key());
  }
  FeedTarget Target() const {
    const FeedEndpoints& endpoints = receiver_->endpoints();
    return {.node = "worker:0",
            .nonce = "5b0c9e1f22d3a4b6",
            .ipc_endpoint = endpoints.ipc,
            .tcp_endpoint = endpoints.tcp,
            .curve_endpoint = endpoints.curve,
            .key = endpoints.key,
            .curve_key = endpoints.curve_key};
  }
  std::shared_ptr<FeedSession> Open(const FeedTarget& target, FeedMode mode = FeedMode::kTrain) {
    absl::StatusOr<std::shared_ptr<FeedSession>> session =
        feeder_->OpenSession(target, {.feed_id = "f1", .mode = mode, .feed_timeout = kPatience});
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }
  // One partition of two rows, from the feeder into the program.
  void ExpectFeeds(const FeedTarget& target) {
    auto feed = *receiver_->GetDataFeed();
    auto session = Open(target);
    ASSERT_THAT(session->Send(Rows({7, 8})), IsOk());
    ASSERT_THAT(session->Finish(2), IsOk());
    absl::StatusOr<Batch> batch = feed->NextBatch(2);
    ASSERT_THAT(batch, IsOk());
    EXPECT_THAT(Values(*batch), ElementsAre(7, 8));
    ASSERT_THAT(session->WaitReceived(), IsOk());
    receiver_->FeedEnd("f1", /*aborted=*/false);
    session->Abort(absl::CancelledError("the test goes on"));
  }
  static SessionState AwaitEnd(const FeedSession& session) {
    EXPECT_TRUE(Eventually([&] { return session.state().end != SessionEnd::kOpen; }, kPatience));
    return session.state();
  }
  // How a handshake with `options` at `endpoint` ends; kAccepted if it does not.
  static ZmqEvent::Kind Handshake(const ZmqContext& context, const std::string& endpoint,
                                  const SocketOptions& options, ZmqSocket* push) {
    *push = *ZmqSocket::Create(context, SocketType::kPush, options);
    EXPECT_THAT(push->StartMonitor(), IsOk());
    EXPECT_THAT(push->Connect(endpoint), IsOk());
    Poller poller;
    poller.Add(*push);
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      EXPECT_THAT(poller.Wait(absl::Seconds(1)), IsOk());
      while (std::optional<ZmqEvent> event = *push->NextEvent()) {
        if (event->kind != ZmqEvent::Kind::kConnected) return event->kind;
      }
    }
    return ZmqEvent::Kind::kAccepted;
  }

  std::unique_ptr<FeedReceiver> receiver_;
  std::unique_ptr<Feeder> feeder_;
};

TEST(CurveKeyTest, OnlyFortyCharactersOfZ85AreAKey) {
  const CurveKeys keys = *MakeCurveKeys();
  EXPECT_EQ(keys.public_key.size(), 40u);
  EXPECT_NE(keys.public_key, keys.secret_key);
  EXPECT_EQ(DecodeCurveKey(keys.public_key)->size(), 32u);
  EXPECT_NE(*DecodeCurveKey(keys.public_key), *DecodeCurveKey(MakeCurveKeys()->public_key));
  for (const std::string& text :
       {std::string(), std::string(39, 'a'), std::string(41, 'a'), std::string(40, '\0'),
        std::string(40, '"'), std::string(40, '\xff'), std::string(40, ' ')}) {
    EXPECT_EQ(DecodeCurveKey(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CurveAddressTest, AnAddressOfThisHostIsBoundAndOthersMeanEveryInterface) {
  EXPECT_EQ(BindHostFor("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(BindHostFor("192.0.2.1"), "0.0.0.0");
  EXPECT_EQ(BindHostFor("2001:db8::1"), "::");
  EXPECT_EQ(BindHostFor("node-1.example"), "0.0.0.0");
  EXPECT_EQ(TcpEndpoint("10.0.0.7", 80), "tcp://10.0.0.7:80");
  EXPECT_EQ(TcpEndpoint("::1", 80), "tcp://[::1]:80");
  EXPECT_FALSE(LocalAddressOf(-1).ok());
  EXPECT_FALSE(LocalAddressOf(0).ok());
}

TEST_F(CurveTest, TrainsAndInfers) {
  ASSERT_THAT(Announce(), IsOk());
  EXPECT_THAT(receiver_->endpoints().curve, StartsWith("tcp://127.0.0.1:"));
  ExpectFeeds(Target());
  receiver_->EndFeed("input");

  auto feed = *receiver_->GetDataFeed({.train_mode = false});
  auto session = Open(Target(), FeedMode::kInference);
  ASSERT_THAT(session->Send(Rows({1, 2, 3})), IsOk());
  ASSERT_THAT(session->Finish(3), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(3)), ElementsAre(1, 2, 3));
  ASSERT_THAT(feed->BatchResults(Rows({10, 20, 30})), IsOk());
  absl::StatusOr<std::optional<RecordBatch>> result = session->NextResult();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ((*result)->num_rows(), 3);
}

TEST_F(CurveTest, AKeyThatIsAnnouncedLateIsWaitedFor) {
  auto feed = *receiver_->GetDataFeed();
  auto session = Open(Target());
  ASSERT_TRUE(Eventually([&] { return feeder_->stats().refused_handshakes >= 2; }, kPatience));
  EXPECT_EQ(session->state().end, SessionEnd::kOpen);
  ASSERT_THAT(Announce(), IsOk());
  ASSERT_THAT(session->Send(Rows({1})), IsOk());
}

TEST_F(CurveTest, AnUnknownKeyIsRefused) {
  feeder_ = *Feeder::Start({.open_timeout = absl::Seconds(1), .curve_only = true});
  ASSERT_THAT(receiver_->AnnounceFeeder("feeder/other", MakeCurveKeys()->public_key), IsOk());
  auto session = Open(Target());
  const SessionState state = AwaitEnd(*session);
  EXPECT_EQ(state.end, SessionEnd::kRefused);
  EXPECT_EQ(state.status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(state.status.message(), HasSubstr("has not announced its CURVE key"));
}

TEST_F(CurveTest, ANodeWithAnotherKeyThanTheLookupsIsNotSpokenTo) {
  ASSERT_THAT(Announce(), IsOk());
  FeedTarget target = Target();
  target.curve_key = MakeCurveKeys()->public_key;
  EXPECT_EQ(AwaitEnd(*Open(target)).end, SessionEnd::kBroken);
  target.curve_key = "no key";
  EXPECT_EQ(feeder_->OpenSession(target, {.feed_id = "f1"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  ExpectFeeds(Target());
}

TEST_F(CurveTest, ANodeOfAnotherHostIsReachedThoughItsLocalNamesLeadNowhere) {
  feeder_ = *Feeder::Start({});
  ASSERT_THAT(Announce(), IsOk());
  FeedTarget target = Target();
  target.ipc_endpoint = "ipc://@millrace-of-another-host";
  target.tcp_endpoint = "tcp://127.0.0.1:1";
  target.key = "none";
  ExpectFeeds(target);
}

TEST_F(CurveTest, ARestartedNodeIsReachedUnderItsNewKey) {
  ASSERT_THAT(Announce(), IsOk());
  auto feed = *receiver_->GetDataFeed();
  auto session = Open(Target());
  ASSERT_THAT(session->Send(Rows({1})), IsOk());
  feed.reset();
  const std::string old_key = receiver_->endpoints().curve_key;
  receiver_.reset();
  EXPECT_NE(AwaitEnd(*session).end, SessionEnd::kOpen);
  receiver_ = StartNode();
  EXPECT_NE(receiver_->endpoints().curve_key, old_key);
  ASSERT_THAT(Announce(), IsOk());
  ExpectFeeds(Target());
}

TEST_F(CurveTest, APrincipalHasOneKeyAndAKeyOnePrincipal) {
  ASSERT_THAT(Announce(), IsOk());
  ASSERT_THAT(Announce(), IsOk());
  EXPECT_EQ(receiver_->AnnounceFeeder(feeder_->principal(), MakeCurveKeys()->public_key).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(receiver_->AnnounceFeeder("feeder/thief", feeder_->curve_key()).code(),
            absl::StatusCode::kAlreadyExists);
  const std::string key = MakeCurveKeys()->public_key;
  for (const char* principal : {"", "node/1", "feeder/\n", "anybody"}) {
    EXPECT_EQ(receiver_->AnnounceFeeder(principal, key).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(receiver_->AnnounceFeeder("feeder/x", "short").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CurveTest, APoisonedKeyIsRefusedWhenItComesBack) {
  ASSERT_THAT(Announce(), IsOk());
  const CurveKeys keys = *MakeCurveKeys();
  ASSERT_THAT(receiver_->AnnounceFeeder("feeder/bad", keys.public_key), IsOk());
  const ZmqContext context = *ZmqContext::Create();
  const SocketOptions options = SocketOptions::Curve(keys, receiver_->endpoints().curve_key);
  ZmqSocket push;
  ASSERT_EQ(Handshake(context, receiver_->endpoints().curve, options, &push),
            ZmqEvent::Kind::kHandshakeSucceeded);
  std::vector<ZmqMessage> garbage;
  garbage.push_back(ZmqMessage::Copy("no header"));
  ASSERT_THAT(push.Send(std::move(garbage)), IsOk());
  EXPECT_TRUE(Eventually([&] { return receiver_->stats().poisoned_principals > 0; }, kPatience));
  ZmqSocket again;
  EXPECT_EQ(Handshake(context, receiver_->endpoints().curve, options, &again),
            ZmqEvent::Kind::kHandshakeFailedAuth);
  ExpectFeeds(Target());
}

TEST_F(CurveTest, APasswordIsOfNoUseAtTheEndpointForOtherHosts) {
  const ZmqContext context = *ZmqContext::Create();
  ZmqSocket push;
  EXPECT_NE(Handshake(context, receiver_->endpoints().curve,
                      SocketOptions::Plain(
                          "feeder/x", FeederPassword(receiver_->endpoints().key, "feeder/x", 1)),
                      &push),
            ZmqEvent::Kind::kHandshakeSucceeded);
}

// From afar a session cannot make a node connect to its own host, or send in the clear.
TEST_F(CurveTest, RepliesOfASessionThatCameEncryptedAreEncrypted) {
  const CurveKeys keys = *MakeCurveKeys();
  ASSERT_THAT(receiver_->AnnounceFeeder("feeder/far", keys.public_key), IsOk());
  const ZmqContext context = *ZmqContext::Create();
  ZmqSocket push;
  ASSERT_EQ(Handshake(context, receiver_->endpoints().curve,
                      SocketOptions::Curve(keys, receiver_->endpoints().curve_key), &push),
            ZmqEvent::Kind::kHandshakeSucceeded);
  const std::string open =
      EncodeOpen({.feed_id = "f1",
                  .queue = "input",
                  .node_nonce = "5b0c9e1f22d3a4b6",
                  .reply = {.endpoint = "tcp://127.0.0.1:1", .challenge = "c"}});
  FrameHeader header{.type = FrameType::kOpen, .session = 1};
  header.metadata_length = static_cast<uint32_t>(open.size());
  std::vector<ZmqMessage> parts;
  parts.push_back(ZmqMessage::Copy(EncodeHeader(header)));
  parts.push_back(ZmqMessage::Copy(open));
  ASSERT_THAT(push.Send(std::move(parts)), IsOk());
  EXPECT_TRUE(Eventually([&] { return receiver_->stats().dropped_frames > 0; }, kPatience));
  EXPECT_EQ(receiver_->stats().dropped_frames, 1);
}

TEST_F(CurveTest, AFeederAdmitsTheNodesOfItsLookupsAloneAndSaysWhomItDidNot) {
  feeder_ = *Feeder::Start({.open_timeout = absl::Seconds(1), .curve_only = true});
  // A node that says nothing but shows where it is to answer.
  const ZmqContext context = *ZmqContext::Create();
  ZapServer zap = *ZapServer::Create(
      context, [](const ZapRequest&) { return std::optional<std::string>("feeder/any"); });
  const CurveKeys keys = *MakeCurveKeys();
  ZmqSocket pull = *ZmqSocket::Create(context, SocketType::kPull, SocketOptions::CurveServer(keys));
  const int port = *BindTcp(&pull, "127.0.0.1", {});
  FeedTarget target = Target();
  target.curve_endpoint = TcpEndpoint("127.0.0.1", port);
  target.curve_key = keys.public_key;
  auto session = Open(target);
  Poller poller;
  poller.Add(pull);
  poller.Add(zap.socket());
  std::optional<std::vector<ZmqMessage>> message;
  const absl::Time deadline = absl::Now() + kPatience;
  while (!message.has_value() && absl::Now() < deadline) {
    ASSERT_THAT(poller.Wait(absl::Seconds(1)), IsOk());
    ASSERT_THAT(zap.Poll(), IsOk());
    message = *pull.Receive();
  }
  ASSERT_TRUE(message.has_value());
  const OpenFrame open = *DecodeOpen((*message)[1].view());
  EXPECT_EQ(open.reply.curve_key, feeder_->curve_key());
  EXPECT_EQ(open.reply.challenge, "");
  ZmqSocket stranger;
  EXPECT_EQ(Handshake(context, open.reply.endpoint,
                      SocketOptions::Curve(*MakeCurveKeys(), open.reply.curve_key), &stranger),
            ZmqEvent::Kind::kHandshakeFailedAuth);
  ZmqSocket node;
  EXPECT_EQ(Handshake(context, open.reply.endpoint,
                      SocketOptions::Curve(keys, open.reply.curve_key), &node),
            ZmqEvent::Kind::kHandshakeSucceeded);
  EXPECT_THAT(session->Send(Rows({1})),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("no answer to OPEN within 1s"),
                             HasSubstr("with the CURVE key of no node that is fed from 127.0.0.1"),
                             HasSubstr("which may have been the node's"))));
}

TEST_F(CurveTest, CurveOnlyNeedsACurveEndpoint) {
  FeedTarget target = Target();
  target.curve_endpoint.clear();
  EXPECT_THAT(feeder_->OpenSession(target, {.feed_id = "f1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("curve_only")));
}

}  // namespace
}  // namespace millrace
