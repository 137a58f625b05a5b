// The transcript of one partition in docs/feed_protocol.md, section 6: the frames that a real
// feeder sends, and those that a real node answers with.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/receiver/raw_feeder.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";  // as the page has it
constexpr uint64_t kSession = 7;

RecordBatch TwoRows() {
  return *BatchBuilder().AddColumn("id", std::vector<int64_t>{0, 1}).Build();
}

// The page's lines that begin with one of these.
std::vector<std::string> OfThePage(const std::vector<std::string>& who) {
  const absl::StatusOr<std::string> page = ReadFile("docs/feed_protocol.md", 1 << 20);
  EXPECT_THAT(page, IsOk());
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(page.value_or(""), '\n')) {
    for (const std::string& begin : who) {
      if (absl::StartsWith(line, begin)) lines.emplace_back(line);
    }
  }
  EXPECT_THAT(lines, Not(IsEmpty()));
  return lines;
}

std::string OpenLine(uint64_t seq, const OpenFrame& open) {
  return absl::StrCat("f> OPEN seq ", seq, ", feed_id ", open.feed_id, ", partition ",
                      open.partition, ", first_row ", open.first_row, ", node_nonce ",
                      open.node_nonce);
}
std::string SchemaLine(uint64_t seq) { return absl::StrCat("f> SCHEMA seq ", seq); }
std::string BatchLine(uint64_t seq, int64_t first_row, int64_t rows) {
  return absl::StrCat("f> BATCH seq ", seq, ", first_row ", first_row, ", rows ", rows);
}
std::string EndLine(uint64_t seq, int64_t end_row) {
  return absl::StrCat("f> END_PARTITION seq ", seq, ", end_row ", end_row);
}

TEST(TranscriptTest, AFeederSendsWhatThePageSays) {
  std::atomic<int64_t> end_row{0};
  const FakeFeedNode::Script read_all = FakeFeedNode::ReadAll();
  FakeFeedNode node(
      "worker:0",
      [&](FakeFeedNode::Session& session, FrameType type) {
        end_row = session.end_row.value_or(0);
        read_all(session, type);
      },
      kNonce);
  const auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  const auto session = (*feeder)->OpenSession(node.target(), {.feed_id = "f1"});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(TwoRows()), IsOk());
  ASSERT_THAT((*session)->Finish(2), IsOk());
  ASSERT_THAT((*session)->WaitDone(), IsOk());
  std::vector<std::string> lines;
  for (const FakeFeedNode::Event& event : node.events()) {
    if (event.type == FrameType::kOpen) lines.push_back(OpenLine(event.seq, event.open));
    if (event.type == FrameType::kSchema) lines.push_back(SchemaLine(event.seq));
    if (event.type == FrameType::kBatch) {
      lines.push_back(BatchLine(event.seq, event.first_row, event.rows));
    }
    if (event.type == FrameType::kEndPartition) lines.push_back(EndLine(event.seq, end_row));
  }
  EXPECT_EQ(lines.size(), node.events().size()) << "a frame that the page does not have";
  EXPECT_THAT(lines, ElementsAreArray(OfThePage({"f> "})));
}

std::string ReplyLine(RawFeeder* feeder) {
  const std::optional<RawFeeder::Reply> reply = feeder->Await(kSession);
  if (!reply.has_value()) return "nothing";
  const std::string begin =
      absl::StrCat("n> ", FrameTypeName(reply->header.type), " seq ", reply->header.seq);
  switch (reply->header.type) {
    case FrameType::kCredit: {
      const CreditFrame credit = *DecodeCredit(reply->metadata);
      return absl::StrCat(begin, ", limit ", credit.limit, ", released ", credit.released);
    }
    case FrameType::kReceived:
    case FrameType::kAck:
      return absl::StrCat(begin, ", row ", DecodeRow(reply->metadata)->row);
    case FrameType::kDone: {
      const DoneFrame done = *DecodeDone(reply->metadata);
      return absl::StrCat(begin, ", rows_in ", done.rows_in, ", rows_out ", done.rows_out);
    }
    default:
      return begin;
  }
}

TEST(TranscriptTest, ANodeAnswersAsThePageSays) {
  const auto node = FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce});
  ASSERT_THAT(node, IsOk());
  const auto feed = (*node)->GetDataFeed({.train_mode = true});
  ASSERT_THAT(feed, IsOk());
  RawFeeder feeder((*node)->endpoints().ipc, (*node)->endpoints().key);
  ASSERT_TRUE(feeder.Connect());
  const OpenFrame open = feeder.Open(kNonce);
  feeder.Send({.type = FrameType::kOpen, .session = kSession, .seq = 0}, EncodeOpen(open));
  std::vector<std::string> lines = {OpenLine(0, open), ReplyLine(&feeder)};
  feeder.SendSchema(kSession, 1, TwoRows().schema());
  feeder.SendBatch(kSession, 2, 0, TwoRows());
  feeder.Send({.type = FrameType::kEndPartition, .session = kSession, .seq = 3},
              EncodeEndPartition({.end_row = 2}));
  lines.insert(lines.end(), {SchemaLine(1), BatchLine(2, 0, 2), EndLine(3, 2)});
  lines.push_back(ReplyLine(&feeder));
  (*node)->FeedEnd("f1", /*aborted=*/false);
  EXPECT_THAT((*feed)->NextBatch(2), IsOk());
  ASSERT_THAT((*node)->Finish(absl::OkStatus()), IsOk());  // an exit with 0 uses what was read
  lines.push_back(ReplyLine(&feeder));
  lines.push_back(ReplyLine(&feeder));
  EXPECT_THAT(lines, ElementsAreArray(OfThePage({"f> ", "n> "})));
}

}  // namespace
}  // namespace millrace
