#include "feed/wire/frame.h"

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "feed/ipc/ipc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// One entry of testing/golden/feed_frames.json.
struct Golden {
  std::string name;
  std::string receiver;
  std::string outcome;  // malformed frames only
  std::string schema;   // of BATCH and RESULT
  Json header;
  Json message;
  std::vector<std::string> parts;
};

std::vector<Golden> LoadGolden(const std::string& member) {
  const char* path = std::getenv("FEED_FRAMES");
  if (path == nullptr) return {};
  const Json file = *ParseJson(*ReadFile(path));
  std::vector<Golden> frames;
  for (const Json& entry : file.at(member)) {
    Golden golden{.name = entry.at("name"),
                  .receiver = entry.at("receiver"),
                  .outcome = entry.value("outcome", ""),
                  .schema = entry.value("schema", ""),
                  .header = entry.value("header", Json()),
                  .message = entry.value("message", Json())};
    for (const Json& part : entry.at("parts")) {
      golden.parts.push_back(absl::HexStringToBytes(part.get<std::string>()));
    }
    frames.push_back(std::move(golden));
  }
  return frames;
}

absl::string_view Metadata(const Golden& golden) {
  return golden.parts.size() > 1 ? absl::string_view(golden.parts[1]) : absl::string_view();
}

std::vector<BodyPart> Body(const Golden& golden) {
  std::vector<BodyPart> body;
  for (size_t i = 2; i < golden.parts.size(); ++i) {
    auto owner = std::make_shared<std::string>(golden.parts[i]);
    body.push_back({reinterpret_cast<const uint8_t*>(owner->data()), owner->size(), owner});
  }
  return body;
}

const std::map<std::string, Schema>& Schemas() {
  static const auto* schemas = [] {
    auto* map = new std::map<std::string, Schema>;
    for (const Golden& golden : LoadGolden("frames")) {
      if (golden.name.rfind("schema_", 0) != 0) continue;
      absl::StatusOr<Schema> schema = DecodeSchema(Metadata(golden));
      if (schema.ok()) map->emplace(golden.name.substr(7), *schema);
    }
    return map;
  }();
  return *schemas;
}

