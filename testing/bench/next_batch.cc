// What DataFeed::NextBatch costs on rows that are there already. See README.md.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadlock_detector.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"

namespace millrace::bench {
namespace {

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr char kShape[] = "f32x64";

struct Measured {
  Samples ns_per_call;
  Samples rows_per_s;
};

// Fills a node with `batches` batches of `batch_rows` rows, then takes all of them in pieces.
absl::Status Once(int64_t rows, int64_t batch_rows, int64_t batches, Measured* out) {
  const FeedShape* shape = FindFeedShape(kShape);
  const int64_t total = batches * batch_rows;
  MILLRACE_ASSIGN_OR_RETURN(auto receiver,
                            FeedReceiver::Start({.node_name = "worker:0",
                                                 .nonce = kNonce,
                                                 .budget_bytes = 2 * total * shape->row_bytes}));
  MILLRACE_ASSIGN_OR_RETURN(auto feed, receiver->GetDataFeed());
  MILLRACE_ASSIGN_OR_RETURN(auto feeder, Feeder::Start({}));
  const FeedTarget target{.node = "worker:0",
                          .nonce = kNonce,
                          .ipc_endpoint = receiver->endpoints().ipc,
                          .key = receiver->endpoints().key};
  MILLRACE_ASSIGN_OR_RETURN(auto session, feeder->OpenSession(target, {.feed_id = "bench"}));
  const RecordBatch batch = shape->Make(batch_rows);
  for (int64_t i = 0; i < batches; ++i) MILLRACE_RETURN_IF_ERROR(session->Send(batch));
  MILLRACE_RETURN_IF_ERROR(session->Finish(total));
  MILLRACE_RETURN_IF_ERROR(session->WaitReceived());  // all of it is in the node
  const int64_t calls = total / rows;
  double sum = 0;
  const absl::Time start = absl::Now();
  for (int64_t i = 0; i < calls; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch got, feed->NextBatch(rows));
    sum += shape->Touch(got);
  }
  const absl::Duration elapsed = absl::Now() - start;
  if (sum < 0) return absl::InternalError("the rows are not those that were sent");
  out->ns_per_call.Add(absl::ToDoubleNanoseconds(elapsed) / static_cast<double>(calls));
  out->rows_per_s.Add(static_cast<double>(calls * rows) / absl::ToDoubleSeconds(elapsed));
  receiver->EndAllFeeds();
  return receiver->Finish(absl::OkStatus());
}

// A mutex-free lower bound: a shared_ptr copied and dropped, which any slice of shared rows needs.
double SharedPointerNanoseconds() {
  constexpr int kCopies = 2'000'000;
  const auto owner = std::make_shared<int64_t>(1);
  std::vector<std::shared_ptr<int64_t>> kept(64);
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCopies; ++i) kept[static_cast<size_t>(i) % kept.size()] = owner;
  return absl::ToDoubleNanoseconds(absl::Now() - start) / kCopies;
}

absl::Status Main(const BenchFlags& flags, BenchReport* report) {
  constexpr int64_t kBatchRows = 4096;  // 1 MiB
  constexpr int64_t kBatches = 256;
  BenchTable table({"call", "ns/call: median", "min", "max", "rows/s"});
  for (const int64_t rows : {int64_t{1}, int64_t{64}, int64_t{1024}}) {
    Measured measured;
    for (int i = 0; i < flags.repetitions; ++i) {
      MILLRACE_RETURN_IF_ERROR(Once(rows, kBatchRows, kBatches, &measured));
    }
    const Samples& ns = measured.ns_per_call;
    table.AddRow({absl::StrCat("NextBatch(", rows, ")"), FormatNumber(ns.Median()),
                  FormatNumber(ns.Min()), FormatNumber(ns.Max()),
                  FormatNumber(measured.rows_per_s.Median())});
    if (rows == 64) {
      report->Add(Figure{.name = "next_batch_64",
                         .unit = "ns",
                         .ours = ns.Median(),
                         .ref = SharedPointerNanoseconds(),
                         .ref_is = "copying a shared_ptr, which every slice of shared rows does",
                         .goal = AtMost(200)});
    }
  }
  report->Add(table, "rows of 64 float32, received in batches of 1 MiB; no copy is due");
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::StopDeadlockDetector();  // as RunNode and the coordinator do
  millrace::bench::BenchFlags flags;
  flags.repetitions = 5;
  CLI::App app("What NextBatch costs on rows that have been received.");
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("next_batch: NextBatch on buffered rows", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
