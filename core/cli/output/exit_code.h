// File: core/cli/output/exit_code.h
//
// With which code `millrace` ends.
//
// Defines: the kExit constants, ExitCodeOfStatus(), ExitCodeOfFailure().
//
// Thread safety: pure functions.
#ifndef CORE_CLI_OUTPUT_EXIT_CODE_H_
#define CORE_CLI_OUTPUT_EXIT_CODE_H_

#include "absl/status/status.h"
#include "millrace/cluster_status.h"

namespace millrace::cli {

// Those of sysexits.h and of shells. A node's own code may be any of them; the line on stderr
// tells.
inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 64;           // the command line makes no sense
inline constexpr int kExitNotFound = 66;        // no such node, key or cluster file
inline constexpr int kExitUnavailable = 69;     // no cluster, or a host or agent is gone
inline constexpr int kExitFailed = 70;          // everything else
inline constexpr int kExitTimeout = 75;         // a time limit passed
inline constexpr int kExitDenied = 77;          // the token is not known, or not for this
inline constexpr int kExitCannotExecute = 126;  // the program is there, but cannot be executed
inline constexpr int kExitNoProgram = 127;      // there is no such program
inline constexpr int kExitSignalBase = 128;     // plus the number of the signal

// 0 for OK.
[[nodiscard]] int ExitCodeOfStatus(const absl::Status& status);

// That of the node that failed first: its exit code, or 128 and its signal; 69 where its agent
// ended; where no process did, what its Status says (127 for a program that was not found, 126 for
// one that is not executable).
[[nodiscard]] int ExitCodeOfFailure(const NodeFailure& failure);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_EXIT_CODE_H_
