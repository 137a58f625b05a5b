// File: core/cli/slurm/srun_line.h
//
// What srun writes, with --label: lines of its tasks, and its own.
//
//   1: {"event": "ready", ...}                                    of task 1
//   0: slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT ... DUE TO TIME LIMIT ***
//   srun: error: n[1-2]: tasks 0,2-3: Exited with exit code 3     three tasks have ended
//   srun: error: Node failure on n2
//
// Defines: SrunLine, ParseSrunLine().
#ifndef CORE_CLI_SLURM_SRUN_LINE_H_
#define CORE_CLI_SLURM_SRUN_LINE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/process/exit_status.h"

namespace millrace::cli {

struct SrunLine {
  enum class Kind {
    kTask,        // a task wrote `text`
    kTasksEnded,  // `tasks` on `hosts` have ended, with `exit` where it is known
    kStepEnded,   // Slurm ends the step or the whole job: `text` says why
    kError,       // srun's own: `text` is what went wrong
    kNote,        // srun's own
  };
  Kind kind = Kind::kNote;
  std::string text;
  int task = -1;
  std::vector<int> tasks;
  std::string hosts;
  ExitStatus exit;
};

// `num_tasks`: how many the step has; others are none. Thread safety: pure function.
[[nodiscard]] SrunLine ParseSrunLine(absl::string_view line, int num_tasks);

}  // namespace millrace::cli

#endif  // CORE_CLI_SLURM_SRUN_LINE_H_
