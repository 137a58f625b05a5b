#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "feed/source/csv_columns.h"
#include "feed/source/csv_text.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Checkpoints are thinned out when there are more.
constexpr size_t kMaxCheckpoints = 1024;

// Where a record begins.
struct Checkpoint {
  int64_t row = 0;  // over all texts
  size_t text = 0;
  int64_t offset = 0;
  int64_t line = 0;
};

// One input: a file by its path, or text in memory.
struct Input {
  std::string name;
  std::shared_ptr<const std::string> memory;  // null: a file
  CsvFingerprint fingerprint;

  absl::StatusOr<CsvText> Open() const {
    if (memory != nullptr) return CsvText::FromMemory(name, memory);
    return CsvText::OpenFile(name);
  }
};

absl::Status At(const CsvText& text, int64_t line, const absl::Status& status) {
  return Annotate(status, absl::StrCat(text.name(), ":", line));
}

// The narrowest of int64, float64, utf8 that holds all fields seen.
class Inference {
 public:
  void See(absl::string_view field) {
    if (field.empty()) return;
    seen_ = true;
    if (type_ == TypeId::kInt64 && !ParsesAsInt64(field)) type_ = TypeId::kFloat64;
    if (type_ == TypeId::kFloat64 && !ParsesAsFloat64(field)) type_ = TypeId::kUtf8;
  }
  Type type() const { return seen_ ? Type::Scalar(type_) : Type::Utf8(); }
  bool settled() const { return type_ == TypeId::kUtf8; }

 private:
  TypeId type_ = TypeId::kInt64;
  bool seen_ = false;
};

}  // namespace

struct [[gnu::visibility("hidden")]] CsvSource::Data {
  std::vector<Input> inputs;
  CsvSourceOptions options;
  std::vector<CsvColumn> columns;
  Schema schema;
  std::vector<Checkpoint> checkpoints;  // ascending, the first is row 0 if there is any row
  int64_t rows = 0;

  int64_t FirstRow(int partition) const {
    const int64_t n = options.num_partitions;
    return rows / n * partition + std::min<int64_t>(rows % n, partition);
  }
};

namespace {

// Reads all the text once: header, number of records, types, checkpoints.
class Indexer {
 public:
  explicit Indexer(const CsvSourceOptions& options) : options_(options) {}

  absl::Status Read(std::vector<Input>* inputs) {
    for (size_t i = 0; i < inputs->size(); ++i) {
      Input& input = (*inputs)[i];
      MILLRACE_ASSIGN_OR_RETURN(CsvText text, input.Open());
      input.fingerprint = text.fingerprint();
      CsvRecordReader reader(std::move(text), options_.delimiter);
      MILLRACE_RETURN_IF_ERROR(ReadHeader(&reader));
      MILLRACE_RETURN_IF_ERROR(ReadRecords(&reader, i));
    }
    return absl::OkStatus();
  }

  // After Read(): the columns of the batches.
  absl::StatusOr<std::vector<CsvColumn>> Columns() const {
    std::vector<CsvColumn> columns;
    std::vector<int> list_of(header_.size(), -1);
    for (size_t i = 0; i < options_.lists.size(); ++i) {
      for (const std::string& name : options_.lists[i].columns) {
        MILLRACE_ASSIGN_OR_RETURN(const int field, Find(name));
        if (list_of[static_cast<size_t>(field)] >= 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("column \"", name, "\" is in two lists or twice in one"));
        }
        list_of[static_cast<size_t>(field)] = static_cast<int>(i);
      }
    }
    std::vector<bool> done(options_.lists.size(), false);
    for (size_t i = 0; i < header_.size(); ++i) {
      const int list = list_of[i];
      if (list < 0) {
        columns.push_back({header_[i], TypeOf(i), {static_cast<int>(i)}, {header_[i]}});
      } else if (!done[static_cast<size_t>(list)]) {
        done[static_cast<size_t>(list)] = true;
        columns.push_back(ListColumn(options_.lists[static_cast<size_t>(list)]));
      }
    }
    return columns;
  }

  int64_t rows() const { return rows_; }
  std::vector<Checkpoint> TakeCheckpoints() { return std::move(checkpoints_); }