// Decodes the metadata as its type wants it and encodes it again.
absl::StatusOr<std::string> Recode(const FrameHeader& header, absl::string_view metadata) {
  switch (header.type) {
    case FrameType::kOpen: {
      MILLRACE_ASSIGN_OR_RETURN(OpenFrame frame, DecodeOpen(metadata));
      return EncodeOpen(frame);
    }
    case FrameType::kBatch:
    case FrameType::kResult: {
      MILLRACE_ASSIGN_OR_RETURN(BatchPrefix prefix, DecodeBatchPrefix(metadata));
      return absl::StrCat(EncodeBatchPrefix(prefix), metadata.substr(kBatchPrefixSize));
    }
    case FrameType::kEndPartition: {
      MILLRACE_ASSIGN_OR_RETURN(EndPartitionFrame frame, DecodeEndPartition(metadata));
      return EncodeEndPartition(frame);
    }
    case FrameType::kBlocked: {
      MILLRACE_ASSIGN_OR_RETURN(BlockedFrame frame, DecodeBlocked(metadata));
      return EncodeBlocked(frame);
    }
    case FrameType::kResultCredit: {
      MILLRACE_ASSIGN_OR_RETURN(ResultCreditFrame frame, DecodeResultCredit(metadata));
      return EncodeResultCredit(frame);
    }
    case FrameType::kMapped: {
      MILLRACE_ASSIGN_OR_RETURN(MappedFrame frame, DecodeMapped(metadata));
      return EncodeMapped(frame);
    }
    case FrameType::kPlaced:
    case FrameType::kPlacedResult: {
      MILLRACE_ASSIGN_OR_RETURN(PlacedPrefix placed, DecodePlacedPrefix(metadata));
      const absl::string_view rest = metadata.substr(kPlacedPrefixSize);
      MILLRACE_ASSIGN_OR_RETURN(BatchPrefix prefix, DecodeBatchPrefix(rest));
      return absl::StrCat(EncodePlacedPrefix(placed), EncodeBatchPrefix(prefix),
                          rest.substr(kBatchPrefixSize));
    }
    case FrameType::kSegment: {
      MILLRACE_ASSIGN_OR_RETURN(SegmentFrame frame, DecodeSegment(metadata));
      return EncodeSegment(frame);
    }
    case FrameType::kRoom: {
      MILLRACE_ASSIGN_OR_RETURN(RoomFrame frame, DecodeRoom(metadata));
      return EncodeRoom(frame);
    }
    case FrameType::kRevoke: {
      MILLRACE_ASSIGN_OR_RETURN(RevokeFrame frame, DecodeRevoke(metadata));
      return EncodeRevoke(frame);
    }
    case FrameType::kCredit: {
      MILLRACE_ASSIGN_OR_RETURN(CreditFrame frame, DecodeCredit(metadata));
      return EncodeCredit(frame);
    }
    case FrameType::kReceived:
    case FrameType::kAck:
    case FrameType::kRevoked: {
      MILLRACE_ASSIGN_OR_RETURN(RowFrame frame, DecodeRow(metadata));
      return EncodeRow(frame);
    }
    case FrameType::kDone: {
      MILLRACE_ASSIGN_OR_RETURN(DoneFrame frame, DecodeDone(metadata));
      return EncodeDone(frame);
    }
    case FrameType::kWait: {
      MILLRACE_ASSIGN_OR_RETURN(WaitFrame frame, DecodeWait(metadata));
      return EncodeWait(frame);
    }
    case FrameType::kAbort:
    case FrameType::kError: {
      MILLRACE_ASSIGN_OR_RETURN(ErrorFrame frame, DecodeError(metadata));
      return EncodeError(frame);
    }
    case FrameType::kTerminated: {
      MILLRACE_ASSIGN_OR_RETURN(TerminatedFrame frame, DecodeTerminated(metadata));
      return EncodeTerminated(frame);
    }
    case FrameType::kSchema: {
      MILLRACE_RETURN_IF_ERROR(DecodeSchema(metadata));
      return std::string(metadata);
    }
  }
  return std::string(metadata);  // unknown and optional
}

bool MayReceive(const std::string& receiver, FrameType type) {
  if (type == FrameType::kSchema || !IsKnownFrameType(type)) return true;
  return (type < FrameType::kCredit) == (receiver == "node");
}

