// File: testing/faults/fault_test.h
//
// The frame of every test here: a cluster of real processes in which something goes wrong, and a
// check that nothing is left of it.
//
// Defines: FaultTest.

#ifndef TESTING_FAULTS_FAULT_TEST_H_
#define TESTING_FAULTS_FAULT_TEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "testing/faults/cluster_log.h"
#include "testing/leak_check.h"

namespace millrace::faults {

// The cluster of a test is a local variable of it: gone before TearDown looks around.
class FaultTest : public ::testing::Test {
 protected:
  FaultTest();
  void TearDown() override;

  // A fed cluster of `num_executors`, heard by log_, with limits that fit a test.
  ClusterOptions Options(int num_executors);
  // fault_node with `fault` on the node `on` ("": on every fed node).
  static NodeProgram Program(const std::string& fault = "", const std::string& on = "",
                             const std::vector<std::string>& more = {});
  // Runs Program(fault, on) under Options(num_executors).
  absl::StatusOr<std::unique_ptr<Cluster>> Run(int num_executors, const std::string& fault = "",
                                               const std::string& on = "");
  absl::StatusOr<std::unique_ptr<Cluster>> Run(const ClusterOptions& options,
                                               const NodeProgram& program);

  // Feeds 100 rows and shuts down: what a cluster can do that is well.
  static void ExpectTrainsAndShutsDown(Cluster& cluster);

  // The processes of a slot now; 0: none.
  static int64_t NodePid(const Cluster& cluster, int executor_id);
  static int64_t AgentPid(const Cluster& cluster, int executor_id);

  LeakCheck leaks_;
  ClusterLog log_;
  LocalLauncher launcher_;
  // How long after the test everything may take to be gone: nothing, unless something was killed.
  absl::Duration gone_within_ = absl::ZeroDuration();
};

}  // namespace millrace::faults

#endif  // TESTING_FAULTS_FAULT_TEST_H_
