// What a scrape of `millrace metrics` costs. See README.md.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/unique_fd.h"
#include "core/cli/metrics/cluster_metrics.h"
#include "core/client/cluster_view.h"
#include "core/metrics/metrics_server.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"

namespace millrace::bench {
namespace {

constexpr int kNodesOfAHost = 8;  // of which one tells of the host's GPUs
constexpr double kMostMs = 200;

// A snapshot of so many nodes, each with a process, a queue that is fed, and a GPU.
v1::WatchUpdate Snapshot(int nodes) {
  const absl::Time now = absl::Now();
  v1::WatchUpdate update;
  update.set_seq(1);
  update.set_snapshot(true);
  update.set_incarnation("bench");
  *update.mutable_time() = TimeToProto(now);
  v1::ClusterInfo& cluster = *update.mutable_cluster();
  cluster.set_cluster_id("bench");
  cluster.set_phase(v1::ClusterInfo::PHASE_RUNNING);
  *cluster.mutable_started() = TimeToProto(now - absl::Minutes(1));
  cluster.set_num_slots(nodes);
  for (int state = 0; state <= v1::SLOT_STATE_LOST; ++state) cluster.add_by_state(0);
  cluster.set_by_state(v1::SLOT_STATE_RUNNING, nodes);
  for (int i = 0; i < nodes; ++i) {
    v1::SlotStatus& slot = *update.add_slots();
    slot.set_executor_id(i);
    slot.set_job_name(i % 50 == 0 ? "ps" : "worker");
    slot.set_task_index(i);
    slot.set_state(v1::SLOT_STATE_RUNNING);
    slot.set_host(absl::StrCat("host-", i / kNodesOfAHost));
    for (int state = v1::SLOT_STATE_STARTED; state <= v1::SLOT_STATE_RUNNING; ++state) {
      v1::StateTime& reached = *slot.add_reached();
      reached.set_state(static_cast<v1::SlotState>(state));
      *reached.mutable_time() = TimeToProto(now - absl::Milliseconds(i));
    }
    v1::WatchUpdate::Node& node = *update.add_nodes();
    node.set_executor_id(i);
    *node.mutable_received() = TimeToProto(now);
    v1::NodeSample& sample = *node.mutable_sample();
    sample.mutable_process()->set_cpu_us(1'234'567 + i);
    sample.mutable_process()->set_rss_bytes(1 << 30);
    sample.set_step(i);
    v1::QueueSample& queue = *sample.add_queues();
    queue.set_queue("input");
    queue.set_rows_received(1'000'000 + i);
    queue.set_wait_us(1000 + i);
    v1::QueueLedger& ledger = *node.add_ledger();
    ledger.set_queue("input");
    ledger.set_rows_acked(1'000'000 + i);
    sample.add_claimed_gpus(absl::StrCat("GPU-", i));
    for (int gpu = 0; i % kNodesOfAHost == 0 && gpu < kNodesOfAHost; ++gpu) {
      v1::GpuSample& of = *sample.add_gpus();
      of.set_index(gpu);
      of.set_uuid(absl::StrCat("GPU-", i + gpu));
      of.set_utilization_percent(50);
      of.set_memory_used_bytes(1 << 30);
    }
  }
  return update;
}

// The bytes of one GET over loopback.
absl::StatusOr<int64_t> Get(int port, const std::string& path) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, "connect");
  }
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return absl::ErrnoToStatus(errno, "send");
  }
  std::string answer(size_t{1} << 16, '\0');
  int64_t total = 0;
  while (true) {
    const ssize_t got = recv(fd.get(), answer.data(), answer.size(), 0);
    if (got < 0) return absl::ErrnoToStatus(errno, "recv");
    if (got == 0) return total;
    if (total == 0 && !absl::StartsWith(answer, "HTTP/1.1 200")) {
      return absl::InternalError(answer.substr(0, 100));
    }
    total += got;
  }
}

absl::Status Main(const BenchFlags& flags, int nodes, BenchReport* report) {
  ClusterView view;
  MILLRACE_RETURN_IF_ERROR(view.Apply(Snapshot(nodes)));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> server,
                            MetricsServer::Start({}, [&view](const MetricsRequest& request) {
                              return cli::ClusterMetrics(
                                  {&view}, {}, {.format = request.format, .nodes = request.nodes});
                            }));
  Samples copy;
  for (int i = 0; i < flags.repetitions; ++i) {
    const absl::Time begin = absl::Now();
    const ClusterView copied = view;
    copy.Add(absl::Now() - begin);
  }
  BenchTable table({"a scrape, ms", "median", "min", "max"});
  struct Part {
    std::string name, path, what;
  };
  for (const Part& part :
       {Part{"roles", "/metrics", "by role"}, Part{"nodes", "/metrics?nodes=1", "and each node"}}) {
    Samples scrape;
    int64_t bytes = 0;
    for (int i = 0; i < flags.repetitions; ++i) {
      const absl::Time begin = absl::Now();
      MILLRACE_ASSIGN_OR_RETURN(bytes, Get(server->port(), part.path));
      scrape.Add(absl::Now() - begin);
    }
    table.AddSamples(absl::StrCat(part.what, ", ", bytes / 1000, " KB"), scrape);
    report->Add(Figure{.name = absl::StrCat("metrics.", part.name),
                       .unit = "ms",
                       .ours = scrape.Median(),
                       .ref = copy.Median(),
                       .ref_is = "copying what is known of the nodes",
                       .goal = AtMost(kMostMs)});
  }
  report->Add(table, absl::StrCat(nodes, " nodes with a queue and a GPU each, over loopback"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::BenchFlags flags;
  int nodes = 10'000;
  CLI::App app("What a scrape of `millrace metrics` costs.");
  app.add_option("--nodes", nodes, "of the cluster")->check(CLI::Range(1, 1'000'000));
  flags.AddTo(&app);
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report("metrics: a scrape of a large cluster", flags);
  return report.Finish(millrace::bench::Main(flags, nodes, &report));
}
