#include "feed/wire/frame.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kMagic = "MRF1";

template <typename T>
void Append(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

// Little-endian, at `offset`, which the caller has checked.
template <typename T>
T Load(absl::string_view bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= uint64_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  }
  return static_cast<T>(value);
}

absl::Status BadSize(absl::string_view what, size_t want, size_t got) {
  return absl::InvalidArgumentError(absl::StrCat(what, " must be ", want, " bytes, found ", got));
}

// `count` numbers of the wire, each of which must fit int64_t.
absl::Status LoadNumbers(absl::string_view what, absl::string_view metadata,
                         std::initializer_list<int64_t*> numbers) {
  if (metadata.size() != 8 * numbers.size()) {
    return BadSize(absl::StrCat(what, " metadata"), 8 * numbers.size(), metadata.size());
  }
  size_t offset = 0;
  for (int64_t* number : numbers) {
    *number = Load<int64_t>(metadata, offset);
    if (*number < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " metadata: the number at offset ", offset, " is over 2^63-1"));
    }
    offset += 8;
  }
  return absl::OkStatus();
}

std::string StoreNumbers(std::initializer_list<int64_t> numbers) {
  std::string out;
  out.reserve(8 * numbers.size());
  for (int64_t number : numbers) Append(number, &out);
  return out;
}

absl::StatusOr<Json> ParseMetadata(absl::string_view what, absl::string_view metadata) {
  absl::StatusOr<Json> json =
      ParseJson(metadata, {.max_depth = kMaxJsonMetadataDepth, .max_bytes = kMaxJsonMetadataSize});
  if (!json.ok()) return Annotate(json.status(), absl::StrCat(what, " metadata"));
  if (!json->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " metadata: must be an object, found ", JsonTypeName(*json)));
  }
  return json;
}

constexpr int64_t kMaxInt64 = INT64_MAX;
constexpr size_t kMaxSegmentIdSize = 64;

absl::StatusOr<ReplyEndpoint> DecodeReply(const Json& open) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* reply, GetObject(open, "reply"));
  ReplyEndpoint out;
  MILLRACE_ASSIGN_OR_RETURN(out.endpoint, GetString(*reply, "endpoint", "reply"));
  MILLRACE_ASSIGN_OR_RETURN(out.challenge, GetString(*reply, "challenge", "reply"));
  MILLRACE_ASSIGN_OR_RETURN(out.curve_key, GetStringOr(*reply, "curve_key", "", "reply"));
  if (out.endpoint.empty()) {
    return absl::InvalidArgumentError("field \"reply.endpoint\" must not be empty");
  }
  return out;
}

