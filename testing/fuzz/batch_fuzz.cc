// BATCH and RESULT, metadata and body. The input, little-endian:
//
//   u16 size, SCHEMA metadata
//   u32 rows
//   u16 size, the RecordBatch message without its body
//   then body parts, each as u16 size and its bytes
//
// Every size is cut to what is there. What decodes is read in every way a program may read it, and
// once more out of shared memory, whose bytes change after they were checked.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/ipc/ipc.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

template <typename Int>
Int TakeInt(absl::string_view* input) {
  Int value = 0;
  const size_t size = std::min(sizeof value, input->size());
  std::memcpy(&value, input->data(), size);
  input->remove_prefix(size);
  return value;
}

absl::string_view TakeSized(absl::string_view* input) {
  const absl::string_view taken = input->substr(0, TakeInt<uint16_t>(input));
  input->remove_prefix(taken.size());
  return taken;
}

// Memory of exactly this size, so that ASan sees every byte read behind it.
BodyPart ToPart(absl::string_view bytes) {
  std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes.size()]);
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  const uint8_t* data = memory.get();
  return {data, bytes.size(), std::move(memory)};
}

// The bytes that a receiver makes of a batch that came are a small multiple of it: a bool is a bit
// on the wire and in memory, and no byte of the body belongs to two columns.
constexpr int64_t kMostGrowth = 4;

void Read(const RecordBatch& batch, size_t input_bytes) {
  FUZZ_CHECK(batch.byte_size() <= kMostGrowth * static_cast<int64_t>(input_bytes) + 1024);
  const absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  FUZZ_CHECK(encoded.ok());
  const absl::StatusOr<RecordBatch> again =
      BatchDecoder(batch.schema())
          .Decode(encoded->metadata, static_cast<uint32_t>(batch.num_rows()), encoded->parts);
  FUZZ_CHECK(again.ok() && again->Equals(batch));
  const int64_t half = batch.num_rows() / 2;
  const absl::StatusOr<RecordBatch> joined = RecordBatch::Concat(
      std::vector{batch.Slice(half, batch.num_rows() - half), batch.Slice(0, half), batch});
  FUZZ_CHECK(joined.ok() && joined->num_rows() == 2 * batch.num_rows());
  FUZZ_CHECK(joined->Slice(batch.num_rows(), batch.num_rows()).Equals(batch));
}

// As Read(), where the values may be any: what is read must stay within what was checked.
void ReadChanged(const RecordBatch& batch) {
  FUZZ_CHECK(EncodeBatch(batch).ok());
  const absl::StatusOr<RecordBatch> joined = RecordBatch::Concat(std::vector{batch, batch});
  FUZZ_CHECK(joined.ok() && joined->num_rows() == 2 * batch.num_rows());
}

}  // namespace

void Fuzz(absl::string_view input) {
  const size_t input_bytes = input.size();
  const absl::StatusOr<Schema> schema = DecodeSchema(TakeSized(&input));
  if (!schema.ok()) return;
  const uint32_t rows = TakeInt<uint32_t>(&input);
  const BodyPart metadata = ToPart(TakeSized(&input));
  std::vector<BodyPart> parts;
  while (!input.empty()) parts.push_back(ToPart(TakeSized(&input)));
  const absl::string_view message(reinterpret_cast<const char*>(metadata.data), metadata.size);
  const absl::StatusOr<RecordBatch> batch = BatchDecoder(*schema).Decode(message, rows, parts);
  if (!batch.ok()) return;
  Read(*batch, input_bytes);
  for (BodyPart& part : parts) part.shared = true;
  const absl::StatusOr<RecordBatch> shared = BatchDecoder(*schema).Decode(message, rows, parts);
  FUZZ_CHECK(shared.ok() && shared->Equals(*batch));
  for (const BodyPart& part : parts) {
    auto* const bytes = const_cast<uint8_t*>(part.data);
    std::transform(bytes, bytes + part.size, bytes, [](uint8_t byte) { return ~byte; });
  }
  ReadChanged(*shared);
}

}  // namespace millrace
