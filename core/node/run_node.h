// File: run_node.h
//
// The main function of a node program.
//
//   int main(int argc, char** argv) {
//     return millrace::RunNode(argc, argv, [](millrace::NodeContext& ctx) -> absl::Status {
//       std::printf("I am %s of %d workers\n", ctx.name().c_str(), ctx.num_workers());
//       return absl::OkStatus();
//     });
//   }
#ifndef CORE_NODE_RUN_NODE_H_
#define CORE_NODE_RUN_NODE_H_

#include <functional>

#include "absl/status/status.h"
#include "core/node/node_context.h"

namespace millrace {

// Runs `body` as the node that the environment describes, and returns the exit code for main():
//   0   body returned OK: everything it was handed is acknowledged; training sessions still open count
//       as terminated, inference sessions still open fail
//   1   body returned an error: it is printed to stderr in one line and told to agent and feeders
//   2   there is no usable context: not started by an agent, or by one of another version
// If the agent dies, the process ends at once with 70. SIGPIPE is ignored from here on. Call it once,
// from the main thread. `argc` and `argv` are the program's own; nothing is taken from them.
int RunNode(int argc, char** argv, const std::function<absl::Status(NodeContext&)>& body);

}  // namespace millrace

#endif  // CORE_NODE_RUN_NODE_H_
