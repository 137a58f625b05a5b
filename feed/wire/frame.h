// File: feed/wire/frame.h
//
// The bytes of a frame as docs/feed_protocol.md sections 2 and 3 define them: the 32-byte header
// and the metadata part of every type except SCHEMA, whose metadata is Arrow's (feed/ipc/ipc.h).
// Both ends of the feed use this file, nothing here knows sockets or sessions.
//
// Defines: FrameType, FrameHeader, EncodeHeader(), DecodeHeader(), DecodeForeignHeader(), and for
// each kind of metadata a struct with Encode...() and Decode...().
//
//   std::string metadata = EncodeCredit({.limit = 1 << 20, .released = 0});
//   std::string header = EncodeHeader({.type = FrameType::kCredit, .session = session, .seq = 0,
//                                      .metadata_length = metadata.size()});
//   ...
//   MILLRACE_ASSIGN_OR_RETURN(FrameHeader header, DecodeHeader(part0));
//   MILLRACE_RETURN_IF_ERROR(CheckFrameParts(header, parts.size(), part1.size()));
//   if (header.type == FrameType::kCredit) {
//     MILLRACE_ASSIGN_OR_RETURN(CreditFrame credit, DecodeCredit(part1));
//   }
//
// Decoders take bytes from a peer: whatever these are, the outcome is a value or a Status. Row
// numbers and byte counts are u64 on the wire and int64_t here; above 2^63-1 they do not decode.
//
// Thread safety: pure functions and plain values.

#ifndef FEED_WIRE_FRAME_H_
#define FEED_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The underlying byte is open: a FrameType read from a peer may be none of these
// (IsKnownFrameType).
enum class FrameType : uint8_t {
  kOpen = 1,          // feeder -> node
  kSchema = 2,        // both
  kBatch = 3,         // feeder -> node
  kEndPartition = 4,  // feeder -> node
  kAbort = 5,         // feeder -> node
  kBlocked = 6,       // feeder -> node
  kResultCredit = 7,  // feeder -> node
  kRevoke = 8,        // feeder -> node, OPTIONAL
  kMapped = 9,        // feeder -> node, OPTIONAL
  kPlaced = 10,       // feeder -> node
  kCredit = 16,       // node -> feeder, as all below
  kReceived = 17,
  kAck = 18,
  kResult = 19,
  kDone = 20,
  kWait = 21,
  kTerminated = 22,
  kError = 23,
  kRevoked = 24,
  kSegment = 25,  // OPTIONAL
  kRoom = 26,     // OPTIONAL
  kPlacedResult = 27,
};

[[nodiscard]] bool IsKnownFrameType(FrameType type);

// "BATCH", or "type 99".
[[nodiscard]] std::string FrameTypeName(FrameType type);

inline constexpr size_t kFrameHeaderSize = 32;
inline constexpr uint8_t kFrameVersion = 2;
inline constexpr uint16_t kFrameFlagOptional = 1;  // who does not know the type ignores the frame

inline constexpr size_t kMaxJsonMetadataSize = size_t{64} << 10;
inline constexpr int kMaxJsonMetadataDepth = 8;
inline constexpr size_t kMaxSchemaMetadataSize = size_t{16} << 20;
inline constexpr int64_t kMaxFrameRows = (int64_t{1} << 31) - 1;
// Of a BATCH or RESULT, metadata and body together.
inline constexpr int64_t kMaxBatchBytes = int64_t{1} << 30;

struct FrameHeader {
  FrameType type{};
  uint8_t version = kFrameVersion;
  uint16_t flags = 0;
  uint64_t session = 0;  // chosen by the feeder, never 0
  uint64_t seq = 0;      // per session and direction, from 0
  uint32_t metadata_length = 0;

  [[nodiscard]] bool optional() const { return (flags & kFrameFlagOptional) != 0; }
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// Exactly kFrameHeaderSize bytes.
[[nodiscard]] std::string EncodeHeader(const FrameHeader& header);

// Returns UNIMPLEMENTED if the version is another than ours, INVALID_ARGUMENT if the size, the
// magic, version 0, reserved flags, session 0 or the trailing zero is wrong. Unknown types decode.
[[nodiscard]] absl::StatusOr<FrameHeader> DecodeHeader(absl::string_view bytes);

// What can be told of a header of another version, so that its sender can be answered: version,
// type, session and seq stay where they are in every version. nullopt if this is no such header.
[[nodiscard]] std::optional<FrameHeader> DecodeForeignHeader(absl::string_view bytes);

// Checks the parts of a message besides the header part: `num_parts` counts all of them, the
// header's included; `metadata_bytes` is the size of part 1, 0 without one. Metadata is there
// exactly if metadata_length says so, has exactly that size, and one that the type allows; only
// BATCH and RESULT have a body, and they always have metadata. Returns INVALID_ARGUMENT. Of unknown
// types only the metadata's size is checked.
[[nodiscard]] absl::Status CheckFrameParts(const FrameHeader& header, size_t num_parts,
                                           size_t metadata_bytes);

enum class FeedMode { kTrain, kInference };

// "train" or "inference".
[[nodiscard]] absl::string_view FeedModeName(FeedMode mode);

// Where a feeder listens for replies.
struct ReplyEndpoint {
  std::string endpoint;   // "ipc://@millrace-0c2d", "tcp://127.0.0.1:40123"
  std::string challenge;  // what the node's login answers (feed/wire/login.h); empty with curve_key
  std::string curve_key;  // Z85 public key; empty unless the endpoint is a CURVE server

