#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "feed/source/tfrecord/example_batch_builder.h"
#include "feed/source/tfrecord/example_encoder.h"
#include "feed/source/tfrecord/record_writer.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/tf_record.h"

namespace millrace {
namespace {

absl::Status CheckRawSchema(const Schema& schema) {
  if (schema.num_columns() == 1 && schema.type(0).is_variable()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("raw records are the values of one column of binary or utf8; the schema is ",
                   schema.ToString()));
}

}  // namespace

struct [[gnu::visibility("hidden")]] TfRecordWriter::State {
  std::string path;
  Schema schema;
  bool raw = false;
  ExampleEncoder encoder;
  std::unique_ptr<RecordWriter> file;  // null: nothing may be written any more
  std::string example;
  int64_t rows = 0;

  absl::Status WriteRows(const RecordBatch& batch) {
    const ColumnView first = batch.column(0);
    if (!raw) encoder.Begin(batch);
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (!raw) {
        MILLRACE_RETURN_IF_ERROR(At(row, encoder.Encode(row, &example)));
        MILLRACE_RETURN_IF_ERROR(file->Append(example));
      } else if (first.IsNull(row)) {
        return At(row, absl::InvalidArgumentError("the value is null; a record is bytes"));
      } else {
        MILLRACE_RETURN_IF_ERROR(file->Append(first.BytesAt(row)));
      }
    }
    rows += batch.num_rows();
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status At(int64_t row, const absl::Status& status) const {
    return status.ok() ? status : Annotate(status, absl::StrCat(path, ", row ", rows + row));
  }
};

TfRecordWriter::TfRecordWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

TfRecordWriter::~TfRecordWriter() = default;

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(
    std::string path, Schema schema, const TfRecordWriterOptions& options) {
  MILLRACE_RETURN_IF_ERROR(options.raw ? CheckRawSchema(schema) : CheckFeatureColumns(schema));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> file,
                            RecordWriter::Create(path, options.compression));
  ExampleEncoder encoder(schema);
  std::unique_ptr<State> state(new State{.path = std::move(path),
                                         .schema = std::move(schema),
                                         .raw = options.raw,
                                         .encoder = std::move(encoder),
                                         .file = std::move(file)});
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(std::move(state)));
}

absl::Status TfRecordWriter::Write(const RecordBatch& batch) {
  State& state = *state_;
  if (state.file == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(state.path, " is finished, or an error has ended it"));
  }
  absl::Status status;
  if (batch.schema() == state.schema) {
    status = state.WriteRows(batch);
  } else {
    status = absl::InvalidArgumentError(absl::StrCat(
        state.path,
        ": a batch of another schema: ", Schema::DescribeDifference(state.schema, batch.schema())));
  }
  if (!status.ok()) state.file = nullptr;
  return status;
}

absl::Status TfRecordWriter::Finish() {
  if (state_->file == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(state_->path, " is finished, or an error has ended it"));
  }
  const std::unique_ptr<RecordWriter> file = std::move(state_->file);
  return file->Finish();
}

}  // namespace millrace