absl::StatusOr<OpenFrame> DecodeOpenObject(const Json& json) {
  OpenFrame out;
  MILLRACE_ASSIGN_OR_RETURN(out.feed_id, GetString(json, "feed_id"));
  MILLRACE_ASSIGN_OR_RETURN(out.queue, GetString(json, "queue"));
  MILLRACE_ASSIGN_OR_RETURN(std::string mode, GetString(json, "mode"));
  if (mode == "inference") {
    out.mode = FeedMode::kInference;
  } else if (mode != "train") {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"mode\" must be \"train\" or \"inference\", found \"",
                     Ellipsize(EscapeControls(mode), 40), "\""));
  }
  MILLRACE_ASSIGN_OR_RETURN(out.partition, GetIntInRange(json, "partition", 0, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.data_epoch, GetIntInRange(json, "data_epoch", 0, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.feeder_attempt,
                            GetIntInRange(json, "feeder_attempt", 0, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.node_nonce, GetString(json, "node_nonce"));
  MILLRACE_ASSIGN_OR_RETURN(out.first_row, GetIntInRange(json, "first_row", 0, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.result_limit, GetIntInRange(json, "result_limit", 0, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.version, GetStringOr(json, "version", ""));
  MILLRACE_ASSIGN_OR_RETURN(out.shared_memory, GetBoolOr(json, "shared_memory", false));
  MILLRACE_ASSIGN_OR_RETURN(out.resumed, GetBoolOr(json, "resumed", false));
  MILLRACE_ASSIGN_OR_RETURN(out.reply, DecodeReply(json));
  if (out.feed_id.empty()) {
    return absl::InvalidArgumentError("field \"feed_id\" must not be empty");
  }
  if (out.mode == FeedMode::kInference && out.first_row != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"first_row\" must be 0 in inference, found ", out.first_row));
  }
  if (out.mode == FeedMode::kInference && out.resumed) {
    return absl::InvalidArgumentError("field \"resumed\" must be false in inference");
  }
  return out;
}

// A message is escaped in JSON, to six bytes per byte at worst.
constexpr size_t kMaxMessageSize = kMaxJsonMetadataSize / 6 - 64;

std::string CutMessage(const std::string& message) { return Ellipsize(message, kMaxMessageSize); }

size_t MaxMetadataSize(FrameType type) {
  switch (type) {
    case FrameType::kOpen:
    case FrameType::kAbort:
    case FrameType::kTerminated:
    case FrameType::kError:
    case FrameType::kMapped:
    case FrameType::kSegment:
      return kMaxJsonMetadataSize;
    case FrameType::kSchema:
      return kMaxSchemaMetadataSize;
    case FrameType::kEndPartition:
    case FrameType::kBlocked:
    case FrameType::kResultCredit:
    case FrameType::kRevoke:
    case FrameType::kReceived:
    case FrameType::kAck:
    case FrameType::kRevoked:
      return 8;
    case FrameType::kCredit:
    case FrameType::kDone:
    case FrameType::kWait:
    case FrameType::kRoom:
      return 16;
    case FrameType::kBatch:
    case FrameType::kPlaced:
    case FrameType::kResult:
    case FrameType::kPlacedResult:
      return SIZE_MAX;  // bounded by the socket's MAXMSGSIZE
  }
  return SIZE_MAX;
}

}  // namespace

bool IsKnownFrameType(FrameType type) {
  const auto value = static_cast<uint8_t>(type);
  return (value >= static_cast<uint8_t>(FrameType::kOpen) &&
          value <= static_cast<uint8_t>(FrameType::kPlaced)) ||
         (value >= static_cast<uint8_t>(FrameType::kCredit) &&
          value <= static_cast<uint8_t>(FrameType::kPlacedResult));
}

std::string FrameTypeName(FrameType type) {
  switch (type) {
    case FrameType::kOpen:
      return "OPEN";
    case FrameType::kSchema:
      return "SCHEMA";
    case FrameType::kBatch:
      return "BATCH";
    case FrameType::kEndPartition:
      return "END_PARTITION";
    case FrameType::kAbort:
      return "ABORT";
    case FrameType::kBlocked:
      return "BLOCKED";
    case FrameType::kResultCredit:
      return "RESULT_CREDIT";
    case FrameType::kRevoke:
      return "REVOKE";
    case FrameType::kCredit:
      return "CREDIT";
    case FrameType::kReceived:
      return "RECEIVED";
    case FrameType::kAck:
      return "ACK";
    case FrameType::kResult:
      return "RESULT";
    case FrameType::kDone:
      return "DONE";
    case FrameType::kWait:
      return "WAIT";
    case FrameType::kTerminated:
      return "TERMINATED";
    case FrameType::kError:
      return "ERROR";
    case FrameType::kRevoked:
      return "REVOKED";
    case FrameType::kMapped:
      return "MAPPED";
    case FrameType::kPlaced:
      return "PLACED";
    case FrameType::kSegment:
      return "SEGMENT";
    case FrameType::kRoom:
      return "ROOM";
    case FrameType::kPlacedResult:
      return "PLACED_RESULT";
  }
  return absl::StrCat("type ", static_cast<int>(type));
}

std::string EncodeHeader(const FrameHeader& header) {
  std::string out;
  out.reserve(kFrameHeaderSize);
  out.append(kMagic.data(), kMagic.size());
  Append(header.version, &out);
  Append(static_cast<uint8_t>(header.type), &out);
  Append(header.flags, &out);
  Append(header.session, &out);
  Append(header.seq, &out);
  Append(header.metadata_length, &out);
  Append(uint32_t{0}, &out);
  return out;
}

absl::StatusOr<FrameHeader> DecodeHeader(absl::string_view bytes) {
  if (bytes.size() != kFrameHeaderSize) {
    return BadSize("the frame header", kFrameHeaderSize, bytes.size());
  }
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("the frame header does not begin with MRF1");
  }
  FrameHeader header;
  header.version = Load<uint8_t>(bytes, 4);
  if (header.version == 0) return absl::InvalidArgumentError("frame version 0");
  if (header.version != kFrameVersion) {
    return absl::UnimplementedError(absl::StrCat("feed protocol version ", header.version,
                                                 " is not spoken here, only version ",
                                                 kFrameVersion));
  }
  header.type = static_cast<FrameType>(Load<uint8_t>(bytes, 5));
  header.flags = Load<uint16_t>(bytes, 6);
  header.session = Load<uint64_t>(bytes, 8);
  header.seq = Load<uint64_t>(bytes, 16);
  header.metadata_length = Load<uint32_t>(bytes, 24);
  if ((header.flags & ~kFrameFlagOptional) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the frame header has reserved flags set: ", header.flags));
  }
  if (header.session == 0) return absl::InvalidArgumentError("the frame header names session 0");
  if (Load<uint32_t>(bytes, 28) != 0) {
    return absl::InvalidArgumentError("the last four bytes of the frame header are not zero");
  }
  return header;
}

