#include "testing/faults/fault_test.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "testing/child_process.h"
#include "testing/faults/rows.h"

namespace millrace::faults {

FaultTest::FaultTest() = default;

void FaultTest::TearDown() { leaks_.ExpectNothingLeft(gone_within_); }

ClusterOptions FaultTest::Options(int num_executors) {
  ClusterOptions options;
  options.num_executors = num_executors;
  options.input_mode = InputMode::kFeed;
  options.node.working_dir = leaks_.folder();
  options.reservation_timeout = absl::Minutes(1);
  options.progress = false;
  log_.Listen(&options);
  return options;
}

NodeProgram FaultTest::Program(const std::string& fault, const std::string& on,
                               const std::vector<std::string>& more) {
  std::vector<std::string> args = more;
  if (!fault.empty()) args.push_back(absl::StrCat("--fault=", fault));
  if (!on.empty()) args.push_back(absl::StrCat("--on=", on));
  NodeProgram program = NodeProgram::File(RunfilePath("testing/faults/fault_node"));
  return program.Args(args);
}

absl::StatusOr<std::unique_ptr<Cluster>> FaultTest::Run(int num_executors, const std::string& fault,
                                                        const std::string& on) {
  return Run(Options(num_executors), Program(fault, on));
}

absl::StatusOr<std::unique_ptr<Cluster>> FaultTest::Run(const ClusterOptions& options,
                                                        const NodeProgram& program) {
  return Cluster::Run(launcher_, program, options);
}

void FaultTest::ExpectTrainsAndShutsDown(Cluster& cluster) {
  const absl::StatusOr<TrainResult> result =
      cluster.Train(RowSource(100, 4), {.feed_timeout = kPatience});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows, 100);
  EXPECT_THAT(cluster.Shutdown({.timeout = kPatience}), IsOk());
}

int64_t FaultTest::NodePid(const Cluster& cluster, int executor_id) {
  return cluster.Status().slots[static_cast<size_t>(executor_id)].node_pid;
}

int64_t FaultTest::AgentPid(const Cluster& cluster, int executor_id) {
  return cluster.Status().slots[static_cast<size_t>(executor_id)].agent_pid;
}

}  // namespace millrace::faults
