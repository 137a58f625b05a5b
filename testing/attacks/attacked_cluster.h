// File: testing/attacks/attacked_cluster.h
//
// A cluster of real processes to attack: `millrace run`, as a user would start it.
//
// Defines: kPatience, Limited(), MillraceRun(), AttackedCluster.

#ifndef TESTING_ATTACKS_ATTACKED_CLUSTER_H_
#define TESTING_ATTACKS_ATTACKED_CLUSTER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/unique_fd.h"
#include "core/client/cluster_file.h"
#include "testing/child_process.h"

namespace millrace::attacks {

inline constexpr absl::Duration kPatience = absl::Seconds(120);

// `command` under a limit of descriptors: "-n 130" for soft and hard, "-Sn 130" for the soft one.
[[nodiscard]] std::vector<std::string> Limited(const std::string& limit,
                                               const std::vector<std::string>& command);

// The command `millrace run ARGUMENTS...`. Its agent and its cluster file are found by the
// environment that AttackedCluster::SetEnvironment() makes.
[[nodiscard]] std::vector<std::string> MillraceRun(const std::vector<std::string>& arguments);

// A connection to `host_port`, over which `bytes` were sent.
[[nodiscard]] UniqueFd Connect(const std::string& host_port, const std::string& bytes);

// One node that goes on until the end. Thread safety: single-threaded. Blocking: all of it.
// Lifetime: the destructor kills it.
class AttackedCluster {
 public:
  // For this process and its children: cluster files lie in a folder in `dir`.
  static void SetEnvironment(const std::string& dir);

  // `limit` as of Limited(). Returns DEADLINE_EXCEEDED if there is no cluster file in time.
  [[nodiscard]] static absl::StatusOr<AttackedCluster> Start(const std::string& limit = "-n 1024");

  [[nodiscard]] const ClusterFile& file() const { return file_; }
  [[nodiscard]] pid_t driver_pid() const { return driver_->pid(); }

  // A viewer who was never here before asks for a snapshot, again if the connection breaks.
  [[nodiscard]] absl::Status Look() const;

 private:
  AttackedCluster(std::unique_ptr<ChildProcess> driver, ClusterFile file)
      : driver_(std::move(driver)), file_(std::move(file)) {}

  std::unique_ptr<ChildProcess> driver_;
  ClusterFile file_;
};

}  // namespace millrace::attacks

#endif  // TESTING_ATTACKS_ATTACKED_CLUSTER_H_
