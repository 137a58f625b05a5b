// The node of the benchmark spark_skew: takes 64 rows at a time and sleeps for each, the first
// worker so many times as long as the others.
//
//   spark_skew_node STEP_US RATIO

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kRows = 64;

absl::Status Run(NodeContext& ctx, absl::Duration step) {
  std::unique_ptr<DataFeed> feed = ctx.GetDataFeed();
  absl::Duration late;  // what the sleeps before took too long
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(kRows));
    if (batch.empty()) continue;
    const absl::Time began = absl::Now();
    const absl::Duration pause = step * batch.num_rows() / kRows - std::min(late, step);
    absl::SleepFor(pause);
    late = absl::Now() - began - pause;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunNode(argc, argv, [argc, argv](millrace::NodeContext& ctx) -> absl::Status {
    if (argc != 3) return absl::InvalidArgumentError("spark_skew_node STEP_US RATIO");
    const absl::Duration step = absl::Microseconds(std::atoll(argv[1]));
    return millrace::Run(ctx, ctx.rank() == 0 ? step * std::atoll(argv[2]) : step);
  });
}