std::optional<FrameHeader> DecodeForeignHeader(absl::string_view bytes) {
  if (bytes.size() < kFrameHeaderSize || bytes.substr(0, kMagic.size()) != kMagic) {
    return std::nullopt;
  }
  FrameHeader header;
  header.version = Load<uint8_t>(bytes, 4);
  if (header.version == 0 || header.version == kFrameVersion) return std::nullopt;
  header.type = static_cast<FrameType>(Load<uint8_t>(bytes, 5));
  header.session = Load<uint64_t>(bytes, 8);
  header.seq = Load<uint64_t>(bytes, 16);
  if (header.session == 0) return std::nullopt;
  return header;
}

absl::Status CheckFrameParts(const FrameHeader& header, size_t num_parts, size_t metadata_bytes) {
  if (header.metadata_length != metadata_bytes || (num_parts > 1) != (metadata_bytes > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(FrameTypeName(header.type), ": the header announces ", header.metadata_length,
                     " bytes of metadata, found ", metadata_bytes));
  }
  if (!IsKnownFrameType(header.type)) return absl::OkStatus();
  const bool has_body = header.type == FrameType::kBatch || header.type == FrameType::kResult;
  if (metadata_bytes == 0) {  // no type goes without
    return absl::InvalidArgumentError(
        absl::StrCat(FrameTypeName(header.type), " without metadata"));
  }
  if (num_parts > 2 && !has_body) {
    return absl::InvalidArgumentError(absl::StrCat(
        FrameTypeName(header.type), " has no body, found ", num_parts - 2, " parts of one"));
  }
  if (metadata_bytes > MaxMetadataSize(header.type)) {
    return absl::InvalidArgumentError(absl::StrCat(FrameTypeName(header.type), ": ", metadata_bytes,
                                                   " bytes of metadata, at most ",
                                                   MaxMetadataSize(header.type), " are allowed"));
  }
  return absl::OkStatus();
}

absl::string_view FeedModeName(FeedMode mode) {
  return mode == FeedMode::kTrain ? "train" : "inference";
}

std::string EncodeOpen(const OpenFrame& frame) {
  OrderedJson reply;
  reply["endpoint"] = frame.reply.endpoint;
  reply["challenge"] = frame.reply.challenge;
  if (!frame.reply.curve_key.empty()) reply["curve_key"] = frame.reply.curve_key;
  OrderedJson json;
  json["feed_id"] = frame.feed_id;
  json["queue"] = frame.queue;
  json["mode"] = std::string(FeedModeName(frame.mode));
  json["partition"] = frame.partition;
  json["data_epoch"] = frame.data_epoch;
  json["feeder_attempt"] = frame.feeder_attempt;
  json["node_nonce"] = frame.node_nonce;
  json["first_row"] = frame.first_row;
  json["result_limit"] = frame.result_limit;
  if (!frame.version.empty()) json["version"] = frame.version;
  if (frame.shared_memory) json["shared_memory"] = true;
  if (frame.resumed) json["resumed"] = true;
  json["reply"] = std::move(reply);
  return DumpJson(json);
}

