// Rows from a feeder process into the typed spans of a node process. See README.md.

#include <zmq.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(120);
constexpr double kGiga = 1e9;
constexpr double kSharedCpuSecondsPerGb = 0.2;

struct Flags : BenchFlags {
  std::vector<std::string> shapes = {"i64", "f32x64", "f32x784", "bin3k"};
  std::vector<std::string> transports = {"ipc", "shm", "tcp", "curve"};
  std::vector<int64_t> batch_kib = {64, 256, 1024, 4096};
  int64_t mib = 1024;
  bool flight = true;
};

struct Case {
  std::string shape;
  std::string transport;
  int64_t batch_bytes = 0;

  friend bool operator<(const Case& a, const Case& b) {
    return std::tie(a.shape, a.transport, a.batch_bytes) <
           std::tie(b.shape, b.transport, b.batch_bytes);
  }
};

// One way to move the rows of a case.
struct Measured {
  Samples gb_per_s;
  Samples cpu_s_per_gb;  // both ends together
  Samples sender_peak_mb;
  Samples receiver_peak_mb;
};

struct Result {
  Measured ours;
  Measured zmq;
  Measured flight;  // for tcp alone, which it speaks
};

int64_t BatchesOf(const Flags& flags, int64_t batch_bytes) {
  return std::max<int64_t>(8, (flags.mib << 20) / batch_bytes);
}

// Bytes of values that `batches` carry.
double PayloadOf(const Case& which, int64_t batches) {
  const FeedShape* shape = FindFeedShape(which.shape);
  return static_cast<double>(batches * shape->RowsFor(which.batch_bytes) * shape->row_bytes);
}

absl::Status Once(const Flags& flags, const Case& which, const std::string& way, Measured* out) {
  const std::string program =
      RunfilePath(way == "flight" ? "testing/bench/flight_end" : "testing/bench/feed_end");
  const int64_t batches = BatchesOf(flags, which.batch_bytes);
  Json task = {{"role", "receive"},
               {"way", way},
               // Nothing else here has shared memory: what stands beside it is ipc.
               {"transport", which.transport == "shm" && way != "ours" ? "ipc" : which.transport},
               {"shape", which.shape},
               {"batch_bytes", which.batch_bytes},
               {"batches", batches},
               {"rows", FindFeedShape(which.shape)->RowsFor(which.batch_bytes)}};
  MILLRACE_ASSIGN_OR_RETURN(auto receiver, JsonChild::Start(program));
  MILLRACE_ASSIGN_OR_RETURN(const Json where, receiver->Ask(task, kLongest));
  task["role"] = "send";
  task["to"] = Json::array({where});
  MILLRACE_ASSIGN_OR_RETURN(auto sender, JsonChild::Start(program));
  MILLRACE_ASSIGN_OR_RETURN(const Json feeder, sender->Ask(task, kLongest));
  MILLRACE_RETURN_IF_ERROR(receiver->Ask(Json::array({feeder}), kLongest).status());
  const absl::Time start = absl::Now();
  MILLRACE_RETURN_IF_ERROR(sender->Send(Json::object()));
  MILLRACE_ASSIGN_OR_RETURN(const Json received, receiver->Receive(kLongest));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  // Bare senders do not know when all is received; ours then waits to be told that it may end.
  MILLRACE_RETURN_IF_ERROR(sender->Send(Json::object()));
  MILLRACE_ASSIGN_OR_RETURN(const Json sent, sender->Receive(kLongest));
  const double gigabytes = (way == "unix" ? static_cast<double>(batches * which.batch_bytes)
                                          : PayloadOf(which, batches)) /
                           kGiga;
  out->gb_per_s.Add(gigabytes / seconds);
  out->cpu_s_per_gb.Add((received["cpu_s"].get<double>() + sent["cpu_s"].get<double>()) /
                        gigabytes);
  out->sender_peak_mb.Add(sent["peak_kb"].get<double>() / 1024);
  out->receiver_peak_mb.Add(received["peak_kb"].get<double>() / 1024);
  return absl::OkStatus();
}

