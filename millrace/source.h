// File: millrace/source.h
//
// Where the rows of a Train or Inference call come from: partitions, each a stream of record
// batches.
//
// Defines: PartitionedSource, RecordBatchReader, CsvSourceOptions, CsvList, and these sources:
//
//   MemorySource      rows in memory
//   CsvSource         comma-separated text, in files or in memory
//   ArrowIpcSource    Arrow IPC files ("Feather V2") and streams
//   StreamSource      whatever speaks the Arrow C stream interface (Arrow, DuckDB, ADBC)
//   GeneratorSource   a function: synthetic data, or a reader of one's own
//
// and, in millrace/tf_record.h, TfRecordSource: TFRecord files, as TensorFlow's programs have them.
//
// A static function of its class makes each, as a std::unique_ptr. Train borrows what that points
// to, and Inference keeps it.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CsvSource> source,
//                             CsvSource::FromFiles({"digits.csv"}, {.num_partitions = 4}));
//   MILLRACE_RETURN_IF_ERROR(cluster->Train(*source));
//
// To read one by hand:
//
//   for (int p = 0; p < source->num_partitions(); ++p) {
//     MILLRACE_ASSIGN_OR_RETURN(auto reader, source->Open(p, /*data_epoch=*/0));
//     while (true) {
//       MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> batch, reader->Next());
//       if (!batch.has_value()) break;
//       ...
//     }
//   }

#ifndef MILLRACE_SOURCE_H_
#define MILLRACE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

struct ArrowArrayStream;  // Arrow C stream interface

namespace millrace {

// The batches of one partition, in order, once.
// Thread safety: one thread at a time, but for Cancel(). Blocking: Next() may do I/O.
class RecordBatchReader {
 public:
  virtual ~RecordBatchReader() = default;

  [[nodiscard]] virtual const Schema& schema() const = 0;

  // The next batch, of schema(); nullopt at the end, then and whenever asked again. A batch may
  // have no rows. After an error the reader must not be used any more.
  [[nodiscard]] virtual absl::StatusOr<std::optional<RecordBatch>> Next() = 0;

  // No more rows are wanted of this reader: the nodes have stopped reading, the call has failed, or
  // a node has died and the partition is about to be opened again. A Next() that waits (for a
  // queue, a socket, a user) is to return soon, with CANCELLED; the call ends only then. For any
  // thread, at any time, more than once; must not block. Does nothing by default, which is right
  // where Next() never takes long.
  virtual void Cancel() {}
};

// What a driver feeds. Programs may derive sources of their own.
//
// Thread safety: Open() may be called from several threads at once; readers are independent. A
// source outlives its readers.
class PartitionedSource {
 public:
  virtual ~PartitionedSource() = default;

  // At least 1; the same for the source's whole life.
  [[nodiscard]] virtual int num_partitions() const = 0;

  // Reads `partition` from its first row. A partition may be opened more than once: again in every
  // epoch, and after a node's death. All partitions have one schema. `data_epoch` counts from 0; a
  // source may use it to shuffle, but equal arguments mean equal rows if deterministic().
  // Returns INVALID_ARGUMENT if `partition` is out of range; otherwise the source's own errors.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const = 0;

  // True if Open() with equal arguments yields the same rows in the same order every time. Only
  // then does training resume in the middle of a partition after a failure.
  [[nodiscard]] virtual bool deterministic() const = 0;
};

// ---- rows in memory -----------------------------------------------------------------------------

// Rows that are in memory already. Deterministic: every epoch yields the same rows.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MemorySource> source,
//                             MemorySource::Split(batch, /*num_partitions=*/4));
//
// Ownership: shares the batches' memory.
class MemorySource final : public PartitionedSource {
 public:
  // partitions[p] are the batches of partition p; it may be empty, the outer vector may not.
  // Returns INVALID_ARGUMENT if there is no partition, no batch at all (then no schema is known),
  // or if schemas differ.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MemorySource>> Create(
      std::vector<std::vector<RecordBatch>> partitions);

