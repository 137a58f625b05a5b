// File: feed/ipc/ipc.h
//
// Arrow IPC messages as SCHEMA, BATCH and RESULT frames carry them (docs/feed_protocol.md, sections
// 3 and 7): from Schema and RecordBatch to bytes without copying large buffers, and back from bytes
// that nobody has checked.
//
// Defines: BodyPart, EncodedBatch, EncodeSchema(), DecodeSchema(), EncodeBatch(), BatchDecoder.
//
//   std::string schema_message = *EncodeSchema(batch.schema());
//   EncodedBatch encoded = *EncodeBatch(batch);
//   // ... on the other side
//   MILLRACE_ASSIGN_OR_RETURN(Schema schema, DecodeSchema(schema_message));
//   BatchDecoder decoder(schema);
//   MILLRACE_ASSIGN_OR_RETURN(RecordBatch received,
//                             decoder.Decode(encoded.metadata, rows, std::move(encoded.parts)));

#ifndef FEED_IPC_IPC_H_
#define FEED_IPC_IPC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"

namespace millrace {

// Largest SCHEMA metadata (section 3).
inline constexpr size_t kMaxSchemaMessageBytes = size_t{16} << 20;
// Most rows of one BATCH or RESULT (section 3).
inline constexpr int64_t kMaxBatchRows = (int64_t{1} << 31) - 1;
// Buffers from this size on travel as parts of their own, from where they lie.
inline constexpr size_t kZeroCopyMinBytes = 32 * 1024;

// One message part: `size` bytes at `data`, alive while `owner` is held, and unchanged unless
// `shared`.
struct BodyPart {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;
  // Another process may change the bytes at any time. A decoder copies offsets and validity before
  // it checks them, so that they stay as they were checked.
  bool shared = false;
};

struct EncodedBatch {
  // The encapsulated RecordBatch message without body. The frame's metadata puts first_row and rows
  // before it.
  std::string metadata;
  // The body. Sizes need not be multiples of 8: padding between parts is implied.
  std::vector<BodyPart> parts;

  // Bytes on the wire: metadata and parts.
  [[nodiscard]] size_t byte_size() const;
  // Of the body in one piece, in which each part begins at a multiple of 8.
  [[nodiscard]] size_t body_size() const;
  // Writes it in one piece: body_size() bytes.
  void CopyBody(uint8_t* to) const;
};

// The encapsulated Schema message.
// Returns RESOURCE_EXHAUSTED if it would be over kMaxSchemaMessageBytes.
[[nodiscard]] absl::StatusOr<std::string> EncodeSchema(const Schema& schema);

// Reads what EncodeSchema or another Arrow writer made. Any bytes are safe.
// Returns INVALID_ARGUMENT if it is no well-formed, little-endian Schema message of exactly this
// size, within kMaxColumns and kMaxNesting: the sender is to be treated as broken. Returns
// UNIMPLEMENTED, naming the column, if the message is in order but holds what feeds do not carry
// (a type, two columns of one name; see millrace/schema.h): the session is to end with
// INVALID_ARGUMENT.
[[nodiscard]] absl::StatusOr<Schema> DecodeSchema(absl::string_view message);

// Only the bytes of the batch's rows travel, whatever it is a slice of. Parts of at least
// kZeroCopyMinBytes point into the batch, the others into memory of their own.
// Returns INVALID_ARGUMENT if the batch has no rows or more than kMaxBatchRows, or, naming the
// column, lists with more values than that together.
[[nodiscard]] absl::StatusOr<EncodedBatch> EncodeBatch(const RecordBatch& batch);

// Decodes the batches of one session. Thread safety: const methods may run concurrently.
class BatchDecoder {
 public:
  explicit BatchDecoder(Schema schema) : schema_(std::move(schema)) {}

  // `metadata` is the encapsulated RecordBatch message (without the first 16 bytes of the frame's
  // metadata), `rows` the frame's row count. Any bytes are safe, and nothing is allocated but a
  // small multiple of what came. A buffer stays in its part (whose owner the batch then keeps) if
  // it lies aligned there, and is copied otherwise.
  //
  // Returns INVALID_ARGUMENT, naming the column where there is one, for every violation of section
  // 7: the sender is to be treated as broken.
  [[nodiscard]] absl::StatusOr<RecordBatch> Decode(absl::string_view metadata, uint32_t rows,
                                                   std::vector<BodyPart> parts) const;

  [[nodiscard]] const Schema& schema() const { return schema_; }

 private:
  Schema schema_;
};

}  // namespace millrace

#endif  // FEED_IPC_IPC_H_
