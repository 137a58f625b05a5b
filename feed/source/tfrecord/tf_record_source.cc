#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "feed/source/tfrecord/example_batch_builder.h"
#include "feed/source/tfrecord/input_files.h"
#include "feed/source/tfrecord/record_reader.h"
#include "feed/source/tfrecord/schema_sample.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "millrace/tf_record.h"
#include "millrace/types.h"

namespace millrace {
namespace {

constexpr int64_t kMaxBatchBytes = int64_t{1} << 30;
// What the offsets of a column can count.
constexpr auto kMostBytes = static_cast<int64_t>(kMaxRecordBytes);

// The column "record" of a source of raw records.
absl::StatusOr<Schema> RawSchema() {
  return SchemaBuilder().Add("record", Type::Binary(), /*nullable=*/false).Build();
}

absl::Status CheckOptions(const TfRecordSourceOptions& options) {
  if (options.batch_bytes < 1 || options.batch_bytes > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_bytes is ", options.batch_bytes, ", must be 1 to ", kMaxBatchBytes));
  }
  if (options.sample_records < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample_records is ", options.sample_records, ", must be at least 1"));
  }
  if (options.raw && options.schema.has_value()) {
    return absl::InvalidArgumentError("raw records have no schema of yours; leave it out");
  }
  if (!options.binary_features.empty() && (options.raw || options.schema.has_value())) {
    return absl::InvalidArgumentError(
        "binary_features is for a schema that is inferred; leave it out");
  }
  return options.schema.has_value() ? CheckFeatureColumns(*options.schema) : absl::OkStatus();
}

// The first records of all files, up to options.sample_records.
absl::StatusOr<Schema> InferSchema(const std::vector<std::string>& files,
                                   const TfRecordSourceOptions& options) {
  SchemaSample sample;
  for (const std::string& file : files) {
    if (sample.num_records() == options.sample_records) break;
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(file));
    while (sample.num_records() < options.sample_records) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> record, reader->Next());
      if (!record.has_value()) break;
      const absl::Status status = sample.Add(*record);
      if (!status.ok()) return Annotate(status, reader->Place());
    }
  }
  absl::StatusOr<Schema> schema = sample.Infer(options.binary_features);
  if (!schema.ok()) return Annotate(schema.status(), files.front());
  return schema;
}

class TfRecordReader final : public RecordBatchReader {
 public:
  TfRecordReader(std::unique_ptr<RecordReader> records, Schema schema, bool raw,
                 int64_t batch_bytes)
      : records_(std::move(records)),
        builder_(std::move(schema)),
        raw_(raw),
        batch_bytes_(batch_bytes) {}

  const Schema& schema() const override { return builder_.schema(); }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    int64_t data_bytes = 0, batch_bytes = 0;
    while (batch_bytes < batch_bytes_) {
      if (!pending_.has_value()) {
        MILLRACE_ASSIGN_OR_RETURN(pending_, records_->Next());
        if (!pending_.has_value()) break;
      }
      const auto size = static_cast<int64_t>(pending_->size());
      if (data_bytes + size > kMostBytes) break;  // it begins the next batch
      if (raw_) {
        builder_.AddRaw(*pending_);
      } else if (const absl::Status added = builder_.Add(*pending_); !added.ok()) {
        return Annotate(added, records_->Place());
      }
      pending_.reset();
      data_bytes += size;
      batch_bytes += size + builder_.fixed_row_bytes();
    }
    if (builder_.num_rows() == 0) return std::optional<RecordBatch>();
    return std::optional<RecordBatch>(builder_.Finish());
  }

 private:
  const std::unique_ptr<RecordReader> records_;
  ExampleBatchBuilder builder_;
  const bool raw_;
  const int64_t batch_bytes_;
  std::optional<absl::string_view> pending_;  // read, and in no batch yet
};

}  // namespace

absl::StatusOr<std::unique_ptr<TfRecordSource>> TfRecordSource::Create(
    const std::vector<std::string>& paths, const TfRecordSourceOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  if (paths.empty()) return absl::InvalidArgumentError("a TFRecord source needs a file");
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> files, FindInputFiles(paths));
  for (const std::string& file : files) {
    MILLRACE_RETURN_IF_ERROR(RecordReader::Open(file));
  }
  std::optional<Schema> schema = options.schema;
  if (options.raw) {
    MILLRACE_ASSIGN_OR_RETURN(schema, RawSchema());
  } else if (!schema.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(schema, InferSchema(files, options));
  }
  return std::unique_ptr<TfRecordSource>(
      new TfRecordSource(*std::move(schema), std::move(files), options.raw, options.batch_bytes));
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> TfRecordSource::Open(
    int partition, int64_t /*data_epoch*/) const {
  if (partition < 0 || partition >= num_partitions()) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions()));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> records,
                            RecordReader::Open(files_[static_cast<size_t>(partition)]));
  return std::unique_ptr<RecordBatchReader>(
      std::make_unique<TfRecordReader>(std::move(records), schema_, raw_, batch_bytes_));
}

}  // namespace millrace
