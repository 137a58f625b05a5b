#include "millrace/source.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "nanoarrow/nanoarrow.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

absl::Status StreamError(ArrowArrayStream* stream, int code, absl::string_view doing) {
  const char* message = stream->get_last_error(stream);
  return absl::Status(absl::ErrnoToStatusCode(code),
                      absl::StrCat("Arrow stream, ", doing, ": ",
                                   message == nullptr ? absl::StrCat("error ", code)
                                                      : EscapeControls(Ellipsize(message, 1000))));
}

class StreamReader final : public RecordBatchReader {
 public:
  StreamReader(nanoarrow::UniqueArrayStream stream, Schema schema)
      : stream_(std::move(stream)), schema_(std::move(schema)) {}

  const Schema& schema() const override { return schema_; }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (stream_->release == nullptr) return std::optional<RecordBatch>();
    nanoarrow::UniqueArray array;
    const int code = stream_->get_next(stream_.get(), array.get());
    if (code != 0) return StreamError(stream_.get(), code, "reading a batch");
    if (array->release == nullptr) {
      stream_.reset();  // the end; the producer's resources go now
      return std::optional<RecordBatch>();
    }
    MILLRACE_ASSIGN_OR_RETURN(RecordBatch batch, RecordBatch::FromArrowArray(schema_, array.get()));
    return std::optional<RecordBatch>(std::move(batch));
  }

 private:
  nanoarrow::UniqueArrayStream stream_;  // released after the end
  const Schema schema_;
};

// What an exported stream's private_data points to.
struct ExportedStream {
  std::unique_ptr<RecordBatchReader> reader;
  absl::Status status;  // of the last call
  std::string error;    // its message
};

ExportedStream* Exported(const ArrowArrayStream* stream) {
  return static_cast<ExportedStream*>(stream->private_data);
}

int ExportedSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  Exported(stream)->reader->schema().Export(out);
  return 0;
}

// The errno value that absl::ErrnoToStatusCode maps back to `code`, where there is one.
int ErrnoOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kNotFound:
      return ENOENT;
    case absl::StatusCode::kAlreadyExists:
      return EEXIST;
    case absl::StatusCode::kPermissionDenied:
      return EACCES;
    case absl::StatusCode::kResourceExhausted:
      return ENOSPC;
    case absl::StatusCode::kCancelled:
      return ECANCELED;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kUnimplemented:
      return ENOSYS;
    case absl::StatusCode::kUnavailable:
      return EAGAIN;
    case absl::StatusCode::kFailedPrecondition:
      return EBUSY;
    case absl::StatusCode::kAborted:
      return ESTALE;
    case absl::StatusCode::kOutOfRange:
      return ERANGE;
    default:
      return EIO;
  }
}

int ExportedNext(ArrowArrayStream* stream, ArrowArray* out) {
  ExportedStream* self = Exported(stream);
  absl::StatusOr<std::optional<RecordBatch>> batch = self->reader->Next();
  self->status = batch.status();
  self->error = std::string(self->status.message());
  if (!batch.ok()) return ErrnoOf(self->status.code());
  *out = ArrowArray{};  // release == nullptr is the end
  if (batch->has_value()) (*batch)->Export(out);
  return 0;
}

const char* ExportedError(ArrowArrayStream* stream) {
  const std::string& error = Exported(stream)->error;
  return error.empty() ? nullptr : error.c_str();
}

void ReleaseStream(ArrowArrayStream* stream) {
  delete Exported(stream);
  stream->release = nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordBatchReader>> MakeStreamReader(ArrowArrayStream* stream) {
  nanoarrow::UniqueArrayStream owned(stream);
  if (owned->release == nullptr) return absl::InvalidArgumentError("the Arrow stream is released");
  nanoarrow::UniqueSchema c_schema;
  const int code = owned->get_schema(owned.get(), c_schema.get());
  if (code != 0) return StreamError(owned.get(), code, "reading the schema");
  MILLRACE_ASSIGN_OR_RETURN(Schema schema, Schema::FromArrowSchema(*c_schema.get()));
  return std::make_unique<StreamReader>(std::move(owned), std::move(schema));
}

void ExportReader(std::unique_ptr<RecordBatchReader> reader, ArrowArrayStream* out) {
  out->get_schema = &ExportedSchema;
  out->get_next = &ExportedNext;
  out->get_last_error = &ExportedError;
  out->release = &ReleaseStream;
  out->private_data = new ExportedStream{std::move(reader), absl::OkStatus(), ""};
}

absl::Status ExportedStatus(const ArrowArrayStream& stream) {
  if (stream.release != &ReleaseStream) {
    return absl::InvalidArgumentError("the Arrow stream is released, or another library's");
  }
  return Exported(&stream)->status;
}

absl::StatusOr<std::unique_ptr<StreamSource>> StreamSource::Create(int num_partitions,
                                                                   OpenFunction open,
                                                                   bool deterministic) {
  if (num_partitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_partitions must be at least 1, found ", num_partitions));
  }
  if (open == nullptr) return absl::InvalidArgumentError("a source of streams needs a function");
  return std::unique_ptr<StreamSource>(
      new StreamSource(num_partitions, std::move(open), deterministic));
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> StreamSource::Open(int partition,
                                                                      int64_t data_epoch) const {
  if (partition < 0 || partition >= num_partitions_) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions_));
  }
  nanoarrow::UniqueArrayStream stream;
  MILLRACE_RETURN_IF_ERROR(open_(partition, data_epoch, stream.get()));
  return MakeStreamReader(stream.get());
}

}  // namespace millrace
