#include "examples/digits/digits_data.h"

#include <memory>
#include <optional>
#include <vector>

#include "examples/digits/mlp.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace millrace::examples {

absl::StatusOr<DigitsData> ReadDigits(const std::string& path) {
  CsvSourceOptions options;
  options.types = {{"id", Type::Int64()}, {"label", Type::Int64()}};
  options.lists = {{.name = "image", .columns = CsvList::Range("p", 0, kPixels)}};
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvSource> csv,
                            CsvSource::FromFiles({path}, options));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordBatchReader> reader, csv->Open(0, 0));
  std::vector<RecordBatch> train;
  std::vector<RecordBatch> held_out;
  for (int64_t index = 0;;) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, reader->Next());
    if (!batch.has_value()) break;
    for (int64_t row = 0; row < batch->num_rows(); ++row, ++index) {
      (index % 5 == 0 ? held_out : train).push_back(batch->Slice(row, 1));
    }
  }
  DigitsData data;
  MILLRACE_ASSIGN_OR_RETURN(data.train, RecordBatch::Concat(train));
  MILLRACE_ASSIGN_OR_RETURN(data.held_out, RecordBatch::Concat(held_out));
  return data;
}

double Accuracy(std::span<const int64_t> predictions, std::span<const int64_t> labels) {
  size_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) right += predictions[i] == labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

}  // namespace millrace::examples
