// The node of the benchmark spark_feed: takes rows as they come, then answers each x with its
// square.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kRows = 8192;

absl::Status Run(NodeContext& ctx) {
  std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
  while (!train->ShouldStop()) MILLRACE_RETURN_IF_ERROR(train->NextBatch(kRows).status());
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  std::vector<int64_t> squares;
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(kRows));
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
