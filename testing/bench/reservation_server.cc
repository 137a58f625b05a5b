// The coordinator that //testing/bench:reservation measures, as a process of its own: the one that
// drivers embed, with its default options.

#include <optional>
#include <utility>

#include "core/base/log.h"
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
  const auto coordinator = Coordinator::Start(std::move(options));
  MILLRACE_CHECK(coordinator.ok()) << coordinator.status();
  ServeUsage(&parent, Json{{"address", (*coordinator)->address()},
                           {"ca_pem", (*coordinator)->ca_pem()},
                           {"identity_pem", (*coordinator)->agent_identity_pem()},
                           {"token", (*coordinator)->tokens().agent}});
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
