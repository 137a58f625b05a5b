// The coordinator that //testing/bench:reservation measures, as a process of its own: the one that
// drivers embed, with its default options. As a driver does, it waits until all nodes run, which it
// says when it is asked {running}, and stops them all when one has failed.

#include <atomic>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "testing/bench/bench_server.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

int Main() {
  RaiseFileLimit();
  JsonParent parent;
  const std::optional<Json> said = parent.Receive();
  if (!said.has_value()) return 1;
  CoordinatorOptions options;
  options.roles =
      *DealRoles({.num_executors = (*said)["agents"].get<int>(), .master_node = "chief"});
  options.program.path = "/bin/true";
  options.input_mode = InputMode::kDirect;
  options.reservation_timeout = absl::Hours(1);
  options.lost_after = absl::Minutes(1);  // a busy machine is not a lost host
  const auto coordinator = Coordinator::Start(std::move(options));
  MILLRACE_CHECK(coordinator.ok()) << coordinator.status();
  std::atomic<bool> running{false};
  const Thread driver("driver", [&running, &of = **coordinator] {
    running = of.WaitRunning(absl::InfiniteDuration()).ok();
    const absl::Status failure = of.WaitFailure(absl::InfiniteDuration());
    of.Stop(NodeFilter::kAll, failure.message(), /*now=*/true);
  });
  ServeUsage(&parent,
             Json{{"address", (*coordinator)->address()},
                  {"ca_pem", (*coordinator)->ca_pem()},
                  {"identity_pem", (*coordinator)->agent_identity_pem()},
                  {"token", (*coordinator)->tokens().agent}},
             [&running](const Json& asked) {
               return asked.contains("running") ? Json{{"running", running.load()}} : Json();
             });
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
