// File: millrace/tf_record.h
//
// TFRecord files, in which TensorFlow's programs keep their data: a source of the rows in them, and
// a writer. Neither TensorFlow nor Protobuf is needed.
//
// Defines: TfRecordSource, TfRecordSourceOptions, TfRecordWriter, TfRecordWriterOptions,
// TfRecordCompression.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TfRecordSource> source,
//                             TfRecordSource::Create({"/data/train"}));
//   MILLRACE_RETURN_IF_ERROR(cluster->Train(*source));
//
// A record is a serialised tensorflow.Example, one row; each of its features is a column:
//
//   feature      a column of one value            a column of any number of values
//   Int64List    int8 to int64, uint8 to uint64,  list, large_list or fixed_size_list of these
//                bool (0 and 1)
//   FloatList    float32, float64                 the same
//   BytesList    utf8, binary, large_utf8,        the same
//                large_binary
//
// A feature that a record does not have is null. So is, in all columns but those of list and
// large_list, one without a value. Other records are read and written as they are: see `raw`.

#ifndef MILLRACE_TF_RECORD_H_
#define MILLRACE_TF_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"

namespace millrace {

// ---- reading ------------------------------------------------------------------------------------

struct TfRecordSourceOptions {
  // The columns, in their order; features that are no column are skipped. nullopt: inferred from
  // the first `sample_records` (> 0) records of all files together, in the order of names, all
  // nullable:
  //   int64, float32 or utf8, if the feature has one value in every record that has it,
  //   list of these otherwise,
  //   binary in place of utf8, if `binary_features` names it or a value is not UTF-8.
  std::optional<Schema> schema;
  int64_t sample_records = 100;
  std::vector<std::string> binary_features;

  // Every record is one row, whatever it holds: the bytes in the column "record", binary not null.
  // There is no schema then.
  bool raw = false;

  // A batch ends with the record that brings it to this many bytes, about. 1 to 2^30.
  int64_t batch_bytes = kDefaultBatchBytes;
};

// Rows from TFRecord files, compressed by GZIP, by ZLIB, or not at all, which their first bytes
// tell. One file is one partition; a file without records is an empty one.
//
//   TfRecordSourceOptions options;
//   MILLRACE_ASSIGN_OR_RETURN(options.schema,
//                             SchemaBuilder()
//                                 .Add("image", Type::FixedSizeList(Type::Float32(), 784))
//                                 .Add("label", Type::Int64(), /*nullable=*/false)
//                                 .Build());
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TfRecordSource> source,
//                             TfRecordSource::Create({"train-*.tfrecord"}, options));
//
// Any bytes are safe: both checksums of every record are compared, and no length is believed before
// the bytes are there. A record has at most 2^31-1 bytes, as a message of Protobuf has.
//
// Deterministic as long as the files stay as they are. Memory: a batch, and the longest record, per
// open reader. A file that is cut short meanwhile is an error, never a crash.
class TfRecordSource final : public PartitionedSource {
 public:
  // Each path is a file, a folder, or a pattern with *, ? or [ as glob(7) has it, if there is no
  // file of that name. Of a folder, and of what a pattern finds, the files are taken, in the order
  // of their names, except those whose names begin with "." or "_", as Spark's _SUCCESS.
  //
  // Opens every file and, if the schema is to be inferred, reads the sample. Returns NOT_FOUND,
  // PERMISSION_DENIED and so on with the path, NOT_FOUND also for a folder or a pattern without a
  // file; INVALID_ARGUMENT without a path, for options that make no sense, for a column of a type
  // that is not in the table above, for a file that is no TFRecord file, and if no schema can be
  // inferred (no records; a feature of two kinds); otherwise as readers do.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TfRecordSource>> Create(
      const std::vector<std::string>& paths, const TfRecordSourceOptions& options = {});

  [[nodiscard]] const Schema& schema() const { return schema_; }
  // The files, by partition.
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  [[nodiscard]] int num_partitions() const override { return static_cast<int>(files_.size()); }
  // Readers return DATA_LOSS, naming the file, the record and its first byte, if a checksum is
  // wrong, if the file ends within a record, or if compressed data is damaged; INVALID_ARGUMENT for
  // a record that is no Example, and for a feature that does not fit its column: of another kind,
  // of another number of values, out of range, not UTF-8, or missing and not nullable.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  TfRecordSource(Schema schema, std::vector<std::string> files, bool raw, int64_t batch_bytes)
      : schema_(std::move(schema)),
        files_(std::move(files)),
        raw_(raw),
        batch_bytes_(batch_bytes) {}

  Schema schema_;
  std::vector<std::string> files_;
  bool raw_;
  int64_t batch_bytes_;
};

// ---- writing ------------------------------------------------------------------------------------

enum class TfRecordCompression { kNone, kGzip, kZlib };

struct TfRecordWriterOptions {
  TfRecordCompression compression = TfRecordCompression::kNone;
  // The values of the schema's only column (utf8, binary or a large form of one, without nulls) are
  // the records. Otherwise a row is an Example.
  bool raw = false;
};

// Writes a file of records, which is there once it is complete.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TfRecordWriter> writer,
//                             TfRecordWriter::Create("part-00000.tfrecord", batch.schema()));
//   MILLRACE_RETURN_IF_ERROR(writer->Write(batch));
//   MILLRACE_RETURN_IF_ERROR(writer->Finish());
//
// A null is a feature that the Example does not have, and a float64 becomes a float32. Columns of
// other types than those in the table above are refused; cast a timestamp to int64.
//
// Thread safety: one thread at a time. Blocking: disk I/O.
class TfRecordWriter {
 public:
  // Makes a temporary file in the folder of `path`, ".<name>.tmp.XXXXXX", which those who read the
  // folder skip. Returns INVALID_ARGUMENT, naming the column, if the schema has one of another
  // type, or does not fit `raw`; otherwise the system's errors, with the path.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(
      std::string path, Schema schema, const TfRecordWriterOptions& options = {});

  // Without Finish(): removes the temporary file; what was at `path` stays. (After SIGKILL it may
  // stay.)
  ~TfRecordWriter();
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  // Appends the rows. Returns INVALID_ARGUMENT, naming row and column, for what an Example cannot
  // hold (a null within a list, a uint64 of 2^63 or more) and if the batch has another schema; the
  // system's errors (RESOURCE_EXHAUSTED: the disk is full). After an error there is nothing to do
  // but to destroy the writer: it returns FAILED_PRECONDITION.
  [[nodiscard]] absl::Status Write(const RecordBatch& batch);

  // Puts the complete file at `path`, in place of what was there; it is on the disk then. Nothing
  // may be written afterwards. Errors as Write(), after which nothing is at `path` that was not
  // there before.
  [[nodiscard]] absl::Status Finish();

 private:
  struct State;
  explicit TfRecordWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TF_RECORD_H_