absl::StatusOr<ReplyEndpoint> DecodeOpenReply(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("OPEN", metadata));
  absl::StatusOr<ReplyEndpoint> reply = DecodeReply(json);
  if (!reply.ok()) return Annotate(reply.status(), "OPEN metadata");
  return reply;
}

absl::StatusOr<OpenFrame> DecodeOpen(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("OPEN", metadata));
  absl::StatusOr<OpenFrame> open = DecodeOpenObject(json);
  if (!open.ok()) return Annotate(open.status(), "OPEN metadata");
  return open;
}

std::string EncodeBatchPrefix(const BatchPrefix& prefix) {
  std::string out;
  out.reserve(kBatchPrefixSize);
  Append(prefix.first_row, &out);
  Append(static_cast<uint32_t>(prefix.rows), &out);
  Append(uint32_t{0}, &out);
  return out;
}

absl::StatusOr<BatchPrefix> DecodeBatchPrefix(absl::string_view metadata) {
  if (metadata.size() < kBatchPrefixSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch metadata must be at least ", kBatchPrefixSize, " bytes, found ", metadata.size()));
  }
  BatchPrefix prefix{.first_row = Load<int64_t>(metadata, 0),
                     .rows = int64_t{Load<uint32_t>(metadata, 8)}};
  if (prefix.rows < 1 || prefix.rows > kMaxFrameRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch has 1 to 2^31-1 rows, found ", prefix.rows));
  }
  if (prefix.first_row < 0 || prefix.first_row > kMaxInt64 - prefix.rows) {
    return absl::InvalidArgumentError("batch metadata: rows over 2^63-1");
  }
  if (Load<uint32_t>(metadata, 12) != 0) {
    return absl::InvalidArgumentError("batch metadata: bytes 12 to 15 are not zero");
  }
  return prefix;
}

std::string EncodePlacedPrefix(const PlacedPrefix& prefix) {
  return StoreNumbers({prefix.offset, prefix.length});
}

absl::StatusOr<PlacedPrefix> DecodePlacedPrefix(absl::string_view metadata) {
  if (metadata.size() < kPlacedPrefixSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PLACED metadata must be at least ", kPlacedPrefixSize, " bytes, found ", metadata.size()));
  }
  PlacedPrefix out;
  MILLRACE_RETURN_IF_ERROR(
      LoadNumbers("PLACED", metadata.substr(0, kPlacedPrefixSize), {&out.offset, &out.length}));
  return out;
}

std::string EncodeEndPartition(const EndPartitionFrame& frame) {
  return StoreNumbers({frame.end_row});
}

absl::StatusOr<EndPartitionFrame> DecodeEndPartition(absl::string_view metadata) {
  EndPartitionFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("END_PARTITION", metadata, {&out.end_row}));
  return out;
}

std::string EncodeBlocked(const BlockedFrame& frame) { return StoreNumbers({frame.needed}); }

absl::StatusOr<BlockedFrame> DecodeBlocked(absl::string_view metadata) {
  BlockedFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("BLOCKED", metadata, {&out.needed}));
  return out;
}

std::string EncodeResultCredit(const ResultCreditFrame& frame) {
  return StoreNumbers({frame.limit});
}

absl::StatusOr<ResultCreditFrame> DecodeResultCredit(absl::string_view metadata) {
  ResultCreditFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("RESULT_CREDIT", metadata, {&out.limit}));
  return out;
}

std::string EncodeRevoke(const RevokeFrame& frame) { return StoreNumbers({frame.max_row}); }

absl::StatusOr<RevokeFrame> DecodeRevoke(absl::string_view metadata) {
  RevokeFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("REVOKE", metadata, {&out.max_row}));
  return out;
}

std::string EncodeCredit(const CreditFrame& frame) {
  return StoreNumbers({frame.limit, frame.released});
}

absl::StatusOr<CreditFrame> DecodeCredit(absl::string_view metadata) {
  CreditFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("CREDIT", metadata, {&out.limit, &out.released}));
  return out;
}

std::string EncodeRow(const RowFrame& frame) { return StoreNumbers({frame.row}); }

absl::StatusOr<RowFrame> DecodeRow(absl::string_view metadata) {
  RowFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("RECEIVED or ACK", metadata, {&out.row}));
  return out;
}