  friend bool operator==(const ReplyEndpoint&, const ReplyEndpoint&) = default;
};

struct OpenFrame {
  std::string feed_id;
  std::string queue;
  FeedMode mode = FeedMode::kTrain;
  int64_t partition = 0;
  int64_t data_epoch = 0;
  int64_t feeder_attempt = 0;  // that of the feeder's reports; nodes make no use of it
  std::string node_nonce;      // the node attempt meant
  std::string version;         // of the feeder's Millrace (core/base/peer_version.h); may be empty
  int64_t first_row = 0;       // 0, or in train mode the row to resume at
  int64_t result_limit = 0;    // as in ResultCreditFrame, to begin with; 0 in train mode
  bool shared_memory = false;  // the feeder can write into the node's memory
  // Another feeder, which is gone, may have fed rows of it from first_row on: train only.
  bool resumed = false;
  ReplyEndpoint reply;

  friend bool operator==(const OpenFrame&, const OpenFrame&) = default;
};

// JSON. Decode returns INVALID_ARGUMENT naming the member that is absent or wrong, or
// RESOURCE_EXHAUSTED if the text is over kMaxJsonMetadataSize. Unknown members are ignored.
// DecodeOpenReply() is for an OPEN that has a mistake: whoever can be told of it is.
[[nodiscard]] std::string EncodeOpen(const OpenFrame& frame);
[[nodiscard]] absl::StatusOr<ReplyEndpoint> DecodeOpenReply(absl::string_view metadata);
[[nodiscard]] absl::StatusOr<OpenFrame> DecodeOpen(absl::string_view metadata);

// BATCH and RESULT: their metadata is this prefix, then one encapsulated RecordBatch message.
struct BatchPrefix {
  int64_t first_row = 0;
  int64_t rows = 0;  // 1 <= rows <= kMaxFrameRows

  friend bool operator==(const BatchPrefix&, const BatchPrefix&) = default;
};
inline constexpr size_t kBatchPrefixSize = 16;

// Exactly kBatchPrefixSize bytes.
[[nodiscard]] std::string EncodeBatchPrefix(const BatchPrefix& prefix);
// `metadata` is the whole metadata part; the message begins at kBatchPrefixSize. Returns
// INVALID_ARGUMENT if it is shorter, rows are out of range, first_row + rows is over 2^63-1, or the
// zero is not.
[[nodiscard]] absl::StatusOr<BatchPrefix> DecodeBatchPrefix(absl::string_view metadata);

// PLACED and PLACED_RESULT: these 16 bytes, then what BATCH or RESULT has.
struct PlacedPrefix {
  int64_t offset = 0;  // of the body, in the segment
  int64_t length = 0;  // its bytes, at least 1

