// File: core/node/run_node.h
//
// The main function of a node program.
//
// Defines: RunNode(), OpenNode().
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
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/node/node_context.h"

namespace millrace {

// Runs `body` as the node that the environment describes, and returns the exit code for main():
//   0   body returned OK: everything it was handed is acknowledged; training sessions still open
//       count as terminated
//   1   body returned an error, or OK with inference rows left without results
//       (FAILED_PRECONDITION)
//   2   this process could not take its place: not started by an agent, by one of another version,
//       or the feed's receiver did not start
// With 1 and 2 one line on stderr says why; agent and feeders are told too. If the agent dies
// before `body` has returned, the process ends at once with 70, without destructors.
//
// From here on SIGPIPE is ignored, also in programs that this one starts, and the descriptors of
// the control channel and of the reserved port are close-on-exec; the environment stays as it is. A
// child of a node is no node: RunNode ends with 2 there. Call it once, from the main thread. `argc`
// and `argv` are the program's own; nothing is taken from them.
int RunNode(int argc, char** argv, const std::function<absl::Status(NodeContext&)>& body);

// What RunNode does before `body`, for who stays in a main function of its own, as programs in
// other languages do: it prints no error, and who calls it ends with NodeContext::Finish and exits
// with what RunNode would return. Once in a process. Returns the errors of NodeContext::Create, and
// what was wrong with the environment: FAILED_PRECONDITION if no agent has started this process.
[[nodiscard]] absl::StatusOr<std::unique_ptr<NodeContext>> OpenNode();

}  // namespace millrace

#endif  // CORE_NODE_RUN_NODE_H_
