// A coordinator that a test can kill: serves a cluster of one worker that runs `argv[1..]`, says on
// stdout how to reach it, and ends with its stdin.

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "core/base/json.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"

int main(int argc, char** argv) {
  if (argc < 2) return 98;
  millrace::CoordinatorOptions options;
  auto roles = millrace::DealRoles({.num_executors = 1});
  if (!roles.ok()) return 97;
  options.roles = *std::move(roles);
  options.program.path = argv[1];
  options.program.args = {argv + 2, argv + argc};
  options.failure.stop_grace = absl::Milliseconds(200);
  options.lease = absl::Seconds(1);
  const auto coordinator = millrace::Coordinator::Start(std::move(options));
  if (!coordinator.ok()) return 96;
  const millrace::Json reach = {{"address", (*coordinator)->address()},
                                {"ca_pem", (*coordinator)->ca_pem()},
                                {"identity_pem", (*coordinator)->agent_identity_pem()},
                                {"token", (*coordinator)->tokens().agent}};
  std::printf("%s\n", millrace::DumpJson(reach).c_str());
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
