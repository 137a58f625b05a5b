// The node of the benchmark spark_feed: takes rows in batches of the size that a step of training
// has, then answers each x with its square.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kMaxRows = 8192;
constexpr int64_t kBatchBytes = int64_t{256} << 10;

// How many rows like those of `batch` a step has: 64 of 3 KB, 1,024 of 256 bytes.
int64_t RowsLike(const Batch& batch) {
  if (batch.empty()) return kMaxRows;
  const int64_t bytes = batch.record_batch().byte_size() / batch.num_rows();
  const auto rows = static_cast<uint64_t>(kBatchBytes / std::max<int64_t>(1, bytes));
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(rows)), 1, kMaxRows);
}

absl::Status Run(NodeContext& ctx) {
  std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
  int64_t rows = kMaxRows;
  while (!train->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, train->NextBatch(rows));
    rows = RowsLike(batch);
  }
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  std::vector<int64_t> squares;
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(kMaxRows));
    if (batch.empty()) continue;
    squares.clear();
    for (const int64_t x : batch.column<int64_t>("x")) squares.push_back(x * x);
    BatchBuilder results;
    results.AddColumn("y", squares);
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch answer, results.Build());
    MILLRACE_RETURN_IF_ERROR(infer->BatchResults(answer));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::RunNode(argc, argv, millrace::Run); }
