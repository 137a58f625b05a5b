// File: testing/faults/cluster_log.h
//
// What a cluster's nodes say and how its slots climb, to be waited for.
//
// Defines: ClusterLog.
//
//   ClusterLog log;
//   ClusterOptions options;
//   log.Listen(&options);
//   ...
//   EXPECT_TRUE(log.WaitForLine("worker:1", "fed"));

#ifndef TESTING_FAULTS_CLUSTER_LOG_H_
#define TESTING_FAULTS_CLUSTER_LOG_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/cluster.h"
#include "millrace/cluster_status.h"

namespace millrace::faults {

// Generous: nothing waits so long unless it is broken, however busy the machine is.
inline constexpr absl::Duration kPatience = absl::Minutes(2);

// Thread safety: all methods. Lifetime: outlives the clusters that it listens to.
class ClusterLog {
 public:
  // Sets the callbacks of `options`.
  void Listen(ClusterOptions* options);

  // Waits until `node` ("": any) has said a line that begins with `prefix`. Returns whether it did.
  [[nodiscard]] bool WaitForLine(absl::string_view node, absl::string_view prefix,
                                 absl::Duration timeout = kPatience);
  // That line; empty if it did not come.
  [[nodiscard]] std::string Line(absl::string_view node, absl::string_view prefix);
  // Waits until the last that was told of the executor's slot fulfils `is`.
  [[nodiscard]] bool WaitForSlot(int executor_id, const std::function<bool(const SlotStatus&)>& is,
                                 absl::Duration timeout = kPatience);

 private:
  bool Find(absl::string_view node, absl::string_view prefix, std::string* line) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<std::pair<std::string, std::string>> lines_ ABSL_GUARDED_BY(mu_);  // node, line
  std::vector<SlotStatus> slots_ ABSL_GUARDED_BY(mu_);                           // as they came
};

}  // namespace millrace::faults

#endif  // TESTING_FAULTS_CLUSTER_LOG_H_
