#include "millrace/cluster_status.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxLineBytes = 2048;
constexpr size_t kMaxQuotedLineBytes = 300;

// Advice for the case in which the way the process ended is all that is known.
absl::string_view Advice(const NodeFailure& failure) {
  if (failure.exit.kind == ExitStatus::Kind::kSignaled && failure.exit.signal == SIGKILL) {
    return " (if nobody did that, its host was short of memory: see dmesg there)";
  }
  if (failure.exit.kind == ExitStatus::Kind::kExited && failure.pid != 0 &&
      failure.stderr_tail.empty()) {
    return "; it wrote nothing to stderr";
  }
  return "";
}

}  // namespace

std::string NodeRole::ToString() const { return absl::StrCat(job_name, ":", task_index); }

absl::string_view SlotStateName(SlotState state) {
  switch (state) {
    case SlotState::kRequested:
      return "requested";
    case SlotState::kStarted:
      return "started";
    case SlotState::kConnected:
      return "connected";
    case SlotState::kRegistered:
      return "registered";
    case SlotState::kReady:
      return "ready";
    case SlotState::kRunning:
      return "running";
    case SlotState::kDraining:
      return "draining";
    case SlotState::kFinished:
      return "finished";
    case SlotState::kFailed:
      return "failed";
    case SlotState::kLost:
      return "lost";
  }
  return "unknown";
}

bool IsEnded(SlotState state) {
  return state == SlotState::kFinished || state == SlotState::kFailed || state == SlotState::kLost;
}

std::string FailureText(const NodeFailure& failure, int folded) {
  std::string text = absl::StrCat(failure.role.ToString(), " (executor ", failure.executor_id,
                                  ", attempt ", failure.attempt);
  if (!failure.host.empty()) {
    absl::StrAppend(&text, ", host ", EscapeControls(Ellipsize(failure.host, 255)));
  }
  if (failure.pid != 0) absl::StrAppend(&text, ", pid ", failure.pid);
  absl::StrAppend(&text, ") ", EscapeControls(failure.status.message()), Advice(failure));
  if (!failure.no_restart.empty()) absl::StrAppend(&text, "; not restarted: ", failure.no_restart);
  if (!failure.earlier_attempts.empty()) {
    absl::StrAppend(&text,
                    "; before: ", EscapeControls(absl::StrJoin(failure.earlier_attempts, ", ")));
  }
  if (!failure.healed_nearby.empty()) {
    absl::StrAppend(&text, "; restarted shortly before: ",
                    EscapeControls(absl::StrJoin(failure.healed_nearby, ", ")));
  }
  if (!failure.others.empty()) {
    absl::StrAppend(&text, "; also failed: ", EscapeControls(absl::StrJoin(failure.others, ", ")));
    const int more = folded - static_cast<int>(failure.others.size());
    if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  } else if (folded > 0) {
    absl::StrAppend(&text, "; ", folded, folded == 1 ? " later failure" : " later failures",
                    " folded");
  }
  absl::string_view last;
  for (const std::string& line : failure.stderr_tail) {
    if (!FirstLine(line).empty()) last = line;
  }
  if (last.empty()) return text;
  absl::StrAppend(&text, ". Last stderr line: '",
                  EscapeControls(Ellipsize(FirstLine(last), kMaxQuotedLineBytes)), "'");
  if (failure.stderr_tail.size() == 1 && last.size() <= kMaxQuotedLineBytes) return text;
  absl::StrAppend(&text, "\nstderr, last ", failure.stderr_tail.size(),
                  failure.stderr_tail.size() == 1 ? " line:" : " lines:");
  for (const std::string& line : failure.stderr_tail) {
    absl::StrAppend(&text, "\n  ", EscapeControls(Ellipsize(line, kMaxLineBytes)));
  }
  return text;
}

absl::Status FailureStatus(const NodeFailure& failure, int folded) {
  return absl::Status(failure.status.code(), FailureText(failure, folded));
}

std::string RestartText(const NodeRestart& restart) {
  const absl::Duration after = absl::Trunc(restart.after, absl::Milliseconds(100));
  return absl::StrCat(FirstLine(FailureText(restart.failure, 0)), "; ",
                      restart.failure.role.ToString(), " is started again in ",
                      absl::FormatDuration(after), " (restart ", restart.used, " of ", restart.max,
                      ")");
}

}  // namespace millrace
