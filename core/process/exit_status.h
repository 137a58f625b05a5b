// File: core/process/exit_status.h
//
// How a child process ended, in words that everybody sees the same.
//
// Defines: ExitStatus, ExitStatusFromWait(), ExitStatusFromWaitId(), DescribeExit(), SignalName().
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

namespace millrace {

struct ExitStatus {
  enum class Kind {
    kUnknown,    // nothing that waitpid(2) or waitid(2) reports
    kExited,     // `code` is set
    kSignaled,   // `signal` is set
    kStopped,    // `signal` is set; the process still exists
    kContinued,  // the process still exists
  };

  Kind kind = Kind::kUnknown;
  int code = 0;              // 0..255 if kExited, otherwise 0
  int signal = 0;            // if kSignaled or kStopped, otherwise 0
  bool core_dumped = false;  // only if kSignaled

  // Exit code 0.
  [[nodiscard]] bool ok() const { return kind == Kind::kExited && code == 0; }
  // The process is gone.
  [[nodiscard]] bool ended() const { return kind == Kind::kExited || kind == Kind::kSignaled; }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// From the status word of waitpid(2).
[[nodiscard]] ExitStatus ExitStatusFromWait(int wait_status);

// From the si_code (`code`) and si_status (`value`) of waitid(2).
[[nodiscard]] ExitStatus ExitStatusFromWaitId(int code, int value);

// "exit code 3", "signal 9 (SIGKILL)", "stopped by signal 19 (SIGSTOP)", "continued", or
// "unknown exit".
[[nodiscard]] std::string DescribeExit(const ExitStatus& status);
[[nodiscard]] std::string DescribeExit(int wait_status);

// "SIGKILL", "SIGRTMIN+2"; "SIG<number>" for a number that is no signal.
[[nodiscard]] std::string SignalName(int signal);

}  // namespace millrace

#endif  // CORE_PROCESS_EXIT_STATUS_H_
