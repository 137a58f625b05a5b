// The node program: learns the centre of each class, then says which centre a point is nearest to.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace {

// Of the rows of one class.
struct Sum {
  double x = 0;
  double y = 0;
  double rows = 0;
};
using Sums = std::map<int64_t, Sum>;

void Add(Sums& sums, int64_t label, const Sum& more) {
  Sum& sum = sums[label];
  sum.x += more.x;
  sum.y += more.y;
  sum.rows += more.rows;
}

// Sums up the rows that this node is fed, until there are no more.
absl::StatusOr<Sums> Train(millrace::NodeContext& ctx) {
  Sums sums;
  std::unique_ptr<millrace::DataFeed> feed =
      ctx.GetDataFeed({.input_mapping = {{"x", "x"}, {"y", "y"}, {"label", "label"}}});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch batch, feed->NextBatch(16));
    if (batch.empty()) continue;
    const std::span<const double> x = batch.column<double>("x");
    const std::span<const double> y = batch.column<double>("y");
    const std::span<const int64_t> label = batch.column<int64_t>("label");
    for (size_t row = 0; row < label.size(); ++row) {
      Add(sums, label[row], {.x = x[row], .y = y[row], .rows = 1});
    }
  }
  return sums;
}

// Adds up what all nodes have summed, through the cluster's key-value store.
absl::StatusOr<Sums> Exchange(millrace::NodeContext& ctx, const Sums& sums) {
  std::string text;
  for (const auto& [label, sum] : sums) {
    absl::StrAppend(&text, label, " ", sum.x, " ", sum.y, " ", sum.rows, "\n");
  }
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Set(absl::StrCat("sums/", ctx.rank()), text));
  MILLRACE_RETURN_IF_ERROR(ctx.Barrier("summed"));
  Sums all;
  for (int rank = 0; rank < ctx.num_workers(); ++rank) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string others, ctx.kv().Get(absl::StrCat("sums/", rank)));
    long label = 0;
    Sum sum;
    int length = 0;
    for (const char* at = others.c_str();
         std::sscanf(at, "%ld %lf %lf %lf\n%n", &label, &sum.x, &sum.y, &sum.rows, &length) == 4;
         at += length) {
      Add(all, label, sum);
    }
  }
  return all;
}

int64_t Nearest(const Sums& sums, double x, double y) {
  int64_t nearest = -1;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [label, sum] : sums) {
    const double distance = std::hypot(x - sum.x / sum.rows, y - sum.y / sum.rows);
    if (distance < shortest) {
      shortest = distance;
      nearest = label;
    }
  }
  return nearest;
}

// One row of results for each row that comes.
absl::Status Infer(millrace::NodeContext& ctx, const Sums& sums) {
  std::unique_ptr<millrace::DataFeed> feed =
      ctx.GetDataFeed({.train_mode = false, .input_mapping = {{"x", "x"}, {"y", "y"}}});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch batch, feed->NextBatch(16));
    if (batch.empty()) continue;
    const std::span<const double> x = batch.column<double>("x");
    const std::span<const double> y = batch.column<double>("y");
    std::vector<int64_t> prediction(x.size());
    for (size_t row = 0; row < x.size(); ++row) prediction[row] = Nearest(sums, x[row], y[row]);
    millrace::BatchBuilder results;
    results.AddColumn("prediction", std::move(prediction));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::RecordBatch rows, results.Build());
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(rows));
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::RunNode(argc, argv, [](millrace::NodeContext& ctx) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const Sums mine, Train(ctx));
    MILLRACE_ASSIGN_OR_RETURN(const Sums all, Exchange(ctx, mine));
    std::printf("trained: %zu classes\n", all.size());
    std::fflush(stdout);
    return Infer(ctx, all);
  });
}
