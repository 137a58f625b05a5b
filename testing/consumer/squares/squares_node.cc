// The node program: answers every number with its square.

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/batch.h"
#include "millrace/node.h"

absl::Status Run(millrace::NodeContext& ctx) {
  std::unique_ptr<millrace::DataFeed> feed =
      ctx.GetDataFeed({.train_mode = false, .input_mapping = {{"x", "x"}}});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch batch, feed->NextBatch(64));
    if (batch.empty()) continue;
    std::vector<double> squares;
    for (const double x : batch.column<double>("x")) squares.push_back(x * x);
    millrace::BatchBuilder results;
    results.AddColumn("square", std::move(squares));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::RecordBatch rows, results.Build());
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(rows));  // one row for each row of the batch
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) { return millrace::RunNode(argc, argv, Run); }