std::string EncodeRoom(const RoomFrame& frame) {
  return StoreNumbers({frame.offset, frame.length});
}

absl::StatusOr<RoomFrame> DecodeRoom(absl::string_view metadata) {
  RoomFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("ROOM", metadata, {&out.offset, &out.length}));
  return out;
}

std::string EncodeDone(const DoneFrame& frame) {
  return StoreNumbers({frame.rows_in, frame.rows_out});
}

absl::StatusOr<DoneFrame> DecodeDone(absl::string_view metadata) {
  DoneFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("DONE", metadata, {&out.rows_in, &out.rows_out}));
  return out;
}

std::string EncodeWait(const WaitFrame& frame) {
  return StoreNumbers({frame.position, frame.progress});
}

absl::StatusOr<WaitFrame> DecodeWait(absl::string_view metadata) {
  WaitFrame out;
  MILLRACE_RETURN_IF_ERROR(LoadNumbers("WAIT", metadata, {&out.position, &out.progress}));
  return out;
}

std::string EncodeError(const ErrorFrame& frame) {
  OrderedJson json;
  json["code"] = absl::StatusCodeToString(frame.code);
  json["message"] = CutMessage(frame.message);
  if (frame.program_ended) json["program_ended"] = true;
  return DumpJson(json);
}

absl::StatusOr<ErrorFrame> DecodeError(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("ERROR or ABORT", metadata));
  MILLRACE_ASSIGN_OR_RETURN(std::string code, GetString(json, "code"));
  MILLRACE_ASSIGN_OR_RETURN(std::string message, GetString(json, "message"));
  MILLRACE_ASSIGN_OR_RETURN(const bool program_ended, GetBoolOr(json, "program_ended", false));
  return ErrorFrame{.code = StatusCodeFromName(code),
                    .message = std::move(message),
                    .program_ended = program_ended};
}

std::string EncodeMapped(const MappedFrame& frame) {
  OrderedJson json;
  json["reason"] = CutMessage(frame.reason);
  if (frame.results) json["results"] = true;
  return DumpJson(json);
}

absl::StatusOr<MappedFrame> DecodeMapped(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("MAPPED", metadata));
  MILLRACE_ASSIGN_OR_RETURN(std::string reason, GetString(json, "reason"));
  MILLRACE_ASSIGN_OR_RETURN(const bool results, GetBoolOr(json, "results", false));
  return MappedFrame{.reason = std::move(reason), .results = results};
}

std::string EncodeSegment(const SegmentFrame& frame) {
  OrderedJson json;
  json["pid"] = frame.pid;
  json["fd"] = frame.fd;
  json["bytes"] = frame.bytes;
  json["id"] = frame.id;
  return DumpJson(json);
}

absl::StatusOr<SegmentFrame> DecodeSegment(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("SEGMENT", metadata));
  SegmentFrame out;
  MILLRACE_ASSIGN_OR_RETURN(out.pid, GetIntInRange(json, "pid", 1, INT32_MAX));
  MILLRACE_ASSIGN_OR_RETURN(out.fd, GetIntInRange(json, "fd", 0, INT32_MAX));
  MILLRACE_ASSIGN_OR_RETURN(out.bytes, GetIntInRange(json, "bytes", 1, kMaxInt64));
  MILLRACE_ASSIGN_OR_RETURN(out.id, GetString(json, "id"));
  if (out.id.size() > kMaxSegmentIdSize) {
    return absl::InvalidArgumentError("SEGMENT metadata: the id is too long");
  }
  return out;
}

std::string EncodeTerminated(const TerminatedFrame& frame) {
  OrderedJson json;
  json["message"] = CutMessage(frame.message);
  if (frame.row > 0) json["row"] = frame.row;
  return DumpJson(json);
}

absl::StatusOr<TerminatedFrame> DecodeTerminated(absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(Json json, ParseMetadata("TERMINATED", metadata));
  TerminatedFrame out;
  MILLRACE_ASSIGN_OR_RETURN(out.message, GetString(json, "message"));
  if (json.contains("row")) {  // nodes of 0.2.0 do not say it
    MILLRACE_ASSIGN_OR_RETURN(out.row, GetIntInRange(json, "row", 0, kMaxInt64));
  }
  return out;
}

}  // namespace millrace
