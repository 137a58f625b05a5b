// Frames of docs/feed_protocol.md sections 2 and 3: the input is a header of 32 bytes, then the
// metadata. Whatever decodes is encoded again, and that decodes to the same.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/wire/frame.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

template <typename Frame>
void RoundTrip(absl::StatusOr<Frame> (*decode)(absl::string_view),
               std::string (*encode)(const Frame&), absl::string_view metadata) {
  const absl::StatusOr<Frame> frame = decode(metadata);
  if (!frame.ok()) return;
  const std::string bytes = encode(*frame);
  const absl::StatusOr<Frame> again = decode(bytes);
  FUZZ_CHECK(again.ok());
  // What is encoded may be cut (an ERROR's message), but from then on it stays.
  FUZZ_CHECK(encode(*again) == bytes);
  if (bytes.size() < kMaxJsonMetadataSize / 2) FUZZ_CHECK(*again == *frame);
}

void DecodeMetadata(FrameType type, absl::string_view metadata) {
  switch (type) {
    case FrameType::kOpen:
      // Its encoding may be longer than what came (escapes), and then too long to be decoded.
      if (metadata.size() < kMaxJsonMetadataSize / 8) {
        RoundTrip<OpenFrame>(DecodeOpen, EncodeOpen, metadata);
      }
      break;
    case FrameType::kBatch:
    case FrameType::kResult:
      if (const absl::StatusOr<BatchPrefix> prefix = DecodeBatchPrefix(metadata); prefix.ok()) {
        FUZZ_CHECK(EncodeBatchPrefix(*prefix) == metadata.substr(0, kBatchPrefixSize));
      }
      break;
    case FrameType::kPlaced:
    case FrameType::kPlacedResult:
      if (const absl::StatusOr<PlacedPrefix> prefix = DecodePlacedPrefix(metadata); prefix.ok()) {
        FUZZ_CHECK(EncodePlacedPrefix(*prefix) == metadata.substr(0, kPlacedPrefixSize));
        const absl::string_view rest = metadata.substr(kPlacedPrefixSize);
        DecodeMetadata(FrameType::kBatch, rest);
      }
      break;
    case FrameType::kEndPartition:
      RoundTrip<EndPartitionFrame>(DecodeEndPartition, EncodeEndPartition, metadata);
      break;
    case FrameType::kBlocked:
      RoundTrip<BlockedFrame>(DecodeBlocked, EncodeBlocked, metadata);
      break;
    case FrameType::kResultCredit:
      RoundTrip<ResultCreditFrame>(DecodeResultCredit, EncodeResultCredit, metadata);
      break;
    case FrameType::kRevoke:
      RoundTrip<RevokeFrame>(DecodeRevoke, EncodeRevoke, metadata);
      break;
    case FrameType::kMapped:
      RoundTrip<MappedFrame>(DecodeMapped, EncodeMapped, metadata);
      break;
    case FrameType::kSegment:
      RoundTrip<SegmentFrame>(DecodeSegment, EncodeSegment, metadata);
      break;
    case FrameType::kRoom:
      RoundTrip<RoomFrame>(DecodeRoom, EncodeRoom, metadata);
      break;
    case FrameType::kCredit:
      RoundTrip<CreditFrame>(DecodeCredit, EncodeCredit, metadata);
      break;
    case FrameType::kReceived:
    case FrameType::kAck:
    case FrameType::kRevoked:
      RoundTrip<RowFrame>(DecodeRow, EncodeRow, metadata);
      break;
    case FrameType::kDone:
      RoundTrip<DoneFrame>(DecodeDone, EncodeDone, metadata);
      break;
    case FrameType::kWait:
      RoundTrip<WaitFrame>(DecodeWait, EncodeWait, metadata);
      break;
    case FrameType::kAbort:
    case FrameType::kError:
      RoundTrip<ErrorFrame>(DecodeError, EncodeError, metadata);
      break;
    case FrameType::kTerminated:
      RoundTrip<TerminatedFrame>(DecodeTerminated, EncodeTerminated, metadata);
      break;
    case FrameType::kSchema:  // schema_fuzz.cc
      break;
  }
}

}  // namespace

void Fuzz(absl::string_view input) {
  static_cast<void>(DecodeForeignHeader(input));
  const absl::string_view head = input.substr(0, kFrameHeaderSize);
  const absl::string_view metadata = input.substr(head.size());
  const absl::StatusOr<FrameHeader> header = DecodeHeader(head);
  if (!header.ok()) return;
  FUZZ_CHECK(EncodeHeader(*header) == head);
  for (const size_t parts : {1, 2, 3}) {
    static_cast<void>(CheckFrameParts(*header, parts, metadata.size()));
  }
  // Also where metadata_length is wrong: a mutation of the text seldom keeps it right.
  DecodeMetadata(header->type, metadata);
}

}  // namespace millrace
