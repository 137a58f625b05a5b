#include "core/process/exit_status.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"

namespace millrace {

ExitStatus ExitStatusFromWait(int wait_status) {
  ExitStatus status;
  if (WIFEXITED(wait_status)) {
    status.kind = ExitStatus::Kind::kExited;
    status.code = WEXITSTATUS(wait_status);
  } else if (WIFSIGNALED(wait_status)) {
    status.kind = ExitStatus::Kind::kSignaled;
    status.signal = WTERMSIG(wait_status);
    status.core_dumped = WCOREDUMP(wait_status) != 0;
  } else if (WIFCONTINUED(wait_status)) {  // before WIFSTOPPED: 0xffff
    status.kind = ExitStatus::Kind::kContinued;
  } else if (WIFSTOPPED(wait_status)) {
    status.kind = ExitStatus::Kind::kStopped;
    status.signal = WSTOPSIG(wait_status);
  }
  return status;
}

ExitStatus ExitStatusFromWaitId(int code, int value) {
  ExitStatus status;
  switch (code) {
    case CLD_EXITED:
      status.kind = ExitStatus::Kind::kExited;
      status.code = value & 0xff;
      break;
    case CLD_KILLED:
    case CLD_DUMPED:
      status.kind = ExitStatus::Kind::kSignaled;
      status.signal = value;
      status.core_dumped = code == CLD_DUMPED;
      break;
    case CLD_STOPPED:
    case CLD_TRAPPED:
      status.kind = ExitStatus::Kind::kStopped;
      status.signal = value;
      break;
    case CLD_CONTINUED:
      status.kind = ExitStatus::Kind::kContinued;
      break;
    default:
      break;
  }
  return status;
}

std::string DescribeExit(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::kExited:
      return absl::StrCat("exit code ", status.code);
    case ExitStatus::Kind::kSignaled:
      return absl::StrCat("signal ", status.signal, " (", SignalName(status.signal), ")",
                          status.core_dumped ? ", core dumped" : "");
    case ExitStatus::Kind::kStopped:
      return absl::StrCat("stopped by signal ", status.signal, " (", SignalName(status.signal),
                          ")");
    case ExitStatus::Kind::kContinued:
      return "continued";
    case ExitStatus::Kind::kUnknown:
      break;
  }
  return "unknown exit";
}

std::string DescribeExit(int wait_status) { return DescribeExit(ExitStatusFromWait(wait_status)); }

std::string SignalName(int signal) {
  if (const char* name = sigabbrev_np(signal); name != nullptr) return absl::StrCat("SIG", name);
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return absl::StrCat("SIGRTMIN+", signal - SIGRTMIN);
  }
  return absl::StrCat("SIG", signal);
}

}  // namespace millrace
