// The node program of start, shutdown and failure: reads what it is fed and does nothing with it.
//
//   bench_node --bare     no cluster: says hello over its stdin, a socket, and ends with it

#include <unistd.h>

#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  return millrace::RunNode(argc, argv, millrace::bench::Main);
}