// Everything that is checked of one message, as a receiver does it.
absl::Status Check(const Golden& golden) {
  MILLRACE_ASSIGN_OR_RETURN(FrameHeader header, DecodeHeader(golden.parts[0]));
  MILLRACE_RETURN_IF_ERROR(CheckFrameParts(header, golden.parts.size(), Metadata(golden).size()));
  if (!IsKnownFrameType(header.type) && !header.optional()) {
    return absl::InvalidArgumentError("unknown type");
  }
  if (!MayReceive(golden.receiver, header.type)) return absl::InvalidArgumentError("direction");
  MILLRACE_RETURN_IF_ERROR(Recode(header, Metadata(golden)));
  const auto schema = Schemas().find(golden.schema);
  if (schema == Schemas().end()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(BatchPrefix prefix, DecodeBatchPrefix(Metadata(golden)));
  return BatchDecoder(schema->second)
      .Decode(Metadata(golden).substr(kBatchPrefixSize), static_cast<uint32_t>(prefix.rows),
              Body(golden))
      .status();
}

TEST(GoldenFramesTest, EveryFrameDecodesAndEncodesToTheSameBytes) {
  const std::vector<Golden> frames = LoadGolden("frames");
  ASSERT_GT(frames.size(), 30u) << "FEED_FRAMES does not name testing/golden/feed_frames.json";
  for (const Golden& golden : frames) {
    SCOPED_TRACE(golden.name);
    const absl::StatusOr<FrameHeader> header = DecodeHeader(golden.parts[0]);
    ASSERT_THAT(header, IsOk());
    EXPECT_EQ(static_cast<int>(header->type), golden.header.at("type").get<int>());
    EXPECT_EQ(header->seq, golden.header.at("seq").get<uint64_t>());
    EXPECT_EQ(header->flags, golden.header.at("flags").get<int>());
    EXPECT_EQ(absl::StrCat(absl::Hex(header->session, absl::kZeroPad16)),
              golden.header.at("session").get<std::string>());
    EXPECT_EQ(EncodeHeader(*header), golden.parts[0]);
    if (IsKnownFrameType(header->type)) {
      EXPECT_EQ(FrameTypeName(header->type), golden.header.at("type_name").get<std::string>());
    }
    EXPECT_THAT(Check(golden), IsOk());
    const absl::StatusOr<std::string> again = Recode(*header, Metadata(golden));
    ASSERT_THAT(again, IsOk());
    if (golden.name == "open_unknown_members") continue;  // they are not kept
    EXPECT_EQ(*again, Metadata(golden));
  }
}

TEST(GoldenFramesTest, MessagesHaveTheValuesThatTheFileSays) {
  for (const Golden& golden : LoadGolden("frames")) {
    SCOPED_TRACE(golden.name);
    const Json& want = golden.message;
    switch (DecodeHeader(golden.parts[0])->type) {
      case FrameType::kOpen: {
        const OpenFrame open = *DecodeOpen(Metadata(golden));
        EXPECT_EQ(open.feed_id, want.at("feed_id"));
        EXPECT_EQ(open.queue, want.at("queue"));
        EXPECT_EQ(FeedModeName(open.mode), want.at("mode").get<std::string>());
        EXPECT_EQ(open.partition, want.at("partition"));
        EXPECT_EQ(open.data_epoch, want.at("data_epoch"));
        EXPECT_EQ(open.feeder_attempt, want.at("feeder_attempt"));
        EXPECT_EQ(open.node_nonce, want.at("node_nonce"));
        EXPECT_EQ(open.first_row, want.at("first_row"));
        EXPECT_EQ(open.result_limit, want.at("result_limit"));
        EXPECT_EQ(open.reply.endpoint, want.at("reply").at("endpoint"));
        EXPECT_EQ(open.reply.challenge, want.at("reply").at("challenge"));
        EXPECT_EQ(open.reply.curve_key, want.at("reply").value("curve_key", ""));
        EXPECT_EQ(open.shared_memory, want.value("shared_memory", false));
        EXPECT_EQ(open.resumed, want.value("resumed", false));
        break;
      }
      case FrameType::kBatch:
      case FrameType::kResult: {
        const BatchPrefix prefix = *DecodeBatchPrefix(Metadata(golden));
        EXPECT_EQ(prefix.first_row, want.at("first_row"));
        EXPECT_EQ(prefix.rows, want.at("rows"));
        break;
      }
      case FrameType::kBlocked:
        EXPECT_EQ(DecodeBlocked(Metadata(golden))->needed, want.at("needed"));
        break;
      case FrameType::kResultCredit:
        EXPECT_EQ(DecodeResultCredit(Metadata(golden))->limit, want.at("limit"));
        break;
      case FrameType::kRevoke:
        EXPECT_EQ(DecodeRevoke(Metadata(golden))->max_row, want.at("max_row"));
        EXPECT_TRUE(DecodeHeader(golden.parts[0])->optional());
        break;
      case FrameType::kMapped:
        EXPECT_EQ(DecodeMapped(Metadata(golden))->reason, want.at("reason"));
        EXPECT_EQ(DecodeMapped(Metadata(golden))->results, want.at("results"));
        EXPECT_TRUE(DecodeHeader(golden.parts[0])->optional());
        break;
      case FrameType::kPlaced:
      case FrameType::kPlacedResult: {
        const PlacedPrefix placed = *DecodePlacedPrefix(Metadata(golden));
        EXPECT_EQ(placed.offset, want.at("offset"));
        EXPECT_EQ(placed.length, want.at("length"));
        const BatchPrefix prefix = *DecodeBatchPrefix(Metadata(golden).substr(kPlacedPrefixSize));
        EXPECT_EQ(prefix.rows, want.at("rows"));
        break;
      }
      case FrameType::kSegment: {
        const SegmentFrame segment = *DecodeSegment(Metadata(golden));
        EXPECT_EQ(segment.pid, want.at("pid"));
        EXPECT_EQ(segment.fd, want.at("fd"));
        EXPECT_EQ(segment.bytes, want.at("bytes"));
        EXPECT_EQ(segment.id, want.at("id"));
        EXPECT_TRUE(DecodeHeader(golden.parts[0])->optional());
        break;
      }
      case FrameType::kRoom: {
        const RoomFrame room = *DecodeRoom(Metadata(golden));
        EXPECT_EQ(room.offset, want.at("offset"));
        EXPECT_EQ(room.length, want.at("length"));
        EXPECT_TRUE(DecodeHeader(golden.parts[0])->optional());
        break;
      }
      case FrameType::kRevoked:
        EXPECT_EQ(DecodeRow(Metadata(golden))->row, want.at("row"));
        break;
      case FrameType::kCredit: {
        const CreditFrame credit = *DecodeCredit(Metadata(golden));
        EXPECT_EQ(credit.limit, want.at("limit"));
        EXPECT_EQ(credit.released, want.at("released"));
        break;
      }
      case FrameType::kError:
      case FrameType::kAbort: {
        const ErrorFrame error = *DecodeError(Metadata(golden));
        EXPECT_EQ(absl::StatusCodeToString(error.code), want.at("code").get<std::string>());
        EXPECT_EQ(error.message, want.at("message"));
        break;
      }
      default:
        break;
    }
  }
}

TEST(GoldenFramesTest, EveryMalformedFrameIsRefused) {
  const std::vector<Golden> frames = LoadGolden("malformed");
  ASSERT_GT(frames.size(), 100u);
  for (const Golden& golden : frames) {
    SCOPED_TRACE(golden.name);
    if (!golden.schema.empty() && !Schemas().contains(golden.schema)) continue;
    const absl::Status status = Check(golden);
    if (golden.outcome == "unsupported") {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented));
    } else if (golden.outcome == "unimplemented") {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented));
      EXPECT_TRUE(DecodeForeignHeader(golden.parts[0]).has_value());
    } else {
      EXPECT_FALSE(status.ok());
      EXPECT_FALSE(absl::IsUnimplemented(status)) << status;
    }
  }
}

