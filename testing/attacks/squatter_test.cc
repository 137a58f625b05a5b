// A process of another user at the address of a node: the C++ feeder against it.

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/local_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "testing/attacks/other_user.h"
#include "testing/child_process.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr int64_t kRows = 100;
constexpr absl::Duration kPatience = absl::Seconds(60);

class SquatterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto other = OtherUser::Create();
    if (absl::IsUnavailable(other.status())) GTEST_SKIP() << other.status().message();
    ASSERT_THAT(other, IsOk());
    other_.emplace(*std::move(other));
    auto node = FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
    ASSERT_THAT(node, IsOk());
    node_ = *std::move(node);
    auto program = node_->GetDataFeed();
    ASSERT_THAT(program, IsOk());
    program_ = *std::move(program);
    auto feeder = Feeder::Start({});
    ASSERT_THAT(feeder, IsOk());
    feeder_ = *std::move(feeder);
    ASSERT_THAT(node_->AnnounceFeeder(feeder_->principal(), feeder_->curve_key()), IsOk());
  }

  FeedTarget Target() const {
    const FeedEndpoints& endpoints = node_->endpoints();
    return {.node = "worker:0",
            .nonce = kNonce,
            .ipc_endpoint = endpoints.ipc,
            .tcp_endpoint = endpoints.tcp,
            .curve_endpoint = endpoints.curve,
            .key = endpoints.key,
            .curve_key = endpoints.curve_key};
  }

  void Squat(const std::string& endpoint) {
    auto squatter = other_->Start("testing/attacks/squatter", {endpoint});
    ASSERT_THAT(squatter, IsOk());
    squatter_ = *std::move(squatter);
    ASSERT_THAT(squatter_->WaitForLine("ready", kPatience), IsOk());
  }

  // Everything that the squatter got.
  std::vector<std::string> Loot() {
    squatter_->Kill(SIGTERM);
    std::vector<std::string> loot;
    while (true) {
      const auto line = squatter_->WaitForLine("", kPatience);
      if (!line.ok()) return loot;
      loot.push_back(*line);
    }
  }

  absl::Status Feed(const FeedTarget& target) {
    auto session = feeder_->OpenSession(target, {.feed_id = "f1", .feed_timeout = kPatience});
    if (!session.ok()) return session.status();
    absl::Status status = (*session)->Send(LedgerRows(0, 0, 0, kRows));
    if (status.ok()) status = (*session)->Finish(kRows);
    if (status.ok()) status = (*session)->WaitReceived();
    return status;
  }

  // The rows that the node's program has read.
  int64_t ReadNode() {
    const auto batch = program_->NextBatch(kRows);
    return batch.ok() ? batch->num_rows() : 0;
  }

  std::optional<OtherUser> other_;
  std::unique_ptr<FeedReceiver> node_;
  std::unique_ptr<DataFeed> program_;  // that reads the node
  std::unique_ptr<Feeder> feeder_;
  std::unique_ptr<ChildProcess> squatter_;
};

TEST_F(SquatterTest, ANameOfAnotherHostIsNotAskedHere) {
  FeedTarget target = Target();
  char& digit = target.ipc_endpoint[std::string("ipc://@millrace-").size()];
  digit = digit == '0' ? '1' : '0';
  ASSERT_EQ(WhereLocalName(target.ipc_endpoint), LocalNamePlace::kElsewhere);
  Squat(target.ipc_endpoint);
  EXPECT_THAT(Feed(target), IsOk());
  EXPECT_EQ(ReadNode(), kRows);
  EXPECT_THAT(Loot(), IsEmpty());
}

TEST_F(SquatterTest, TheNameOfAKilledNodeGetsNoRowAndNoSecret) {
  const FeedTarget target = Target();
  ASSERT_THAT(Feed(target), IsOk());
  node_.reset();
  Squat(target.ipc_endpoint);
  EXPECT_THAT(Feed(target), StatusIs(absl::StatusCode::kUnauthenticated,
                                     AllOf(HasSubstr(target.ipc_endpoint), HasSubstr("no row"))));
  const std::vector<std::string> loot = Loot();
  EXPECT_THAT(loot, Not(IsEmpty()));
  EXPECT_THAT(loot, Each(Not(StartsWith("rows"))));
  EXPECT_THAT(loot, Each(Not(HasSubstr(target.key))));
}

TEST_F(SquatterTest, ANodeIsFedByAnotherWayWhereItsNameIsTaken) {
  FeedTarget target = Target();
  target.ipc_endpoint = MakeLocalName();
  Squat(target.ipc_endpoint);
  EXPECT_THAT(Feed(target), IsOk());
  EXPECT_EQ(ReadNode(), kRows);
  EXPECT_THAT(Loot(), Each(Not(StartsWith("rows"))));
}

TEST_F(SquatterTest, ALoopbackPortOfAKilledNodeGetsNoRow) {
  FeedTarget target = Target();
  target.ipc_endpoint.clear();
  target.curve_endpoint.clear();
  node_.reset();
  Squat(target.tcp_endpoint);
  EXPECT_THAT(Feed(target), StatusIs(absl::StatusCode::kUnauthenticated,
                                     AllOf(HasSubstr(target.tcp_endpoint), HasSubstr("no row"))));
  EXPECT_EQ(feeder_->stats().results_received, 0);
  EXPECT_EQ(feeder_->stats().batches_sent, 0);
  EXPECT_THAT(Loot(), Each(Not(StartsWith("rows"))));
}

}  // namespace
}  // namespace millrace
