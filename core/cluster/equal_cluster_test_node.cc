// The node program of equal_cluster_test: trains in steps that all ranks take together.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Arguments: "drop" or "pad", the rows of a batch, and what else is to be done:
//   meet      all ranks meet at a barrier in each step: one that is alone there waits in vain
//   slow      the last rank takes longer
//   die:<n>   the last rank kills itself in step n of its first attempt
//   go_on     an error begins the steps anew
struct Plan {
  DataFeedOptions feed;
  bool meet = false;
  bool slow = false;
  bool go_on = false;
  int64_t die_in = -1;
};

absl::Status Train(NodeContext& ctx, const Plan& plan) {
  const bool last_rank = ctx.rank() == ctx.num_workers() - 1;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<DataFeed> feed, ctx.TryGetDataFeed(plan.feed));
  int64_t step = 0;
  int64_t rows = 0;
  double sum = 0;
  int generation = 0;
  while (!feed->ShouldStop()) {
    const absl::StatusOr<Batch> batch = feed->NextBatch(plan.feed.batch_rows);
    if (!batch.ok()) {
      std::printf("error %s\n", batch.status().ToString().c_str());
      std::fflush(stdout);
      if (!plan.go_on || !absl::IsAborted(batch.status())) return batch.status();
      ++generation;
      step = 0;
      continue;
    }
    if (batch->empty()) continue;
    if (batch->num_rows() != plan.feed.batch_rows) {
      return absl::InternalError(absl::StrCat("a batch of ", batch->num_rows(), " rows"));
    }
    ++step;
    if (last_rank && ctx.attempt() == 0 && step == plan.die_in) ::kill(::getpid(), SIGKILL);
    if (last_rank && plan.slow) absl::SleepFor(absl::Milliseconds(2));
    if (plan.meet) {
      MILLRACE_RETURN_IF_ERROR(ctx.Barrier(absl::StrCat("step ", step), absl::Seconds(30)));
    }
    for (const int64_t x : batch->column<int64_t>("x")) sum += static_cast<double>(x);
    rows += batch->num_rows();
  }
  std::printf("steps %d\n", static_cast<int>(step));
  std::fflush(stdout);
  ctx.ReportMetric("sum", rows, sum);
  return absl::OkStatus();
}

absl::Status Run(NodeContext& ctx, int argc, char** argv) {
  if (argc < 3) return absl::InvalidArgumentError("how is it to train?");
  Plan plan;
  plan.feed.equal = std::string(argv[1]) == "pad" ? EqualRanks::kPad : EqualRanks::kDrop;
  if (!absl::SimpleAtoi(argv[2], &plan.feed.batch_rows)) {
    return absl::InvalidArgumentError("how many rows has a batch?");
  }
  for (int i = 3; i < argc; ++i) {
    const std::string what = argv[i];
    plan.meet = plan.meet || what == "meet";
    plan.slow = plan.slow || what == "slow";
    plan.go_on = plan.go_on || what == "go_on";
    if (what.rfind("die:", 0) == 0 && !absl::SimpleAtoi(what.substr(4), &plan.die_in)) {
      return absl::InvalidArgumentError("in which step?");
    }
  }
  return Train(ctx, plan);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunNode(argc, argv, [argc, argv](millrace::NodeContext& ctx) {
    return millrace::Run(ctx, argc, argv);
  });
}