  // `batch` in `num_partitions` ranges of rows whose sizes differ by one at most; no copy.
  // Returns INVALID_ARGUMENT if num_partitions < 1.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MemorySource>> Split(const RecordBatch& batch,
                                                                           int num_partitions);
  // All rows of `batches`, in their order, in `num_partitions` such ranges, or in one for each row
  // where there are fewer rows. Errors as Create and the above.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MemorySource>> Split(
      const std::vector<RecordBatch>& batches, int num_partitions);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override {
    return static_cast<int>(partitions_->size());
  }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  using Partitions = std::vector<std::vector<RecordBatch>>;
  MemorySource(Schema schema, Partitions partitions)
      : schema_(std::move(schema)),
        partitions_(std::make_shared<const Partitions>(std::move(partitions))) {}

  Schema schema_;
  std::shared_ptr<const Partitions> partitions_;
};

// ---- text ---------------------------------------------------------------------------------------

// Columns of the text that become one fixed_size_list column, at the place of the first of them.
struct CsvList {
  std::string name;
  std::vector<std::string> columns;
  Type element = Type::Float32();

  // {"p0", ..., "p63"} for ("p", 0, 64).
  [[nodiscard]] static std::vector<std::string> Range(absl::string_view prefix, int first,
                                                      int count);
};

struct CsvSourceOptions {
  // Ranges of consecutive records over all files together, sizes differing by one at most. > 0.
  int num_partitions = 1;
  // Types by column; any scalar type but float16. Others are inferred.
  std::vector<std::pair<std::string, Type>> types;
  std::vector<CsvList> lists;
  char delimiter = ',';
  // Rows of each record batch are chosen to have about this many bytes of text.
  int64_t batch_bytes = kDefaultBatchBytes;
};

// Rows from comma-separated text (RFC 4180) in files or in memory.
//
//   CsvSourceOptions options;
//   options.num_partitions = 4;
//   options.lists.push_back({.name = "x", .columns = CsvList::Range("p", 0, 64)});
//   options.types = {{"label", Type::Int64()}};
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CsvSource> source,
//                             CsvSource::FromFiles({"digits.csv"}, options));
//
// The text: a header row with the columns' names, then one record per row. Fields may be quoted
// ("a ""b"", c"), also over several lines; records end with LF or CRLF; empty lines are skipped; a
// UTF-8 byte order mark is skipped. White space belongs to the field.
//
// Types: of a column not named in CsvSourceOptions::types, inferred from all its fields in all
// files: int64 if each that is not empty is a decimal integer in range, otherwise float64 if each
// is a number as strtod reads it in the C locale (nan and inf included, hexadecimal not), otherwise
// utf8; utf8 too if all are empty. An empty field is the empty string in a utf8 or binary column,
// and null in any other. bool reads true, false, 1 and 0.
//
// Bad text is INVALID_ARGUMENT with its place: data.csv:17: column "label": "abc" is not an int64.
//
// Deterministic. Memory: one batch per open reader, and an index whose size does not depend on the
// text's. Creation reads all the text once, opening reads at most a small part of it again.
class CsvSource final : public PartitionedSource {
 public:
  // All files have the same header. They must not change while the source is used: a reader that
  // sees another size or modification time returns FAILED_PRECONDITION.
  // Returns NOT_FOUND and so on with the path if a file cannot be read; INVALID_ARGUMENT for bad
  // text or options that do not fit the header.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CsvSource>> FromFiles(
      std::vector<std::string> paths, const CsvSourceOptions& options = {});

  // `name` stands for the path in errors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CsvSource>> FromText(
      std::string text, const CsvSourceOptions& options = {}, absl::string_view name = "csv");

  ~CsvSource() override;

  [[nodiscard]] const Schema& schema() const;
  [[nodiscard]] int64_t num_rows() const;
  [[nodiscard]] int num_partitions() const override;
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  friend class CsvPartitionReader;

  struct Data;
  explicit CsvSource(std::shared_ptr<const Data> data);
  static absl::StatusOr<std::unique_ptr<CsvSource>> Create(std::shared_ptr<Data> data);

  std::shared_ptr<const Data> data_;
};

// ---- Arrow --------------------------------------------------------------------------------------

