// File: testing/bench/four_nodes.h
//
// What start, shutdown and failure measure: a cluster of four nodes, and beside it the least that
// an operating system needs for the same: four bare processes of the same program that say hello
// over a socket.
//
// Defines: NodePaths, StartFourNodes(), FourProcesses.

#ifndef TESTING_BENCH_FOUR_NODES_H_
#define TESTING_BENCH_FOUR_NODES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"
#include "millrace/cluster.h"
#include "millrace/launcher.h"

namespace millrace::bench {

// The programs to run; by default where Bazel puts them.
struct NodePaths {
  std::string agent;
  std::string node;

  [[nodiscard]] static NodePaths FromRunfiles();
};

// A fed cluster of a ps, a chief and two workers, all running. `options` are filled in except for
// callbacks.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Cluster>> StartFourNodes(Launcher& launcher,
                                                                      const NodePaths& paths,
                                                                      ClusterOptions options = {});

// Four processes, each at one end of a socketpair. Not thread-safe. Lifetime: the destructor is
// End().
class FourProcesses {
 public:
  // Returns when all have said hello; the system's error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FourProcesses>> Start(
      const std::string& node);
  ~FourProcesses() { End(); }
  FourProcesses(const FourProcesses&) = delete;
  FourProcesses& operator=(const FourProcesses&) = delete;

  // SIGKILL for one of them; returns when its parent knows how it ended.
  void KillOne();
  // Closes the sockets and reaps. Idempotent.
  void End();

 private:
  FourProcesses() = default;

  struct Process {
    pid_t pid = 0;
    UniqueFd socket;
  };
  std::vector<Process> processes_;
};

}  // namespace millrace::bench

#endif  // TESTING_BENCH_FOUR_NODES_H_
