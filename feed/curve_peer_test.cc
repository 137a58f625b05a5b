// CURVE with the reference peer, which was written from docs/feed_protocol.md alone, on either
// side: section 8.

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/process/process.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/curve.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(90);
constexpr char kNonce[] = "5b0c9e1f22d3a4b6";

// The next event of that name; an error at the end of the program.
absl::StatusOr<Json> WaitForEvent(ChildProcess& process, absl::string_view name) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string line,
      process.WaitForLine(absl::StrCat("{\"event\": \"", name, "\""), kPatience));
  return ParseJson(line);
}

// ------------------------------------------------------------------- its feeder, the SDK's node

class CurveReceiverPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto receiver = FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
    ASSERT_THAT(receiver, IsOk());
    receiver_ = *std::move(receiver);
  }

  void Feed(const std::string& mode, const std::string& curve_key) {
    auto feeder = ChildProcess::Start(
        {EnvOr("REFERENCE_FEEDER", ""), "--curve", receiver_->endpoints().curve,
         absl::StrCat("--curve-key=", curve_key), "--nonce", kNonce, "--feed-id", "f1", "--mode",
         mode, "--rows", "1000", "--columns", "id:int64", "--check-results",
         mode == "inference" ? "echo" : "none", "--deadline", "60"});
    ASSERT_THAT(feeder, IsOk());
    feeder_ = *std::move(feeder);
    const auto start = WaitForEvent(*feeder_, "start");
    ASSERT_THAT(start, IsOk());
    start_ = *start;
  }

  absl::Status Announce() {
    return receiver_->AnnounceFeeder(start_["principal"].get<std::string>(),
                                     start_["curve_key"].get<std::string>());
  }

  void ExpectEnd(const std::string& kind, const std::string& code) {
    const auto end = WaitForEvent(*feeder_, "end");
    ASSERT_THAT(end, IsOk());
    EXPECT_EQ((*end)["kind"], kind) << *end;
    EXPECT_EQ((*end)["code"], code) << *end;
    EXPECT_THAT(feeder_->Wait(kPatience), IsOk());
  }

  std::unique_ptr<FeedReceiver> receiver_;
  std::unique_ptr<ChildProcess> feeder_;
  Json start_;
};

TEST_F(CurveReceiverPeerTest, AnAnnouncedFeederFeedsAndHasItsResults) {
  ASSERT_NO_FATAL_FAILURE(Feed("inference", receiver_->endpoints().curve_key));
  ASSERT_THAT(Announce(), IsOk());
  auto feed = receiver_->GetDataFeed({.train_mode = false});
  ASSERT_THAT(feed, IsOk());
  for (int64_t rows = 0; rows < 1000;) {
    auto batch = (*feed)->NextBatch(64);
    ASSERT_THAT(batch, IsOk());
    if (batch->empty()) continue;
    rows += batch->num_rows();
    ASSERT_THAT((*feed)->BatchResults(batch->record_batch()), IsOk());
  }
  ExpectEnd("done", "OK");
}

TEST_F(CurveReceiverPeerTest, AFeederThatNobodyAnnouncedIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Feed("train", receiver_->endpoints().curve_key));
  ExpectEnd("refused", "UNAUTHENTICATED");
  EXPECT_EQ(receiver_->stats().queues[0].sessions_opened, 0);
}

// Whoever listens at the node's address without its secret key hears nothing.
TEST_F(CurveReceiverPeerTest, AFeederThatExpectsAnotherNodeGetsNoWord) {
  const auto other = MakeCurveKeys();
  ASSERT_THAT(other, IsOk());
  ASSERT_NO_FATAL_FAILURE(Feed("train", other->public_key));
  ASSERT_THAT(Announce(), IsOk());
  const auto end = WaitForEvent(*feeder_, "end");
  ASSERT_THAT(end, IsOk());
  EXPECT_NE((*end)["kind"], "done") << *end;
  EXPECT_THAT(feeder_->Wait(kPatience), IsOk());
  EXPECT_EQ(receiver_->stats().queues[0].sessions_opened, 0);
}

// ------------------------------------------------------------------- the SDK's feeder, its node

