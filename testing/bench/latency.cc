// One row into a node process and its result back. See README.md.

#include <zmq.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadlock_detector.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/ipc/ipc.h"
#include "millrace/record_batch.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(60);
constexpr char kShape[] = "f32x784";
constexpr int kWarmUp = 200;

struct Flags : BenchFlags {
  int rows = 10'000;
};

// Microseconds of each round trip.
using Times = std::vector<double>;

double Percentile(Times* times, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(times->size() - 1));
  std::nth_element(times->begin(), times->begin() + static_cast<int64_t>(at), times->end());
  return (*times)[at];
}

absl::Status Ours(const Flags& flags, bool shared_memory, Times* times) {
  MILLRACE_ASSIGN_OR_RETURN(auto node, JsonChild::Start(RunfilePath("testing/bench/latency_end")));
  MILLRACE_ASSIGN_OR_RETURN(const Json where,
                            node->Ask({{"way", "ours"}, {"rows", flags.rows + kWarmUp}}, kLongest));
  MILLRACE_ASSIGN_OR_RETURN(auto feeder, Feeder::Start({.shared_memory = shared_memory}));
  const FeedTarget target{.node = "worker:0",
                          .nonce = "5b0c9e1f22d3a4b6",
                          .ipc_endpoint = where["ipc"],
                          .key = where["key"]};
  MILLRACE_ASSIGN_OR_RETURN(
      auto session,
      feeder->OpenSession(target, {.feed_id = "bench", .mode = FeedMode::kInference}));
  const RecordBatch row = FindFeedShape(kShape)->Make(1);
  for (int i = 0; i < flags.rows + kWarmUp; ++i) {
    const absl::Time start = absl::Now();
    MILLRACE_RETURN_IF_ERROR(session->Send(row));
    if (i + 1 == flags.rows + kWarmUp) MILLRACE_RETURN_IF_ERROR(session->Finish(i + 1));
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> result, session->NextResult());
    if (!result.has_value()) return absl::InternalError("a result is missing");
    if (i >= kWarmUp) times->push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  return node->Send(Json::object());
}

absl::Status Bare(const Flags& flags, Times* times) {
  MILLRACE_ASSIGN_OR_RETURN(auto node, JsonChild::Start(RunfilePath("testing/bench/latency_end")));
  MILLRACE_ASSIGN_OR_RETURN(const Json where,
                            node->Ask({{"way", "zmq"}, {"rows", flags.rows + kWarmUp}}, kLongest));
  const RecordBatch row = FindFeedShape(kShape)->Make(1);
  MILLRACE_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeBatch(row));
  const std::string header(32, 'h');
  const std::string metadata = std::string(16, 'p') + encoded.metadata;
  std::string body;
  for (const BodyPart& part : encoded.parts) {
    body.append(reinterpret_cast<const char*>(part.data), part.size);
  }
  void* const context = zmq_ctx_new();
  void* const pull = zmq_socket(context, ZMQ_PULL);
  void* const push = zmq_socket(context, ZMQ_PUSH);
  const std::string reply = absl::StrCat("ipc://@millrace-bench-", RandomHex(8));
  absl::Status status;
  if (zmq_bind(pull, reply.c_str()) != 0 ||
      zmq_connect(push, where["ipc"].get<std::string>().c_str()) != 0) {
    status = absl::UnavailableError("cannot bind or connect");
  }
  if (status.ok()) status = node->Send({{"reply", reply}});
  for (int i = 0; status.ok() && i < flags.rows + kWarmUp; ++i) {
    const absl::Time start = absl::Now();
    zmq_send(push, header.data(), header.size(), ZMQ_SNDMORE);
    zmq_send(push, metadata.data(), metadata.size(), ZMQ_SNDMORE);
    zmq_send(push, body.data(), body.size(), 0);
    bool more = true;
    while (more) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, pull, 0) < 0) status = absl::InternalError("cannot receive");
      more = status.ok() && zmq_msg_more(&part) != 0;
      zmq_msg_close(&part);
    }
    if (i >= kWarmUp) times->push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  if (status.ok()) status = node->Send(Json::object());
  zmq_close(pull);
  zmq_close(push);
  zmq_ctx_term(context);
  return status;
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  struct Column {
    const char* name;
    double share;
    Samples ours;
    Samples shared;
    Samples bare;
  };
  std::vector<Column> columns = {
      {"p50", 0.5, {}, {}, {}}, {"p99", 0.99, {}, {}, {}}, {"p999", 0.999, {}, {}, {}}};
  for (int i = 0; i < flags.repetitions; ++i) {
    Times ours;
    Times shared;
    Times bare;
    MILLRACE_RETURN_IF_ERROR(Bare(flags, &bare));
    MILLRACE_RETURN_IF_ERROR(Ours(flags, /*shared_memory=*/false, &ours));
    MILLRACE_RETURN_IF_ERROR(Ours(flags, /*shared_memory=*/true, &shared));
    for (Column& column : columns) {
      column.ours.Add(Percentile(&ours, column.share));
      column.shared.Add(Percentile(&shared, column.share));
      column.bare.Add(Percentile(&bare, column.share));
    }
  }
  BenchTable table({"", "ours us", "sharing us", "libzmq us", "ratio"});
  for (const Column& column : columns) {
    table.AddRow({column.name, FormatNumber(column.ours.Median()),
                  FormatNumber(column.shared.Median()), FormatNumber(column.bare.Median()),
                  FormatNumber(column.ours.Median() / column.bare.Median())});
    for (const bool shared : {false, true}) {
      const Samples& ours = shared ? column.shared : column.ours;
      report->Add(Figure{.name = absl::StrCat("latency_", column.name, shared ? "_shared" : ""),
                         .unit = "us",
                         .ours = ours.Median(),
                         .ref = column.bare.Median(),
                         .ref_is = "bare libzmq PUSH/PULL there and back, two processes, ipc",
                         .goal = RatioAtMost(1.5)});
    }
  }
  report->Add(
      table, absl::StrCat("one row of 784 float32 in, one back; ", flags.rows,
                          " round trips over ipc; medians of ", flags.repetitions, " repetitions"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::StopDeadlockDetector();  // as RunNode and the coordinator do
  millrace::bench::Flags flags;
  flags.repetitions = 3;
  CLI::App app("One row into a node process and its result back.");
  flags.AddTo(&app);
  app.add_option("--rows", flags.rows, "round trips of a repetition")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("latency: one row in, one result back", flags);
  return report.Finish(millrace::bench::Main(flags, &report));
}
