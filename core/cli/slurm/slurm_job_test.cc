#include "core/cli/slurm/slurm_job.h"

#include <map>
#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<SlurmJob> Read(const std::map<std::string, std::string>& variables) {
  return ReadSlurmJob([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

// Of job 17.
SlurmJob Job(std::map<std::string, std::string> variables) {
  variables["SLURM_JOB_ID"] = "17";
  const absl::StatusOr<SlurmJob> job = Read(variables);
  EXPECT_THAT(job, IsOk());
  return job.value_or(SlurmJob());
}

TEST(SlurmJobTest, HasAsManyTasksAsSrunWouldStart) {
  EXPECT_EQ(Job({}).id, "17");
  EXPECT_EQ(Job({}).tasks, 1);
  EXPECT_EQ(Job({{"SLURM_JOB_NUM_NODES", "3"}}).tasks, 3);
  EXPECT_EQ(Job({{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_NTASKS_PER_NODE", "4"}}).tasks, 12);
  EXPECT_EQ(Job({{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_NTASKS", "5"}}).tasks, 5);
  EXPECT_EQ(Job({{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_NTASKS", "5"}}).hosts, 3);
  EXPECT_EQ(Job({}).hosts, 1);
  EXPECT_EQ(Job({{"SLURM_HET_SIZE", "2"},
                 {"SLURM_NTASKS", "7"},
                 {"SLURM_NTASKS_HET_GROUP_0", "3"},
                 {"SLURM_NTASKS_HET_GROUP_1", "4"}})
                .tasks,
            3);
  EXPECT_EQ(Job({{"SLURM_HET_SIZE", "2"},
                 {"SLURM_JOB_NUM_NODES_HET_GROUP_0", "2"},
                 {"SLURM_NTASKS", "7"}})
                .tasks,
            2);
  // A shell that srun --pty has started.
  EXPECT_EQ(Job({{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}).tasks, 1);
}

TEST(SlurmJobTest, HasTheProcessorsThatItWasAskedForAndSrunIsNotToldOf) {
  EXPECT_EQ(Job({}).cpus_per_task, 0);
  EXPECT_EQ(Job({{"SLURM_CPUS_PER_TASK", "4"}}).cpus_per_task, 4);
  EXPECT_EQ(Job({{"SLURM_CPUS_PER_TASK", "4"}, {"SRUN_CPUS_PER_TASK", "2"}}).cpus_per_task, 0);
}

TEST(SlurmJobTest, SaysHowToGetAJob) {
  EXPECT_THAT(Read({}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("salloc -N 2")));
}

TEST(SlurmJobTest, RefusesToStartAClusterInEachTaskOfAStep) {
  EXPECT_THAT(Read({{"SLURM_JOB_ID", "17"}, {"SLURM_STEP_NUM_TASKS", "3"}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("one of 3 tasks")));
}

TEST(SlurmJobTest, RefusesNumbersThatAreNone) {
  for (const char* text : {"x", "0", "-1", "99999999999", "2,1"}) {
    EXPECT_THAT(Read({{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", text}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SLURM_NTASKS")))
        << text;
  }
  EXPECT_THAT(Read({{"SLURM_JOB_ID", "17"},
                    {"SLURM_JOB_NUM_NODES", "1048576"},
                    {"SLURM_NTASKS_PER_NODE", "1048576"}}),
              IsOk());
}

}  // namespace
}  // namespace millrace::cli
