// File: core/process/exit_status.h
//
// How a child process ended, from what the system reports of it. ExitStatus itself and its text are
// in millrace/exit_status.h.
//
// Defines: ExitStatusFromWait(), ExitStatusFromWaitId(), DescribeExit().
//
//   int wait_status;
//   waitpid(pid, &wait_status, 0);
//   DescribeExit(wait_status);   // "exit code 3", "signal 9 (SIGKILL)",
//                                // "signal 11 (SIGSEGV), core dumped"
//
// Thread safety: pure functions.

#ifndef CORE_PROCESS_EXIT_STATUS_H_
#define CORE_PROCESS_EXIT_STATUS_H_

#include <string>

#include "millrace/exit_status.h"

namespace millrace {

// From the status word of waitpid(2).
[[nodiscard]] ExitStatus ExitStatusFromWait(int wait_status);

// From the si_code (`code`) and si_status (`value`) of waitid(2).
[[nodiscard]] ExitStatus ExitStatusFromWaitId(int code, int value);

// As DescribeExit() of ExitStatusFromWait().
[[nodiscard]] std::string DescribeExit(int wait_status);

}  // namespace millrace

#endif  // CORE_PROCESS_EXIT_STATUS_H_
