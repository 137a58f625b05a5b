// The coordinator that //testing/bench:dashboard looks at, as a process of its own: the one that
// drivers embed, of a fed cluster, with a feed whose ledger goes on.
//
// Over stdin and stdout (json_child.h): takes {agents}, says {address, ca_pem, identity_pem, token,
// viewer_token}; then
// answers each line as ServeUsage() does.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "testing/bench/bench_server.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

constexpr int64_t kPartitions = 100'000;
constexpr int kReportsPerSecond = 100;
constexpr uint64_t kRowsPerPartition = 4096;

// Partition after partition is done, by node after node.
[[noreturn]] void Feed(Coordinator* coordinator, int agents) {
  MILLRACE_CHECK(coordinator->OpenFeed("feed-1", "input", kPartitions).ok());
  for (int64_t partition = 0;; ++partition) {
    PartitionReport report;
    report.partition = partition % kPartitions;
    report.state = PartitionState::kDone;
    report.executor_id = static_cast<int>(partition % agents);
    report.feeder_attempt = static_cast<uint64_t>(partition);
    report.rows_received = report.rows_acked = kRowsPerPartition;
    const absl::Status status = coordinator->ReportPartition("feed-1", report);
    MILLRACE_CHECK(status.ok()) << status;
    absl::SleepFor(absl::Seconds(1) / kReportsPerSecond);
  }
}

int Main() {
  RaiseFileLimit();
  JsonParent parent;
  const std::optional<Json> said = parent.Receive();
  if (!said.has_value()) return 1;
  const int agents = (*said)["agents"].get<int>();
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = agents, .master_node = "chief"});
  options.program.path = "/bin/true";
  options.input_mode = InputMode::kFeed;
  // Ten thousand simulated agents and their coordinator share a host: who is late is not lost.
  options.lost_after = absl::Minutes(5);
  const auto coordinator = Coordinator::Start(std::move(options));
  MILLRACE_CHECK(coordinator.ok()) << coordinator.status();
  const Thread feed("feed", [&] { Feed(coordinator->get(), agents); });
  ServeUsage(&parent, Json{{"address", (*coordinator)->address()},
                           {"ca_pem", (*coordinator)->ca_pem()},
                           {"identity_pem", (*coordinator)->agent_identity_pem()},
                           {"token", (*coordinator)->tokens().agent},
                           {"viewer_token", (*coordinator)->tokens().viewer}});
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
