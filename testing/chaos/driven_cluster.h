// File: testing/chaos/driven_cluster.h
//
// A cluster with its driver, wherever that runs, as a round needs it.
//
// Defines: InferenceCheck, ClusterHearing, NodeSetting, DrivenCluster.

#ifndef TESTING_CHAOS_DRIVEN_CLUSTER_H_
#define TESTING_CHAOS_DRIVEN_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/cluster_status.h"
#include "millrace/train_result.h"
#include "testing/chaos/growth.h"
#include "testing/chaos/injector.h"

namespace millrace::chaos {

// Nothing waits so long unless it is broken, however busy the machine is.
inline constexpr absl::Duration kPatience = absl::Minutes(3);

// What the results of an inference were.
struct InferenceCheck {
  int64_t results = 0;
  bool right = false;  // each its row's own, in order
};

// What a cluster tells while it runs, from any thread.
struct ClusterHearing {
  std::function<void(const SlotStatus& slot)> on_slot;
  // `line`: FailureText()'s first line. `code`: of the failure; kUnknown if the place does not say.
  std::function<void(int executor, const std::string& line, absl::StatusCode code)> on_restart;
};

// What a round's nodes are given.
struct NodeSetting {
  std::string folder;  // for everything; it is the LeakCheck's
  std::string record;  // of the rows that programs have used
  std::string log_dir;
  std::map<std::string, std::string> environment;  // of programs
};

// In this order: Prepare, Start, any of the others, Shutdown, End. Thread safety: not thread-safe,
// but for what reach() has. Blocking: all but reach(), for kPatience at most. Errors are those of
// the driver's calls.
class DrivenCluster {
 public:
  virtual ~DrivenCluster() = default;

  // Whatever must be there before a driver starts its cluster. Returns UNIMPLEMENTED with the
  // reason if this machine has not what it takes.
  virtual absl::Status Prepare() = 0;
  [[nodiscard]] virtual Reach reach() = 0;
  virtual absl::Status Start(ClusterHearing hearing) = 0;

  // Rows [first, first + plan.rows).
  virtual absl::StatusOr<TrainResult> Train(int64_t first, bool end_of_feed) = 0;
  // Rows [0, plan.rows).
  virtual absl::StatusOr<InferenceCheck> Infer() = 0;
  // Every node runs, and nothing is to be started again.
  [[nodiscard]] virtual bool AllRun() = 0;
  // What does not die with a process and must not grow: live bytes of heaps by JVM, files by
  // folder. Nothing where processes say all.
  [[nodiscard]] virtual std::map<std::string, Usage> Live() { return {}; }
  virtual absl::Status Shutdown() = 0;

  // Ends what Prepare() has started. Idempotent. Returns a line for each thing of the cluster that
  // was still there.
  virtual std::vector<std::string> End() = 0;
};

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_DRIVEN_CLUSTER_H_
