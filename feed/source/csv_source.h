// File: feed/source/csv_source.h
//
// Rows from comma-separated text (RFC 4180) in files or in memory.
//
// Defines: CsvSource, CsvOptions, CsvList.
//
//   CsvOptions options;
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
// Types: of a column not named in CsvOptions::types, inferred from all its fields in all files:
// int64 if each that is not empty is a decimal integer in range, otherwise float64 if each is a
// number as strtod reads it in the C locale (nan and inf included, hexadecimal not), otherwise
// utf8; utf8 too if all are empty. An empty field is the empty string in a utf8 or binary column,
// and null in any other. bool reads true, false, 1 and 0.
//
// Bad text is INVALID_ARGUMENT with its place: data.csv:17: column "label": "abc" is not an int64.

#ifndef FEED_SOURCE_CSV_SOURCE_H_
#define FEED_SOURCE_CSV_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/arrow/schema.h"
#include "feed/source/source.h"

namespace millrace {

// Columns of the text that become one fixed_size_list column, at the place of the first of them.
struct CsvList {
  std::string name;
  std::vector<std::string> columns;
  Type element = Type::Float32();

  // {"p0", ..., "p63"} for ("p", 0, 64).
  [[nodiscard]] static std::vector<std::string> Range(absl::string_view prefix, int first,
                                                      int count);
};

struct CsvOptions {
  // Ranges of consecutive records over all files together, sizes differing by one at most. > 0.
  int num_partitions = 1;
  // Types by column; any scalar type but float16. Others are inferred.
  std::vector<std::pair<std::string, Type>> types;
  std::vector<CsvList> lists;
  char delimiter = ',';
  // Rows of each record batch are chosen to have about this many bytes of text.
  int64_t batch_bytes = int64_t{1} << 20;
};

// Deterministic. Memory: one batch per open reader, and an index whose size does not depend on the
// text's. Creation reads all the text once, opening reads at most a small part of it again.
class CsvSource final : public PartitionedSource {
 public:
  // All files have the same header. They must not change while the source is used: a reader that
  // sees another size or modification time returns FAILED_PRECONDITION.
  // Returns NOT_FOUND and so on with the path if a file cannot be read; INVALID_ARGUMENT for bad
  // text or options that do not fit the header.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CsvSource>> FromFiles(
      std::vector<std::string> paths, const CsvOptions& options = {});

  // `name` stands for the path in errors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CsvSource>> FromText(
      std::string text, const CsvOptions& options = {}, absl::string_view name = "csv");

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

}  // namespace millrace

#endif  // FEED_SOURCE_CSV_SOURCE_H_