 private:
  absl::Status ReadHeader(CsvRecordReader* reader) {
    CsvRecord record;
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) {
      return absl::InvalidArgumentError(absl::StrCat(reader->text().name(), " has no header"));
    }
    std::vector<std::string> header(record.fields.begin(), record.fields.end());
    if (!header_.empty()) {
      if (header == header_) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(reader->text().name(), ":", record.line,
                                                     ": the header differs from that of ",
                                                     first_name_));
    }
    header_ = std::move(header);
    first_name_ = reader->text().name();
    for (size_t i = 0; i < header_.size(); ++i) {
      if (!index_.emplace(header_[i], static_cast<int>(i)).second) {
        return At(
            reader->text(), record.line,
            absl::InvalidArgumentError(absl::StrCat(
                "two columns have the name \"", EscapeControls(Ellipsize(header_[i], 100)), "\"")));
      }
    }
    return CheckOptions();
  }

  absl::Status CheckOptions() {
    inferred_.assign(header_.size(), true);
    types_.assign(header_.size(), Type::Utf8());
    inferences_.resize(header_.size());
    for (const CsvList& list : options_.lists) {
      if (list.columns.empty() || !IsCsvType(list.element)) {
        return absl::InvalidArgumentError(absl::StrCat("list \"", list.name, "\" of ",
                                                       list.columns.size(), " columns of type ",
                                                       list.element.ToString()));
      }
      for (const std::string& name : list.columns) {
        MILLRACE_ASSIGN_OR_RETURN(const int field, Find(name));
        inferred_[static_cast<size_t>(field)] = false;
      }
    }
    for (const auto& [name, type] : options_.types) {
      MILLRACE_ASSIGN_OR_RETURN(const int field, Find(name));
      if (!IsCsvType(type)) {
        return absl::InvalidArgumentError(
            absl::StrCat("column \"", name, "\": type ", type.ToString(), " is not read from CSV"));
      }
      if (!inferred_[static_cast<size_t>(field)]) {
        return absl::InvalidArgumentError(
            absl::StrCat("column \"", name, "\" has two types, or is in a list too"));
      }
      inferred_[static_cast<size_t>(field)] = false;
      types_[static_cast<size_t>(field)] = type;
    }
    return absl::OkStatus();
  }

  absl::Status ReadRecords(CsvRecordReader* reader, size_t text) {
    CsvRecord record;
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
      if (!more) return absl::OkStatus();
      if (record.fields.size() != header_.size()) {
        return At(reader->text(), record.line,
                  absl::InvalidArgumentError(absl::StrCat(
                      record.fields.size(), " fields, the header has ", header_.size())));
      }
      for (size_t i = 0; i < record.fields.size(); ++i) {
        if (inferred_[i] && !inferences_[i].settled()) inferences_[i].See(record.fields[i]);
      }
      if (rows_ % stride_ == 0) AddCheckpoint({rows_, text, record.offset, record.line});
      ++rows_;
    }
  }

  void AddCheckpoint(const Checkpoint& checkpoint) {
    checkpoints_.push_back(checkpoint);
    if (checkpoints_.size() <= kMaxCheckpoints) return;
    stride_ *= 2;
    std::erase_if(checkpoints_, [this](const Checkpoint& c) { return c.row % stride_ != 0; });
  }

  absl::StatusOr<int> Find(absl::string_view name) const {
    const auto it = index_.find(name);
    if (it != index_.end()) return it->second;
    return absl::InvalidArgumentError(
        absl::StrCat(first_name_, ": the header has no column \"", name, "\""));
  }

  Type TypeOf(size_t field) const {
    return inferred_[field] ? inferences_[field].type() : types_[field];
  }

  CsvColumn ListColumn(const CsvList& list) const {
    CsvColumn column;
    column.name = list.name;
    column.type = Type::FixedSizeList(list.element, static_cast<int32_t>(list.columns.size()));
    column.field_names = list.columns;
    for (const std::string& name : list.columns) column.fields.push_back(index_.find(name)->second);
    return column;
  }

  const CsvSourceOptions& options_;
  std::vector<std::string> header_;
  std::string first_name_;  // of the text that header_ is from
  absl::flat_hash_map<std::string, int> index_;
  std::vector<bool> inferred_;  // per field: its type is to be inferred
  std::vector<Type> types_;     // where it is not
  std::vector<Inference> inferences_;
  std::vector<Checkpoint> checkpoints_;  // one each stride_ rows
  int64_t stride_ = 64;
  int64_t rows_ = 0;
};

}  // namespace

// Reads rows [next_, end_).
class [[gnu::visibility("hidden")]] CsvPartitionReader final : public RecordBatchReader {
 public:
  CsvPartitionReader(std::shared_ptr<const CsvSource::Data> data, int64_t first, int64_t end)
      : data_(std::move(data)), next_(first), end_(end), builder_(data_->schema, &data_->columns) {}