// Rows from Arrow IPC files: what Arrow calls the file format ("Feather V2") and the stream format,
// told apart by their first bytes. One file is one partition. Any bytes are safe. What feeds do not
// carry is refused with INVALID_ARGUMENT: other column types, dictionaries, compressed bodies,
// big-endian data, and streams of before Arrow 0.15.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ArrowIpcSource> source,
//                             ArrowIpcSource::Create({"a.arrow", "b.arrow"}));
//
// Deterministic as long as the files stay as they are. Each batch is read into memory of its own: a
// file that is cut short meanwhile is an error, never a crash.
class ArrowIpcSource final : public PartitionedSource {
 public:
  // Reads the schemas. Returns INVALID_ARGUMENT without a path, if a file is no Arrow IPC of rows
  // that a feed carries, or if schemas differ, naming the file; NOT_FOUND, PERMISSION_DENIED and so
  // on from the system.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ArrowIpcSource>> Create(
      std::vector<std::string> paths);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override { return static_cast<int>(paths_.size()); }
  // Readers return DATA_LOSS, naming the file and the place, if it ends in the middle of a message
  // or without the mark of its end; INVALID_ARGUMENT for what is no batch of the schema.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  ArrowIpcSource(Schema schema, std::vector<std::string> paths)
      : schema_(std::move(schema)), paths_(std::move(paths)) {}

  Schema schema_;
  std::vector<std::string> paths_;
};

// Reads a C stream, which is taken over (moved from). Batches come unchanged, without copy.
// Returns the stream's error with its message (its errno value mapped as absl::ErrnoToStatus does),
// or INVALID_ARGUMENT if its schema is not one that a feed carries; *stream is released then too.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> MakeStreamReader(
    ArrowArrayStream* stream);

// The other way round: `reader` as a C stream, which owns it.
void ExportReader(std::unique_ptr<RecordBatchReader> reader, ArrowArrayStream* out);
// What the last call of such a stream came to, of which its consumer has seen an errno value and a
// text. Returns INVALID_ARGUMENT too if `stream` is released, or another library's.
[[nodiscard]] absl::Status ExportedStatus(const ArrowArrayStream& stream);

// Partitions that are C streams.
class StreamSource final : public PartitionedSource {
 public:
  // Fills *out, which the caller then owns, with the rows of one partition; called from any thread.
  using OpenFunction =
      std::function<absl::Status(int partition, int64_t data_epoch, ArrowArrayStream* out)>;

  // Returns INVALID_ARGUMENT if num_partitions < 1 or there is no function. `deterministic`: see
  // PartitionedSource.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StreamSource>> Create(int num_partitions,
                                                                            OpenFunction open,
                                                                            bool deterministic);

  [[nodiscard]] int num_partitions() const override { return num_partitions_; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return deterministic_; }

 private:
  StreamSource(int num_partitions, OpenFunction open, bool deterministic)
      : num_partitions_(num_partitions), open_(std::move(open)), deterministic_(deterministic) {}

  const int num_partitions_;
  const OpenFunction open_;
  const bool deterministic_;
};

// ---- functions ----------------------------------------------------------------------------------

// Rows that a function makes when they are asked for.
//
//   auto source = GeneratorSource::Create(schema, /*num_partitions=*/8,
//       [](int partition, int64_t epoch, int64_t batch) { return MakeRows(partition, batch); },
//       /*deterministic=*/true);
class GeneratorSource final : public PartitionedSource {
 public:
  // Batch number `batch` (0, 1, ...) of a partition; nullopt: it has no more. Called from several
  // threads at once, for one reader of a partition in order.
  using Generate = std::function<absl::StatusOr<std::optional<RecordBatch>>(
      int partition, int64_t data_epoch, int64_t batch)>;

  // Returns INVALID_ARGUMENT if num_partitions < 1 or there is no function. `deterministic`: see
  // PartitionedSource.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GeneratorSource>> Create(Schema schema,
                                                                               int num_partitions,
                                                                               Generate generate,
                                                                               bool deterministic);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override { return num_partitions_; }
  // Readers return the function's errors, with the partition, and INVALID_ARGUMENT for a batch of
  // another schema.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return deterministic_; }

 private:
  GeneratorSource(Schema schema, int num_partitions, Generate generate, bool deterministic)
      : schema_(std::move(schema)),
        num_partitions_(num_partitions),
        generate_(std::make_shared<const Generate>(std::move(generate))),
        deterministic_(deterministic) {}

  Schema schema_;
  int num_partitions_;
  std::shared_ptr<const Generate> generate_;
  bool deterministic_;
};

}  // namespace millrace

#endif  // MILLRACE_SOURCE_H_
