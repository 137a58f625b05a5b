// The node program of cluster_test: what it does is its first argument.

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Adds up column x of every row it is fed, then doubles x of every row it is asked about.
absl::Status SumAndDouble(NodeContext& ctx) {
  if (ctx.rank() < 0) {
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  double sum = 0;
  int64_t rows = 0;
  std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
  while (!train->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, train->NextBatch(7));
    if (batch.empty()) continue;
    for (const int64_t x : batch.column<int64_t>("x")) sum += static_cast<double>(x);
    rows += batch.num_rows();
  }
  ctx.ReportMetric("sum", rows, sum);
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(5));
    if (batch.empty()) continue;
    std::vector<int64_t> doubled;
    for (const int64_t x : batch.column<int64_t>("x")) {
      if (x < 0) return absl::InternalError("cannot double a negative number");
      doubled.push_back(2 * x);
    }
    BatchBuilder results;
    results.AddColumn("doubled", doubled);
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch answer, results.Build());
    MILLRACE_RETURN_IF_ERROR(infer->BatchResults(answer));
  }
  return absl::OkStatus();
}

absl::Status Describe(NodeContext& ctx) {
  std::printf("name=%s executor=%d workers=%d rank=%d chief=%d fd=%d\n", ctx.name().c_str(),
              ctx.executor_id(), ctx.num_workers(), ctx.rank(), ctx.is_chief() ? 1 : 0,
              ctx.port_fd() >= 0 ? 1 : 0);
  std::printf("fs=%s dir=%s path=%s\n", ctx.default_fs().c_str(), ctx.working_dir().c_str(),
              ctx.AbsolutePath("x").c_str());
  char cwd[4096];
  if (::getcwd(cwd, sizeof(cwd)) != nullptr) std::printf("cwd=%s\n", cwd);
  return absl::OkStatus();
}

// Every node tells its rank and learns all others'.
absl::Status Rendezvous(NodeContext& ctx) {
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Set(absl::StrCat("rank", ctx.rank()), ctx.address()));
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("arrived", 1));
  MILLRACE_RETURN_IF_ERROR(ctx.Barrier("all"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string arrived, ctx.kv().Get("arrived"));
  for (int rank = 0; rank < ctx.num_workers(); ++rank) {
    MILLRACE_RETURN_IF_ERROR(ctx.kv().Get(absl::StrCat("rank", rank)));
  }
  std::printf("met %s\n", arrived.c_str());
  return absl::OkStatus();
}

absl::Status FailLate(NodeContext& ctx) {
  std::unique_ptr<DataFeed> feed = ctx.GetDataFeed();
  while (!feed->ShouldStop()) MILLRACE_RETURN_IF_ERROR(feed->NextBatch(10));
  if (ctx.task_index() == 1) return absl::InternalError("could not save the model");
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  return millrace::RunNode(argc, argv, [&what](millrace::NodeContext& ctx) -> absl::Status {
    if (what == "sum") return millrace::SumAndDouble(ctx);
    if (what == "describe") return millrace::Describe(ctx);
    if (what == "rendezvous") return millrace::Rendezvous(ctx);
    if (what == "fail_late") return millrace::FailLate(ctx);
    if (what == "wait") {
      ctx.WaitForStop();
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("what?");
  });
}
