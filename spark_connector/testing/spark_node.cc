// The node program of the Spark connector's tests: what it does is its first argument, a number
// that this needs its second. Rows have an int64 column "x", or "value".

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>  // for std::ssize
#include <memory>
#include <numeric>  // for std::accumulate, std::inner_product
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

struct Orders {
  std::string what;
  int64_t number = 0;
  bool first_attempt = true;
};

std::vector<int64_t> ValuesOf(const Batch& batch) {
  auto values = batch.TryColumn<int64_t>("x");
  if (!values.ok()) values = batch.TryColumn<int64_t>("value");
  if (!values.ok()) return {};
  return {values->begin(), values->end()};
}

// What a row makes of the program, where it is the one in its orders.
absl::Status Obey(const Orders& orders, int64_t value) {
  if (value != orders.number) return absl::OkStatus();
  if (orders.what == "fail_at" || (orders.what == "fail_once" && orders.first_attempt)) {
    std::fprintf(stderr, "cannot bear row %lld\n", static_cast<long long>(value));
    return absl::InternalError(absl::StrCat("row ", value, " is too much"));
  }
  if (orders.what == "die_at") ::raise(SIGKILL);
  if (orders.what == "stop_reading_at") return absl::CancelledError();
  return absl::OkStatus();
}

// Of each row of the column "data" its length and the sum of its bytes; in training of all rows.
absl::Status Measure(NodeContext& ctx) {
  std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
  int64_t bytes = 0;
  while (!train->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, train->NextBatch(3));
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      bytes += std::ssize(batch.strings("data")[row]);
    }
  }
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("bytes", bytes));
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(2));
    if (batch.empty()) continue;
    std::vector<int64_t> lengths;
    std::vector<int64_t> sums;
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      const absl::string_view data = batch.strings("data")[row];
      lengths.push_back(std::ssize(data));
      sums.push_back(std::accumulate(data.begin(), data.end(), int64_t{0}));
    }
    BatchBuilder results;
    results.AddColumn("y", lengths);
    results.AddColumn("sum", sums);
    results.AddColumn("rank", std::vector<int64_t>(lengths.size(), bytes));
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch answer, results.Build());
    MILLRACE_RETURN_IF_ERROR(infer->BatchResults(answer));
  }
  return absl::OkStatus();
}

// Answers each row with itself, whatever its columns.
absl::Status Echo(NodeContext& ctx) {
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(4));
    if (!batch.empty()) MILLRACE_RETURN_IF_ERROR(infer->BatchResults(batch.record_batch()));
  }
  return absl::OkStatus();
}

// Adds up what it is fed; then squares what it is asked about, and tells the sum with each row.
absl::Status Work(NodeContext& ctx, const Orders& orders) {
  if (ctx.rank() < 0) {
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  int64_t sum = 0;
  int64_t rows = 0;
  if (orders.what != "square") {
    std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
    while (!train->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, train->NextBatch(7));
      if (batch.empty()) continue;
      rows += batch.num_rows();
      for (const int64_t value : ValuesOf(batch)) {
        sum += value;
        const absl::Status status = Obey(orders, value);
        if (absl::IsCancelled(status)) return train->Terminate();
        MILLRACE_RETURN_IF_ERROR(status);
      }
      // So many rows are enough for the first one.
      if (ctx.rank() == 0 && rows >= orders.number) {
        if (orders.what == "exit_after") return absl::OkStatus();
        if (orders.what == "terminate_after") {
          MILLRACE_RETURN_IF_ERROR(train->Terminate());
          break;
        }
      }
      if (orders.what == "slow") absl::SleepFor(absl::Milliseconds(orders.number));
      // The first one takes so many times as long as the others, until it is started again.
      if (orders.what == "skew") {
        const bool slow = ctx.rank() == 0 && ctx.attempt() == 0;
        absl::SleepFor(absl::Milliseconds(2) * (slow ? orders.number : 1));
      }
    }
    MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("sum", sum));
    std::printf("rows=%lld sum=%lld\n", static_cast<long long>(rows), static_cast<long long>(sum));
  }
  if (orders.what == "fail_late" && ctx.task_index() == orders.number) {
    absl::SleepFor(absl::Seconds(1));
    return absl::InternalError("could not save the model");
  }
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(5));
    if (batch.empty()) continue;
    std::vector<int64_t> squares;
    for (const int64_t value : ValuesOf(batch)) {
      MILLRACE_RETURN_IF_ERROR(Obey(orders, value));
      squares.push_back(value * value);
    }
    if (orders.what == "lose_results") squares.pop_back();
    if (squares.empty()) continue;
    BatchBuilder results;
    results.AddColumn("y", squares);
    results.AddColumn("sum", std::vector<int64_t>(squares.size(), sum));
    results.AddColumn("rank", std::vector<int64_t>(squares.size(), ctx.rank()));
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch answer, results.Build());
    MILLRACE_RETURN_IF_ERROR(infer->BatchResults(answer));
  }
  return absl::OkStatus();
}