  const Schema& schema() const override { return data_->schema; }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (next_ == end_) return std::optional<RecordBatch>();
    if (reader_ == nullptr) {
      MILLRACE_RETURN_IF_ERROR(Seek());
    }
    int64_t bytes = 0;
    while (next_ < end_ && bytes < data_->options.batch_bytes) {
      MILLRACE_RETURN_IF_ERROR(NextRecord());
      if (record_.fields.size() != num_fields_) return Changed();
      if (absl::Status status = builder_.Add(record_.fields); !status.ok()) {
        return At(reader_->text(), record_.line, status);
      }
      bytes += record_.bytes;
      ++next_;
    }
    return std::optional<RecordBatch>(builder_.Finish());
  }

 private:
  // To row next_, by way of the last checkpoint that is not behind it.
  absl::Status Seek() {
    const auto behind = std::upper_bound(
        data_->checkpoints.begin(), data_->checkpoints.end(), next_,
        [](int64_t row, const Checkpoint& checkpoint) { return row < checkpoint.row; });
    const Checkpoint& from = *std::prev(behind);  // row 0 has one, and there are rows
    for (const CsvColumn& column : data_->columns) num_fields_ += column.fields.size();
    MILLRACE_RETURN_IF_ERROR(OpenText(from.text, from.offset, from.line));
    for (int64_t row = from.row; row < next_; ++row) {
      MILLRACE_RETURN_IF_ERROR(NextRecord());
    }
    return absl::OkStatus();
  }

  absl::Status OpenText(size_t i, int64_t offset, int64_t line) {
    MILLRACE_ASSIGN_OR_RETURN(CsvText text, data_->inputs[i].Open());
    text_ = i;
    const bool same = text.fingerprint() == data_->inputs[i].fingerprint;
    reader_ =
        std::make_unique<CsvRecordReader>(std::move(text), data_->options.delimiter, offset, line);
    return same ? absl::OkStatus() : Changed();
  }

  // The next record, which may be in the next text, behind its header.
  absl::Status NextRecord() {
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, reader_->Next(&record_));
      if (more) return absl::OkStatus();
      if (text_ + 1 == data_->inputs.size()) return Changed();
      MILLRACE_RETURN_IF_ERROR(OpenText(text_ + 1, 0, 1));
      MILLRACE_ASSIGN_OR_RETURN(const bool header, reader_->Next(&record_));
      if (!header) return Changed();
    }
  }

  absl::Status Changed() const {
    return absl::FailedPreconditionError(
        absl::StrCat(reader_->text().name(), " has changed since the source was made"));
  }

  const std::shared_ptr<const CsvSource::Data> data_;
  int64_t next_;
  const int64_t end_;
  CsvBatchBuilder builder_;
  std::unique_ptr<CsvRecordReader> reader_;  // null before the first Next()
  size_t text_ = 0;                          // that reader_ reads
  size_t num_fields_ = 0;                    // of each record
  CsvRecord record_;
};

namespace {

absl::Status CheckOptions(const CsvSourceOptions& options) {
  constexpr int64_t kMaxBatchBytes = int64_t{1} << 30;
  if (options.num_partitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat(options.num_partitions, " partitions"));
  }
  if (options.batch_bytes < 1 || options.batch_bytes > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_bytes is ", options.batch_bytes, ", must be 1 to ", kMaxBatchBytes));
  }
  if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r') {
    return absl::InvalidArgumentError("the delimiter is a quote or a line end");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CsvList::Range(absl::string_view prefix, int first, int count) {
  std::vector<std::string> names;
  for (int i = first; i < first + count; ++i) names.push_back(absl::StrCat(prefix, i));
  return names;
}

CsvSource::CsvSource(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

CsvSource::~CsvSource() = default;

absl::StatusOr<std::unique_ptr<CsvSource>> CsvSource::Create(std::shared_ptr<Data> data) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(data->options));
  if (data->inputs.empty()) return absl::InvalidArgumentError("no CSV files");
  Indexer indexer(data->options);
  MILLRACE_RETURN_IF_ERROR(indexer.Read(&data->inputs));
  MILLRACE_ASSIGN_OR_RETURN(data->columns, indexer.Columns());
  data->rows = indexer.rows();
  data->checkpoints = indexer.TakeCheckpoints();
  SchemaBuilder builder;
  for (const CsvColumn& column : data->columns) builder.Add(column.name, column.type);
  MILLRACE_ASSIGN_OR_RETURN(data->schema, builder.Build());
  return std::unique_ptr<CsvSource>(new CsvSource(std::move(data)));
}

absl::StatusOr<std::unique_ptr<CsvSource>> CsvSource::FromFiles(std::vector<std::string> paths,
                                                                const CsvSourceOptions& options) {
  auto data = std::make_shared<Data>();
  for (std::string& path : paths) data->inputs.push_back({std::move(path), nullptr, {}});
  data->options = options;
  return Create(std::move(data));
}

absl::StatusOr<std::unique_ptr<CsvSource>> CsvSource::FromText(std::string text,
                                                               const CsvSourceOptions& options,
                                                               absl::string_view name) {
  auto data = std::make_shared<Data>();
  data->inputs.push_back(
      {std::string(name), std::make_shared<const std::string>(std::move(text)), {}});
  data->options = options;
  return Create(std::move(data));
}

const Schema& CsvSource::schema() const { return data_->schema; }

int64_t CsvSource::num_rows() const { return data_->rows; }

int CsvSource::num_partitions() const { return data_->options.num_partitions; }

absl::StatusOr<std::unique_ptr<RecordBatchReader>> CsvSource::Open(
    int partition, [[maybe_unused]] int64_t data_epoch) const {
  if (partition < 0 || partition >= num_partitions()) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions()));
  }
  return std::make_unique<CsvPartitionReader>(data_, data_->FirstRow(partition),
                                              data_->FirstRow(partition + 1));
}

}  // namespace millrace
