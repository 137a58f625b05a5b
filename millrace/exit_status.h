// File: millrace/exit_status.h
//
// How a process ended, in words that everybody sees the same.
//
// Defines: ExitStatus, DescribeExit(), SignalName().
//
//   DescribeExit(failure.exit);   // "exit code 3", "signal 11 (SIGSEGV), core dumped"
//
// Thread safety: pure functions.

#ifndef MILLRACE_EXIT_STATUS_H_
#define MILLRACE_EXIT_STATUS_H_

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

// "exit code 3", "signal 9 (SIGKILL)", "stopped by signal 19 (SIGSTOP)", "continued", or
// "unknown exit".
[[nodiscard]] std::string DescribeExit(const ExitStatus& status);

// "SIGKILL", "SIGRTMIN+2"; "SIG<number>" for a number that is no signal.
[[nodiscard]] std::string SignalName(int signal);

}  // namespace millrace

#endif  // MILLRACE_EXIT_STATUS_H_