  friend bool operator==(const PlacedPrefix&, const PlacedPrefix&) = default;
};
inline constexpr size_t kPlacedPrefixSize = 16;

// Exactly kPlacedPrefixSize bytes. Decode returns INVALID_ARGUMENT if `metadata` is shorter, or a
// number is over 2^63-1; whether there is such room is not looked at.
[[nodiscard]] std::string EncodePlacedPrefix(const PlacedPrefix& prefix);
[[nodiscard]] absl::StatusOr<PlacedPrefix> DecodePlacedPrefix(absl::string_view metadata);

struct EndPartitionFrame {
  int64_t end_row = 0;  // rows of the whole partition
  friend bool operator==(const EndPartitionFrame&, const EndPartitionFrame&) = default;
};

struct BlockedFrame {
  int64_t needed = 0;  // the limit that the next BATCH needs
  friend bool operator==(const BlockedFrame&, const BlockedFrame&) = default;
};

struct CreditFrame {
  int64_t limit = 0;     // BATCH bytes that may have been sent since OPEN
  int64_t released = 0;  // of which let go; at most what was sent
  friend bool operator==(const CreditFrame&, const CreditFrame&) = default;
};

struct ResultCreditFrame {
  int64_t limit = 0;  // a RESULT may be sent while fewer RESULT bytes than these were
  friend bool operator==(const ResultCreditFrame&, const ResultCreditFrame&) = default;
};

struct RevokeFrame {
  int64_t max_row = 0;  // give back what was not handed out, if that begins at this row or before
  friend bool operator==(const RevokeFrame&, const RevokeFrame&) = default;
};

struct RowFrame {   // RECEIVED, ACK and REVOKED
  int64_t row = 0;  // all rows before this one
  friend bool operator==(const RowFrame&, const RowFrame&) = default;
};

struct RoomFrame {  // bytes of the segment that the session may write
  int64_t offset = 0;
  int64_t length = 0;
  friend bool operator==(const RoomFrame&, const RoomFrame&) = default;
};

struct DoneFrame {
  int64_t rows_in = 0;
  int64_t rows_out = 0;
  friend bool operator==(const DoneFrame&, const DoneFrame&) = default;
};

struct WaitFrame {
  int64_t position = 0;  // sessions served before this one
  int64_t progress = 0;  // grows whenever one of those advances
  friend bool operator==(const WaitFrame&, const WaitFrame&) = default;
};

// Fixed-size metadata. Decode returns INVALID_ARGUMENT if the size is wrong or a number is over
// 2^63-1.
[[nodiscard]] std::string EncodeEndPartition(const EndPartitionFrame& frame);
[[nodiscard]] absl::StatusOr<EndPartitionFrame> DecodeEndPartition(absl::string_view metadata);
[[nodiscard]] std::string EncodeBlocked(const BlockedFrame& frame);
[[nodiscard]] absl::StatusOr<BlockedFrame> DecodeBlocked(absl::string_view metadata);
[[nodiscard]] std::string EncodeResultCredit(const ResultCreditFrame& frame);
[[nodiscard]] absl::StatusOr<ResultCreditFrame> DecodeResultCredit(absl::string_view metadata);
[[nodiscard]] std::string EncodeRevoke(const RevokeFrame& frame);
[[nodiscard]] absl::StatusOr<RevokeFrame> DecodeRevoke(absl::string_view metadata);
[[nodiscard]] std::string EncodeCredit(const CreditFrame& frame);
[[nodiscard]] absl::StatusOr<CreditFrame> DecodeCredit(absl::string_view metadata);
[[nodiscard]] std::string EncodeRow(const RowFrame& frame);
[[nodiscard]] absl::StatusOr<RowFrame> DecodeRow(absl::string_view metadata);
[[nodiscard]] std::string EncodeRoom(const RoomFrame& frame);
[[nodiscard]] absl::StatusOr<RoomFrame> DecodeRoom(absl::string_view metadata);
[[nodiscard]] std::string EncodeDone(const DoneFrame& frame);
[[nodiscard]] absl::StatusOr<DoneFrame> DecodeDone(absl::string_view metadata);
[[nodiscard]] std::string EncodeWait(const WaitFrame& frame);
[[nodiscard]] absl::StatusOr<WaitFrame> DecodeWait(absl::string_view metadata);

struct ErrorFrame {                                    // ERROR and ABORT
  absl::StatusCode code = absl::StatusCode::kUnknown;  // never kOk
  std::string message;
  bool program_ended = false;  // ERROR: it has ended, and another attempt may follow
  friend bool operator==(const ErrorFrame&, const ErrorFrame&) = default;
};

struct MappedFrame {
  std::string reason;    // why the segment cannot be used; empty: it can
  bool results = false;  // results may come through it too
  friend bool operator==(const MappedFrame&, const MappedFrame&) = default;
};

struct SegmentFrame {  // see feed/segment/segment.h
  int64_t pid = 0;
  int64_t fd = 0;
  int64_t bytes = 0;
  std::string id;
  friend bool operator==(const SegmentFrame&, const SegmentFrame&) = default;
};

struct TerminatedFrame {
  std::string message;
  int64_t row = 0;  // the program was given those before it, and may use them; 0: as acknowledged
  friend bool operator==(const TerminatedFrame&, const TerminatedFrame&) = default;
};

// JSON, as OPEN. A message that would make the metadata too long is cut. A code that is no name of
// a gRPC status code decodes as kUnknown, "OK" too.
[[nodiscard]] std::string EncodeError(const ErrorFrame& frame);
[[nodiscard]] absl::StatusOr<ErrorFrame> DecodeError(absl::string_view metadata);
[[nodiscard]] std::string EncodeMapped(const MappedFrame& frame);
[[nodiscard]] absl::StatusOr<MappedFrame> DecodeMapped(absl::string_view metadata);
[[nodiscard]] std::string EncodeSegment(const SegmentFrame& frame);
[[nodiscard]] absl::StatusOr<SegmentFrame> DecodeSegment(absl::string_view metadata);
[[nodiscard]] std::string EncodeTerminated(const TerminatedFrame& frame);
[[nodiscard]] absl::StatusOr<TerminatedFrame> DecodeTerminated(absl::string_view metadata);

}  // namespace millrace

#endif  // FEED_WIRE_FRAME_H_
