#include "core/cli/output/exit_code.h"

#include "core/process/exit_status.h"

namespace millrace::cli {

int ExitCodeOfStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnavailable:
      return kExitUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitDenied;
    default:
      return kExitFailed;
  }
}

int ExitCodeOfFailure(const NodeFailure& failure) {
  // The agent's own code is not the program's.
  if (failure.of_agent) return kExitUnavailable;
  // The agent killed the node because it had lost its own parent or the coordinator.
  const bool by_agent = absl::IsCancelled(failure.status) || absl::IsUnavailable(failure.status);
  if (failure.exit.kind == ExitStatus::Kind::kSignaled && by_agent) return kExitUnavailable;
  if (failure.exit.kind == ExitStatus::Kind::kSignaled) {
    return kExitSignalBase + failure.exit.signal;
  }
  if (failure.exit.kind == ExitStatus::Kind::kExited && failure.exit.code != 0) {
    return failure.exit.code;
  }
  if (failure.pid == 0 && failure.host.empty()) return kExitUnavailable;  // its agent never joined
  // The program never ran.
  if (failure.pid == 0 && absl::IsNotFound(failure.status)) return kExitNoProgram;
  if (failure.pid == 0 && (absl::IsPermissionDenied(failure.status) ||
                           absl::IsInvalidArgument(failure.status))) {  // not executable; no format
    return kExitCannotExecute;
  }
  const int code = ExitCodeOfStatus(failure.status);
  return code == kExitOk ? kExitFailed : code;
}

}  // namespace millrace::cli
