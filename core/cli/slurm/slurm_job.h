// File: core/cli/slurm/slurm_job.h
//
// The Slurm job in which a command runs, by its variables.
//
// Defines: SlurmJob, ReadSlurmJob().
#ifndef CORE_CLI_SLURM_SLURM_JOB_H_
#define CORE_CLI_SLURM_SLURM_JOB_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::cli {

struct SlurmJob {
  std::string id;
  // As many as srun would start: SLURM_NTASKS, or SLURM_NTASKS_PER_NODE (1) on each host; of a
  // heterogeneous job those of the first component.
  int tasks = 0;
  // Of the job, or of that component.
  int hosts = 1;
  // What the job was asked for with --cpus-per-task, which srun does not take over since 22.05; 0:
  // nothing, or srun has a variable of its own for it.
  int cpus_per_task = 0;
};

// `read` gives a variable of the environment, "" if it is not set. Returns FAILED_PRECONDITION
// outside a job and in one of several tasks of a step, INVALID_ARGUMENT for a number that is none.
// Errors say what to do. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<SlurmJob> ReadSlurmJob(
    const std::function<std::string(const char* name)>& read);

}  // namespace millrace::cli

#endif  // CORE_CLI_SLURM_SLURM_JOB_H_
