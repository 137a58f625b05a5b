// The coordinator that //testing/bench:reservation measures, as a process of its own: one that drivers
// embed, with its default options but for lost_after. Its agents share the cores with it here: while ten
// thousand shake hands, their heartbeats may come late by more than the 5 s that agents with hosts of
// their own are given.

#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/role_dealer.h"
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
  options.roles = *DealRoles({.num_executors = (*said)["agents"].get<int>(), .master_node = "chief"});
  options.lost_after = absl::Minutes(10);
  options.node.program = "/bin/true";
  options.node.input_mode = InputMode::kDirect;
  const auto coordinator = Coordinator::Start(std::move(options));
  MILLRACE_CHECK(coordinator.ok()) << coordinator.status();
  ServeUsage(&parent, Json{{"address", (*coordinator)->address()},
                           {"ca_pem", (*coordinator)->ca_pem()},
                           {"token", (*coordinator)->tokens().agent}});
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
