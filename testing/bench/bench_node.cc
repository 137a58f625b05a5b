// The node program of start, shutdown, failure and equal_steps: reads what it is fed and does
// nothing with it.
//
//   bench_node --bare          no cluster: says hello over its stdin, a socket, and ends with it
//   bench_node --steps drop    reads in steps that all ranks take together ("none": as they come),
//                              and says how long one took

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace::bench {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kBatchesUntilFed = 4;

absl::Status Main(NodeContext& ctx) {
  if (ctx.job_name() == "ps") {
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  const std::unique_ptr<DataFeed> feed = ctx.GetDataFeed();
  for (int64_t batches = 1; !feed->ShouldStop(); ++batches) {
    MILLRACE_RETURN_IF_ERROR(feed->NextBatch(kRows).status());
    if (batches == kBatchesUntilFed) ctx.ReportMetric("fed", 0, 1);
  }
  return absl::OkStatus();
}

absl::Status Steps(NodeContext& ctx, const std::string& equal) {
  DataFeedOptions options;
  if (equal == "drop") options.equal = EqualRanks::kDrop;
  options.batch_rows = kRows;
  const std::unique_ptr<DataFeed> feed = ctx.GetDataFeed(options);
  int64_t steps = 0;
  absl::Time first;
  absl::Time last;
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(kRows));
    if (batch.empty()) continue;
    last = absl::Now();
    if (++steps == 1) first = last;
  }
  if (steps > 1) {
    ctx.ReportMetric("ns_per_step", steps,
                     absl::ToDoubleNanoseconds(last - first) / static_cast<double>(steps - 1));
  }
  return absl::OkStatus();
}

int Bare() {
  char byte = 1;
  if (::write(STDIN_FILENO, &byte, 1) != 1) return 1;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--bare") == 0) return millrace::bench::Bare();
  if (argc == 3 && std::strcmp(argv[1], "--steps") == 0) {
    return millrace::RunNode(argc, argv, [argv](millrace::NodeContext& ctx) {
      return millrace::bench::Steps(ctx, argv[2]);
    });
  }
  return millrace::RunNode(argc, argv, millrace::bench::Main);
}
