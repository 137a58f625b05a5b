// The native node of the benchmark python_feed: python_feed_node.py is the same in Python.
//
//   python_feed_node ROWS

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/batch.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// The last row of each column: what a program does to find its rows.
double Touch(const Batch& batch) {
  const size_t last = static_cast<size_t>(batch.num_rows()) - 1;
  double sum = 0;
  for (const std::string& name : batch.names()) {
    switch (batch.type(name).id()) {
      case TypeId::kInt64:
        sum += static_cast<double>(batch.column<int64_t>(name)[last]);
        break;
      case TypeId::kBinary:
        sum += batch.strings(name)[last].back();
        break;
      default:
        sum += batch.column<float>(name).back();
    }
  }
  return sum;
}

absl::Status Run(NodeContext& ctx, int64_t rows) {
  const std::unique_ptr<DataFeed> feed = ctx.GetDataFeed();
  std::vector<absl::Duration> calls;
  double sum = 0;
  while (true) {
    const absl::Time began = absl::Now();
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(rows));
    if (batch.empty()) break;
    calls.push_back(absl::Now() - began);
    sum += Touch(batch);
  }
  // Most batches lie in rows that were there, so the median is what such a call costs.
  const auto middle = calls.begin() + static_cast<std::ptrdiff_t>(calls.size() / 2);
  std::nth_element(calls.begin(), middle, calls.end());
  ctx.ReportMetric("next_us", 0, absl::ToDoubleMicroseconds(*middle));
  return sum < 0 ? absl::InternalError("these are other rows") : absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int64_t rows = 0;
  if (argc != 2 || !absl::SimpleAtoi(argv[1], &rows) || rows < 1) {
    std::cerr << "python_feed_node ROWS\n";
    return 2;
  }
  return millrace::RunNode(argc, argv,
                           [rows](millrace::NodeContext& ctx) { return millrace::Run(ctx, rows); });
}