// Copies between two blocks of 256 MiB, a batch at a time.
double MemcpyGbPerSecond(const Flags& flags, int64_t batch_bytes) {
  constexpr int64_t kBlock = int64_t{256} << 20;
  const std::vector<char> from(kBlock, 'm');
  std::vector<char> to(kBlock, 't');
  const int64_t batches = BatchesOf(flags, batch_bytes);
  const absl::Time start = absl::Now();
  for (int64_t i = 0; i < batches; ++i) {
    const int64_t at = (i * batch_bytes) % (kBlock - batch_bytes + 1);
    std::memcpy(to.data() + at, from.data() + at, static_cast<size_t>(batch_bytes));
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return static_cast<double>(batches * batch_bytes) / kGiga / seconds;
}

void AddTables(const std::map<Case, Result>& results, BenchReport* report) {
  BenchTable table({"rows, transport, batch", "ours GB/s", "libzmq GB/s", "ratio", "ours cpu s/GB",
                    "libzmq cpu s/GB", "ours peak MB (send/receive)"});
  for (const auto& [which, result] : results) {
    const double ours = result.ours.gb_per_s.Median();
    const double zmq = result.zmq.gb_per_s.Median();
    table.AddRow(
        {absl::StrCat(which.shape, ", ", which.transport, ", ", which.batch_bytes >> 10, " KiB"),
         FormatNumber(ours), FormatNumber(zmq), FormatNumber(ours / zmq),
         FormatNumber(result.ours.cpu_s_per_gb.Median()),
         FormatNumber(result.zmq.cpu_s_per_gb.Median()),
         absl::StrCat(FormatNumber(result.ours.sender_peak_mb.Max()), "/",
                      FormatNumber(result.ours.receiver_peak_mb.Max()))});
  }
  report->Add(table, "medians");
  BenchTable flight({"rows, batch (tcp)", "ours GB/s", "Flight GB/s", "ours cpu s/GB",
                     "Flight cpu s/GB", "Flight peak MB (send/receive)"});
  bool any = false;
  for (const auto& [which, result] : results) {
    if (result.flight.gb_per_s.size() == 0) continue;
    any = true;
    flight.AddRow({absl::StrCat(which.shape, ", ", which.batch_bytes >> 10, " KiB"),
                   FormatNumber(result.ours.gb_per_s.Median()),
                   FormatNumber(result.flight.gb_per_s.Median()),
                   FormatNumber(result.ours.cpu_s_per_gb.Median()),
                   FormatNumber(result.flight.cpu_s_per_gb.Median()),
                   absl::StrCat(FormatNumber(result.flight.sender_peak_mb.Max()), "/",
                                FormatNumber(result.flight.receiver_peak_mb.Max()))});
  }
  if (any) report->Add(flight, "beside Arrow Flight's DoPut (pyarrow, C++ at both ends): medians");
}

void AddFigures(const std::map<Case, Result>& results, BenchReport* report) {
  for (const auto& [which, result] : results) {
    const int64_t kib = which.batch_bytes >> 10;
    if (kib != 64 && kib != 1024) continue;
    report->Add(
        Figure{.name = absl::StrCat("feed_", which.shape, "_", which.transport, "_", kib, "k"),
               .unit = "GB/s",
               .ours = result.ours.gb_per_s.Median(),
               .ref = result.zmq.gb_per_s.Median(),
               .ref_is = "bare libzmq PUSH/PULL of the same parts, two processes",
               .goal = RatioAtLeast(which.transport == "shm" && kib == 1024 ? 2.5
                                    : kib == 64                             ? 0.8
                                                                            : 0.9)});
    if (which.transport == "shm" && kib == 1024) {
      report->Add(Figure{.name = absl::StrCat("feed_", which.shape, "_shm_cpu_", kib, "k"),
                         .unit = "s/GB",
                         .ours = result.ours.cpu_s_per_gb.Median(),
                         .ref = kSharedCpuSecondsPerGb,
                         .ref_is = "a goal for the CPU of both ends",
                         .goal = RatioAtMost(1)});
    }
    if (result.flight.gb_per_s.size() == 0) continue;
    report->Add(Figure{.name = absl::StrCat("feed_flight_", which.shape, "_", kib, "k"),
                       .unit = "GB/s",
                       .ours = result.ours.gb_per_s.Median(),
                       .ref = result.flight.gb_per_s.Median(),
                       .ref_is = "Arrow Flight DoPut of the same batches, two processes, tcp",
                       .goal = RatioAtLeast(1)});
    report->Add(Figure{.name = absl::StrCat("feed_flight_cpu_", which.shape, "_", kib, "k"),
                       .unit = "s/GB",
                       .ours = result.ours.cpu_s_per_gb.Median(),
                       .ref = result.flight.cpu_s_per_gb.Median(),
                       .ref_is = "CPU of both ends of that",
                       .goal = RatioAtMost(1)});
  }
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  std::map<Case, Result> results;
  for (int i = 0; i < flags.repetitions; ++i) {
    for (const std::string& shape : flags.shapes) {
      for (const std::string& transport : flags.transports) {
        for (const int64_t kib : flags.batch_kib) {
          const Case which{shape, transport, kib << 10};
          Result& result = results[which];
          // In turns: what else the machine does hits both.
          MILLRACE_RETURN_IF_ERROR(Once(flags, which, "zmq", &result.zmq));
          MILLRACE_RETURN_IF_ERROR(Once(flags, which, "ours", &result.ours));
          if (flags.flight && transport == "tcp") {
            MILLRACE_RETURN_IF_ERROR(Once(flags, which, "flight", &result.flight));
          }
        }
      }
    }
  }
  AddTables(results, report);
  BenchTable below({"batch", "unix socket GB/s", "unix socket cpu s/GB", "memcpy GB/s"});
  for (const int64_t kib : flags.batch_kib) {
    Measured bare;
    Samples copy;
    for (int i = 0; i < flags.repetitions; ++i) {
      MILLRACE_RETURN_IF_ERROR(Once(flags, {"i64", "ipc", kib << 10}, "unix", &bare));
      copy.Add(MemcpyGbPerSecond(flags, kib << 10));
    }
    below.AddRow({absl::StrCat(kib, " KiB"), FormatNumber(bare.gb_per_s.Median()),
                  FormatNumber(bare.cpu_s_per_gb.Median()), FormatNumber(copy.Median())});
  }
  report->Add(below, "what lies below: medians");
  AddFigures(results, report);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 3;
  CLI::App app("GB/s from a feeder process into the typed spans of a node process.");
  flags.AddTo(&app);
  app.add_option("--shapes", flags.shapes, "of rows")
      ->delimiter(',')
      ->check(CLI::IsMember({"i64", "f32x64", "f32x784", "bin3k"}))
      ->capture_default_str();
  app.add_option("--transports", flags.transports, "between the processes")
      ->delimiter(',')
      ->check(CLI::IsMember({"ipc", "shm", "tcp", "curve"}))
      ->capture_default_str();
  app.add_option("--batch_kib", flags.batch_kib, "sizes of a batch")
      ->delimiter(',')
      ->check(CLI::Range(4, 65536))
      ->capture_default_str();
  app.add_option("--mib", flags.mib, "moved in each measurement")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--flight", flags.flight, "also measure Arrow Flight, over tcp")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report(
      "feed: rows from a feeder process into the typed spans of a node process", flags);
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  report.AddVersion("libzmq", absl::StrCat(major, ".", minor, ".", patch));
  return report.Finish(millrace::bench::Main(flags, &report));
}