TEST(FrameTest, AnyPrefixOfAFrameIsRefused) {
  for (const Golden& golden : LoadGolden("frames")) {
    SCOPED_TRACE(golden.name);
    const FrameHeader header = *DecodeHeader(golden.parts[0]);
    if (!IsKnownFrameType(header.type)) continue;
    for (size_t size = 0; size < golden.parts[0].size(); ++size) {
      EXPECT_FALSE(DecodeHeader(golden.parts[0].substr(0, size)).ok()) << size;
    }
    for (size_t size = 0; size < Metadata(golden).size(); ++size) {
      const absl::string_view cut = Metadata(golden).substr(0, size);
      EXPECT_FALSE(CheckFrameParts(header, golden.parts.size(), cut.size()).ok()) << size;
      // A batch's prefix decodes from 16 bytes on; the message behind it is checked by ipc_test.
      if (size >= kBatchPrefixSize && header.type == FrameType::kBatch) break;
      if (size >= kBatchPrefixSize && header.type == FrameType::kResult) break;
      if (size >= kPlacedPrefixSize + kBatchPrefixSize &&
          (header.type == FrameType::kPlaced || header.type == FrameType::kPlacedResult)) {
        break;
      }
      EXPECT_FALSE(Recode(header, cut).ok()) << size;
    }
  }
}

TEST(FrameTest, ForeignHeadersTellWhoAsks) {
  std::string bytes = EncodeHeader({.type = FrameType::kOpen, .session = 77, .seq = 3});
  EXPECT_FALSE(DecodeForeignHeader(bytes).has_value());
  for (const int version : {1, 3, 255}) {
    bytes[4] = static_cast<char>(version);
    EXPECT_THAT(DecodeHeader(bytes), StatusIs(absl::StatusCode::kUnimplemented));
    EXPECT_TRUE(DecodeForeignHeader(bytes).has_value());
  }
  bytes[7] = 0x40;  // a flag of that version
  EXPECT_THAT(DecodeHeader(bytes), StatusIs(absl::StatusCode::kUnimplemented));
  ASSERT_TRUE(DecodeForeignHeader(bytes).has_value());
  EXPECT_EQ(DecodeForeignHeader(bytes)->session, 77u);
  EXPECT_FALSE(DecodeForeignHeader(bytes.substr(0, 31)).has_value());
  EXPECT_FALSE(DecodeForeignHeader("MRF").has_value());
}