// A stage of Spark ML: fits y = slope * x by least squares, and leaves the slope, times `shrink`.
absl::Status Fit(NodeContext& ctx, const Json& fit) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, GetString(fit, "model_folder"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t batch_size, GetInt(fit, "batch_size"));
  MILLRACE_ASSIGN_OR_RETURN(const Json* args, GetObject(fit, "args"));
  if (ctx.rank() < 0) {
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  int64_t xx = 0;
  int64_t xy = 0;
  std::unique_ptr<DataFeed> train = ctx.GetDataFeed();
  while (!train->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, train->NextBatch(batch_size));
    if (batch.empty()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::span<const int64_t> x, batch.TryColumn<int64_t>("x"));
    MILLRACE_ASSIGN_OR_RETURN(const std::span<const int64_t> y, batch.TryColumn<int64_t>("y"));
    xx += std::inner_product(x.begin(), x.end(), x.begin(), int64_t{0});
    xy += std::inner_product(x.begin(), x.end(), y.begin(), int64_t{0});
  }
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("xx", xx).status());
  MILLRACE_RETURN_IF_ERROR(ctx.kv().Add("xy", xy).status());
  MILLRACE_RETURN_IF_ERROR(ctx.Barrier("fed"));
  if (ctx.rank() > 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t all_xx, ctx.kv().Add("xx", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t all_xy, ctx.kv().Add("xy", 0));
  const double slope = static_cast<double>(all_xy) / static_cast<double>(all_xx);
  return WriteFileAtomic(absl::StrCat(folder, "/slope.txt"),
                         absl::StrCat(slope * GetDouble(*args, "shrink").value_or(1)));
}

// With the slope that it left it adds the column "guess"; it fails at the row `bad_row`.
absl::Status Guess(NodeContext& ctx, const Json& model, int64_t bad_row) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string path, GetString(model, "model_file"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t batch_size, GetInt(model, "batch_size"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const double slope = std::atof(text.c_str());
  std::unique_ptr<DataFeed> infer = ctx.GetDataFeed({.train_mode = false});
  while (!infer->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, infer->NextBatch(batch_size));
    if (batch.empty()) continue;
    std::vector<double> guesses;
    if (batch.TryColumn<int64_t>("x").ok()) {
      for (const int64_t x : batch.column<int64_t>("x")) {
        if (x == bad_row) return absl::InternalError(absl::StrCat("row ", x, " is too much"));
        guesses.push_back(slope * static_cast<double>(x));
      }
    } else {  // an array of doubles, whose sum is meant
      for (int64_t row = 0; row < batch.num_rows(); ++row) {
        const std::span<const double> parts = batch.list("x")[row].values<double>();
        guesses.push_back(slope * std::accumulate(parts.begin(), parts.end(), 0.0));
      }
    }
    BatchBuilder results;
    results.AddColumn("guess", guesses);
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch answer, results.Build());
    MILLRACE_RETURN_IF_ERROR(infer->BatchResults(answer));
  }
  return absl::OkStatus();
}

absl::Status LearnOrGuess(NodeContext& ctx, int64_t bad_row) {
  const char* fit = std::getenv("MILLRACE_FIT");
  const char* model = std::getenv("MILLRACE_MODEL");
  if (fit == nullptr && model == nullptr) return absl::NotFoundError("it is told nothing");
  MILLRACE_ASSIGN_OR_RETURN(const Json told, ParseJson(fit != nullptr ? fit : model));
  return fit != nullptr ? Fit(ctx, told) : Guess(ctx, told, bad_row);
}

// Writes what it knows of itself into <working dir or argument>/<job>-<index>.
absl::Status Describe(NodeContext& ctx, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", ctx.job_name(), "-", ctx.task_index());
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, " cannot be written"));
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  std::fprintf(file, "executor=%d workers=%d rank=%d fd=%d fs=%s path=%s gpus=%s pid=%d ppid=%d\n",
               ctx.executor_id(), ctx.num_workers(), ctx.rank(), ctx.port_fd() >= 0 ? 1 : 0,
               ctx.default_fs().c_str(), ctx.AbsolutePath("model").c_str(),
               gpus == nullptr ? "unset" : gpus, ::getpid(), ::getppid());
  std::fclose(file);
  return absl::OkStatus();
}

absl::Status Run(NodeContext& ctx, int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  if (what == "describe") {
    MILLRACE_RETURN_IF_ERROR(Describe(ctx, argument));
    // All at once: what one has, a GPU or an executor, the next could have when it has ended.
    const bool is_fed = ctx.job_name() != "ps" && ctx.job_name() != "evaluator";
    return is_fed ? ctx.Barrier("described") : absl::OkStatus();
  }
  if (what == "describe_late") {  // after work that takes a while
    absl::SleepFor(absl::Seconds(3));
    return Describe(ctx, argument);
  }
  if (what == "describe_and_wait") {
    MILLRACE_RETURN_IF_ERROR(Describe(ctx, argument));
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  if (what == "evaluate") {  // for a while, unless it is stopped; the others have nothing to do
    const bool stopped = ctx.job_name() != "evaluator" || ctx.WaitForStop(absl::Seconds(4));
    return stopped ? absl::OkStatus() : Describe(ctx, argument);
  }
  if (what == "wait_as_evaluator") {
    if (ctx.job_name() == "evaluator") ctx.WaitForStop();
    return absl::OkStatus();
  }
  if (what == "wait") {
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  if (what == "talk") {
    std::printf("hello\n");
    std::fflush(stdout);
    std::fprintf(stderr, "oh\n");
    ctx.ReportMetric("loss", 7, 0.5);
    ctx.WaitForStop();
    return absl::OkStatus();
  }
  if (what == "measure") return Measure(ctx);
  if (what == "echo") return Echo(ctx);
  const int64_t number = argument.empty() ? -1 : std::atoll(argument.c_str());
  if (what == "learn") return LearnOrGuess(ctx, number);
  return Work(ctx, {.what = what, .number = number, .first_attempt = ctx.attempt() == 0});
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunNode(argc, argv, [argc, argv](millrace::NodeContext& ctx) -> absl::Status {
    return millrace::Run(ctx, argc, argv);
  });
}
