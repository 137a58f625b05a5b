// A node of the recorded cluster by the library: all that it says to its agent, once.

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "millrace/node.h"

namespace millrace {
namespace {

absl::Status Body(NodeContext& ctx) {
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Set("a", "hi"));
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Get("a", absl::Seconds(1)).status());
  if (!absl::IsNotFound(ctx.kv().Get("nothing", absl::ZeroDuration()).status())) {
    return absl::InternalError("what nobody set is there");
  }
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("n", 3).status());
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Delete("a"));
  MILLRACE_RETURN_IF_ERROR(ctx.Barrier("all", absl::Seconds(30)));
  ctx.ReportMetric("loss", 1, 0.5);
  const std::unique_ptr<DataFeed> feed =
      ctx.GetDataFeed({.equal = EqualRanks::kDrop, .batch_rows = 4});
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Set("begun", "1"));
  while (!feed->ShouldStop()) MILLRACE_RETURN_IF_ERROR(feed->NextBatch(4).status());
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Set("fed", "1"));
  ctx.WaitForStop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::RunNode(argc, argv, millrace::Body); }