TEST(FrameTest, SharedMemorysFramesComeBackAsTheyWere) {
  for (const MappedFrame& mapped :
       {MappedFrame{.reason = "/proc/4711/fd/17: \"Permission denied\""},
        MappedFrame{.results = true}}) {
    EXPECT_THAT(DecodeMapped(EncodeMapped(mapped)), IsOkAndHolds(mapped));
  }
  const SegmentFrame segment{.pid = 4711, .fd = 17, .bytes = 8192, .id = "9f3c"};
  EXPECT_THAT(DecodeSegment(EncodeSegment(segment)), IsOkAndHolds(segment));
  for (const char* bad :
       {R"({"pid":0,"fd":1,"bytes":1,"id":""})", R"({"pid":1,"fd":-1,"bytes":1,"id":""})",
        R"({"pid":1,"fd":4294967296,"bytes":1,"id":""})", R"({"pid":1,"fd":1,"bytes":0,"id":""})",
        R"({"pid":1,"fd":"1","bytes":1,"id":""})", R"({"pid":1})", "[]"}) {
    EXPECT_THAT(DecodeSegment(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
  const RoomFrame room{.offset = 4096, .length = 64};
  EXPECT_THAT(DecodeRoom(EncodeRoom(room)), IsOkAndHolds(room));
  EXPECT_THAT(DecodeRoom("short"), StatusIs(absl::StatusCode::kInvalidArgument));
  const PlacedPrefix placed{.offset = 4096, .length = 1000};
  EXPECT_THAT(DecodePlacedPrefix(EncodePlacedPrefix(placed) + "more"), IsOkAndHolds(placed));
  EXPECT_THAT(DecodePlacedPrefix(std::string(15, '\0')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodePlacedPrefix(std::string(16, '\xff')),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FrameTest, NumbersAbove63BitsAreRefused) {
  EXPECT_THAT(DecodeRow(std::string(8, '\xff')), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeCredit(std::string(8, '\0') + std::string(8, '\xff')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset 8")));
  EXPECT_EQ(DecodeRow(EncodeRow({.row = INT64_MAX}))->row, INT64_MAX);
  EXPECT_THAT(DecodeBatchPrefix(EncodeBatchPrefix({.first_row = INT64_MAX, .rows = 1})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FrameTest, ALongMessageIsCutAndStillDecodes) {
  const std::string message(200'000, '\x01');  // escaped to six bytes each
  const std::string metadata = EncodeError({absl::StatusCode::kInternal, message});
  EXPECT_LE(metadata.size(), kMaxJsonMetadataSize);
  EXPECT_EQ(DecodeError(metadata)->code, absl::StatusCode::kInternal);
}

TEST(FrameTest, AnUnknownCodeIsUnknown) {
  EXPECT_EQ(DecodeError(R"({"code":"OK","message":""})")->code, absl::StatusCode::kUnknown);
  EXPECT_EQ(DecodeError(R"({"code":"LATER","message":"x"})")->code, absl::StatusCode::kUnknown);
}

TEST(FrameTest, ResumingIsForTraining) {
  OpenFrame open{.feed_id = "f",
                 .queue = "q",
                 .mode = FeedMode::kInference,
                 .node_nonce = "n",
                 .first_row = 5,
                 .shared_memory = true,
                 .reply = {.endpoint = "ipc://@x", .challenge = "c"}};
  EXPECT_THAT(DecodeOpen(EncodeOpen(open)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first_row")));
  open.first_row = 0;
  open.resumed = true;
  EXPECT_THAT(DecodeOpen(EncodeOpen(open)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resumed")));
  open.mode = FeedMode::kTrain;
  open.first_row = 5;
  EXPECT_THAT(DecodeOpen(EncodeOpen(open)), IsOkAndHolds(open));
}

}  // namespace
}  // namespace millrace
