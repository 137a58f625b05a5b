// A few functions of //feed for pyarrow_test.py, callable through ctypes. Structs are those of the
// Arrow C Data Interface; arguments are taken over, results are released by the caller. Every
// function returns 0, or 1 after writing a message to `error`, of kErrorBytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/ipc/ipc.h"
#include "millrace/batch.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

constexpr size_t kErrorBytes = 1000;

int Report(const absl::Status& status, char* error) {
  if (status.ok()) return 0;
  const std::string text = status.ToString().substr(0, kErrorBytes - 1);
  std::memcpy(error, text.c_str(), text.size() + 1);
  return 1;
}

absl::Status Slice(ArrowSchema* schema, ArrowArray* array, int64_t first, int64_t rows,
                   ArrowSchema* out_schema, ArrowArray* out) {
  MILLRACE_ASSIGN_OR_RETURN(const Batch batch, Batch::Import(schema, array));
  MILLRACE_ASSIGN_OR_RETURN(const Batch slice,
                            Batch::Create(batch.record_batch().Slice(first, rows)));
  slice.Export(out_schema, out);
  return absl::OkStatus();
}

// The length of an encapsulated message at the beginning of `stream`.
absl::StatusOr<size_t> MessageBytes(absl::string_view stream) {
  int32_t length = 0;
  if (stream.size() < 8) return absl::InvalidArgumentError("the stream is truncated");
  std::memcpy(&length, stream.data() + 4, sizeof(length));
  const size_t bytes = 8 + static_cast<size_t>(length);
  if (bytes > stream.size()) return absl::InvalidArgumentError("the stream is truncated");
  return bytes;
}

absl::StatusOr<std::string> Encode(ArrowSchema* schema, ArrowArray* array, int64_t first,
                                   int64_t rows) {
  MILLRACE_ASSIGN_OR_RETURN(const RecordBatch batch, RecordBatch::Import(schema, array));
  MILLRACE_ASSIGN_OR_RETURN(std::string stream, EncodeSchema(batch.schema()));
  MILLRACE_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeBatch(batch.Slice(first, rows)));
  stream += encoded.metadata;
  for (const BodyPart& part : encoded.parts) {
    stream.append(reinterpret_cast<const char*>(part.data), part.size);
    stream.resize((stream.size() + 7) / 8 * 8);
  }
  return stream;
}

// A stream of a schema and one batch, as pyarrow writes it, without its end.
absl::Status Decode(absl::string_view stream, uint32_t rows, ArrowSchema* out_schema,
                    ArrowArray* out) {
  MILLRACE_ASSIGN_OR_RETURN(const size_t schema_bytes, MessageBytes(stream));
  absl::StatusOr<Schema> schema = DecodeSchema(stream.substr(0, schema_bytes));
  if (!schema.ok()) return schema.status();
  stream.remove_prefix(schema_bytes);
  MILLRACE_ASSIGN_OR_RETURN(const size_t batch_bytes, MessageBytes(stream));
  const auto body = std::make_shared<const std::string>(stream.substr(batch_bytes));
  MILLRACE_ASSIGN_OR_RETURN(
      const RecordBatch batch,
      BatchDecoder(*schema).Decode(
          stream.substr(0, batch_bytes), rows,
          {{reinterpret_cast<const uint8_t*>(body->data()), body->size(), body}}));
  batch.schema().Export(out_schema);
  batch.Export(out);
  return absl::OkStatus();
}

absl::Status Concat(ArrowArrayStream* in, ArrowSchema* out_schema, ArrowArray* out) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordBatchReader> reader, MakeStreamReader(in));
  std::vector<RecordBatch> batches;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> batch, reader->Next());
    if (!batch.has_value()) break;
    batches.push_back(*std::move(batch));
  }
  MILLRACE_ASSIGN_OR_RETURN(const RecordBatch all, RecordBatch::Concat(batches));
  all.schema().Export(out_schema);
  all.Export(out);
  return absl::OkStatus();
}

absl::Status Restream(ArrowArrayStream* in, ArrowArrayStream* out) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RecordBatchReader> reader, MakeStreamReader(in));
  ExportReader(std::move(reader), out);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

extern "C" {

int bridge_slice(ArrowSchema* schema, ArrowArray* array, int64_t first, int64_t rows,
                 ArrowSchema* out_schema, ArrowArray* out, char* error) {
  return millrace::Report(millrace::Slice(schema, array, first, rows, out_schema, out), error);
}

// *stream points to *bytes bytes until bridge_free(*handle).
int bridge_encode(ArrowSchema* schema, ArrowArray* array, int64_t first, int64_t rows,
                  void** handle, const char** stream, int64_t* bytes, char* error) {
  absl::StatusOr<std::string> encoded = millrace::Encode(schema, array, first, rows);
  if (!encoded.ok()) return millrace::Report(encoded.status(), error);
  auto* kept = new std::string(*std::move(encoded));
  *handle = kept;
  *stream = kept->data();
  *bytes = static_cast<int64_t>(kept->size());
  return 0;
}

void bridge_free(void* handle) { delete static_cast<std::string*>(handle); }

int bridge_decode(const char* stream, int64_t bytes, int64_t rows, ArrowSchema* out_schema,
                  ArrowArray* out, char* error) {
  return millrace::Report(millrace::Decode({stream, static_cast<size_t>(bytes)},
                                           static_cast<uint32_t>(rows), out_schema, out),
                          error);
}

int bridge_concat(ArrowArrayStream* in, ArrowSchema* out_schema, ArrowArray* out, char* error) {
  return millrace::Report(millrace::Concat(in, out_schema, out), error);
}

int bridge_restream(ArrowArrayStream* in, ArrowArrayStream* out, char* error) {
  return millrace::Report(millrace::Restream(in, out), error);
}
}
