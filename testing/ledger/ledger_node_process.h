// File: testing/ledger/ledger_node_process.h
//
// A node role of the ledger tests: the process of its present attempt, a TcpFaultProxy before it,
// and what all attempts have written down.
//
// Defines: TcpFaultPlan, LedgerNode.
//
//   TcpFaultPlan plan(/*seed=*/7, /*faults=*/3);
//   LedgerNode node({.name = "worker:0", .mode = "train", .folder = dir.path()}, &plan,
//                   &directory);
//   MILLRACE_RETURN_IF_ERROR(node.Start(/*seed=*/1));
//   ...                                        // feed the node of `directory`
//   MILLRACE_RETURN_IF_ERROR(node.End());
//   MILLRACE_RETURN_IF_ERROR(node.CountRows(&handed, &used));

#ifndef TESTING_LEDGER_LEDGER_NODE_PROCESS_H_
#define TESTING_LEDGER_LEDGER_NODE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/node_directory.h"
#include "testing/child_process.h"
#include "testing/ledger/tcp_fault_proxy.h"

namespace millrace {

// The faults of all connections of one case: `faults` at most. Thread safety: thread-safe.
class TcpFaultPlan {
 public:
  TcpFaultPlan(uint64_t seed, int faults) : random_(seed), left_(faults) {}

  [[nodiscard]] TcpFault Next();

 private:
  Mutex mu_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
  int left_ ABSL_GUARDED_BY(mu_);
};

// Thread safety: thread-safe. Blocking: all but the accessors, for a minute at most. Lifetime: the
// plan and the directory outlive it; the destructor kills what still runs.
class LedgerNode {
 public:
  struct Options {
    std::string name;  // "worker:0"
    std::string mode;  // of ledger_node.cc
    int64_t max_bite = 100;
    int64_t budget_bytes = int64_t{256} << 20;
    std::string folder;                                  // for logs
    std::string program = "testing/ledger/ledger_node";  // a runfile
  };
  LedgerNode(Options options, TcpFaultPlan* plan, FakeNodeDirectory* directory)
      : options_(std::move(options)), plan_(plan), directory_(directory) {}

  // Starts an attempt, also after Kill(), and tells the directory.
  [[nodiscard]] absl::Status Start(uint64_t seed);

  // SIGKILL. The directory learns of it `until_known` later, as a coordinator does from its agent.
  [[nodiscard]] absl::Status Kill(absl::Duration until_known, FeedTarget::State state);

  // A line for its control file.
  void Tell(const std::string& line);

  // Ends the program that still runs, if any. An error unless it exits with 0.
  [[nodiscard]] absl::Status End();
  // Waits for an exit with 0 that the program has decided on itself.
  [[nodiscard]] absl::Status WaitForEnd();

  // What each attempt has written down so far, as ledger_node.cc says.
  [[nodiscard]] absl::StatusOr<std::vector<std::vector<int64_t>>> Logs();

  // Adds how often each row, by id, was handed to programs and was used by them, in all attempts.
  [[nodiscard]] absl::Status CountRows(std::map<int64_t, int64_t>* handed,
                                       std::map<int64_t, int64_t>* used);

  // Connections broken so far.
  [[nodiscard]] int faults();
  [[nodiscard]] pid_t pid();

 private:
  const Options options_;
  TcpFaultPlan* const plan_;
  FakeNodeDirectory* const directory_;
  Mutex mu_;
  uint32_t attempt_ ABSL_GUARDED_BY(mu_) = 0;
  std::string control_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> logs_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ChildProcess> process_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<TcpFaultProxy>> proxies_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // TESTING_LEDGER_LEDGER_NODE_PROCESS_H_
