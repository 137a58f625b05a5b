#include "core/cli/slurm/slurm_job.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

using Reader = std::function<std::string(const char* name)>;

constexpr int kMaxTasks = 1 << 20;
constexpr char kFirstHosts[] = "SLURM_JOB_NUM_NODES_HET_GROUP_0";
constexpr char kFirstTasks[] = "SLURM_NTASKS_HET_GROUP_0";

// A number of at least 1; `absent` where the variable is not set.
absl::StatusOr<int> ReadCount(const Reader& read, const char* name, int absent) {
  const std::string text = read(name);
  if (text.empty()) return absent;
  int count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= kMaxTasks) return count;
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", EscapeControls(Ellipsize(text, 64)),
                                                 ": that is no number of 1..", kMaxTasks));
}

}  // namespace

absl::StatusOr<SlurmJob> ReadSlurmJob(const Reader& read) {
  SlurmJob job;
  job.id = read("SLURM_JOB_ID");
  if (job.id.empty()) {
    return absl::FailedPreconditionError(
        "there is no Slurm job here (SLURM_JOB_ID is not set): get one by `salloc -N 2 -n 4 "
        "millrace srun -- PROGRAM`, or call millrace srun in a script that sbatch takes");
  }
  MILLRACE_ASSIGN_OR_RETURN(const int step_tasks, ReadCount(read, "SLURM_STEP_NUM_TASKS", 1));
  if (step_tasks > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this is one of ", step_tasks,
                     " tasks of a step, each of which would start a cluster: call millrace srun "
                     "once, without srun before it"));
  }
  // Of a heterogeneous job, srun's is the first component; SLURM_NTASKS has the tasks of all.
  const bool mixed = !read("SLURM_HET_SIZE").empty();
  MILLRACE_ASSIGN_OR_RETURN(job.hosts,
                            ReadCount(read, mixed ? kFirstHosts : "SLURM_JOB_NUM_NODES", 1));
  MILLRACE_ASSIGN_OR_RETURN(const int on_each, ReadCount(read, "SLURM_NTASKS_PER_NODE", 1));
  const int64_t of_hosts = int64_t{job.hosts} * on_each;
  MILLRACE_ASSIGN_OR_RETURN(job.tasks,
                            ReadCount(read, mixed ? kFirstTasks : "SLURM_NTASKS",
                                      static_cast<int>(std::min<int64_t>(of_hosts, kMaxTasks))));
  if (read("SRUN_CPUS_PER_TASK").empty()) {
    MILLRACE_ASSIGN_OR_RETURN(job.cpus_per_task, ReadCount(read, "SLURM_CPUS_PER_TASK", 0));
  }
  return job;
}

}  // namespace millrace::cli