class CurveFeederPeerTest : public testing::Test {
 protected:
  void Start(bool announced) {
    auto feeder = Feeder::Start({.curve_only = true});
    ASSERT_THAT(feeder, IsOk());
    feeder_ = *std::move(feeder);
    std::vector<std::string> argv = {EnvOr("REFERENCE_NODE", ""), "--nonce", kNonce, "--curve-host",
                                     "127.0.0.1"};
    if (announced) {
      argv.push_back("--announce");
      argv.push_back(absl::StrCat(feeder_->principal(), "=", feeder_->curve_key()));
    }
    auto node = ChildProcess::Start(argv);
    ASSERT_THAT(node, IsOk());
    node_ = *std::move(node);
    const auto ready = WaitForEvent(*node_, "ready");
    ASSERT_THAT(ready, IsOk());
    target_ = {.node = "worker:0",
               .nonce = kNonce,
               .ipc_endpoint = (*ready)["ipc"].get<std::string>(),
               .tcp_endpoint = (*ready)["tcp"].get<std::string>(),
               .curve_endpoint = (*ready)["curve"].get<std::string>(),
               .key = (*ready)["key"].get<std::string>(),
               .curve_key = (*ready)["curve_key"].get<std::string>()};
  }

  std::shared_ptr<FeedSession> Open(FeedMode mode = FeedMode::kTrain) {
    auto session =
        feeder_->OpenSession(target_, {.feed_id = "f1",
                                       .queue = mode == FeedMode::kTrain ? "input" : "predict",
                                       .mode = mode,
                                       .feed_timeout = kPatience});
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }

  static RecordBatch Rows() {
    return *BatchBuilder().AddColumn("id", std::vector<int64_t>{7, 8, 9}).Build();
  }

  void TearDown() override {
    if (node_ == nullptr) return;
    node_->Kill(SIGTERM);
    EXPECT_THAT(node_->Wait(kPatience), IsOk());
  }

  std::unique_ptr<Feeder> feeder_;
  std::unique_ptr<ChildProcess> node_;
  FeedTarget target_;
};

TEST_F(CurveFeederPeerTest, ANodeThatKnowsTheFeederTakesItsRows) {
  ASSERT_NO_FATAL_FAILURE(Start(/*announced=*/true));
  auto session = Open();
  ASSERT_THAT(session->Send(Rows()), IsOk());
  ASSERT_THAT(session->Finish(3), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
  const auto took = WaitForEvent(*node_, "took");
  ASSERT_THAT(took, IsOk());
  EXPECT_EQ((*took)["principal"], feeder_->principal());
  EXPECT_EQ((*took)["rows"], 3);
}

TEST_F(CurveFeederPeerTest, ResultsComeBackOverCurve) {
  ASSERT_NO_FATAL_FAILURE(Start(/*announced=*/true));
  auto session = Open(FeedMode::kInference);
  ASSERT_THAT(session->Send(Rows()), IsOk());
  ASSERT_THAT(session->Finish(3), IsOk());
  const auto results = session->NextResult();
  ASSERT_THAT(results, IsOk());
  ASSERT_TRUE(results->has_value());
  EXPECT_TRUE((*results)->Equals(Rows()));
  EXPECT_THAT(session->WaitDone(), IsOk());
}

TEST_F(CurveFeederPeerTest, ANodeThatDoesNotKnowTheFeederRefusesIt) {
  ASSERT_NO_FATAL_FAILURE(Start(/*announced=*/false));
  auto session = Open();
  EXPECT_THAT(session->Send(Rows()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("worker:0")));
}

// Its answers come from a key that the lookup did not give: they are not let in.
TEST_F(CurveFeederPeerTest, ANodeWithAnotherKeyThanTheLookupSaidIsNotHeard) {
  ASSERT_NO_FATAL_FAILURE(Start(/*announced=*/true));
  const auto other = MakeCurveKeys();
  ASSERT_THAT(other, IsOk());
  target_.curve_key = other->public_key;
  auto session = Open();
  const absl::Status sent = session->Send(Rows());
  EXPECT_FALSE(sent.ok());
  EXPECT_THAT(std::string(sent.message()), HasSubstr("worker:0"));
}

}  // namespace
}  // namespace millrace
