#include "core/cli/slurm/srun_line.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace millrace::cli {
namespace {

constexpr absl::string_view kSrun = "srun: ";
constexpr absl::string_view kError = "error: ";
constexpr absl::string_view kStars = "*** ";

// "0,2-3". Empty for anything else, and for a task that is none.
std::vector<int> ParseTasks(absl::string_view text, int num_tasks) {
  std::vector<int> tasks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(part, '-');
    int first = 0;
    if (!absl::SimpleAtoi(range.first, &first) || first < 0) return {};
    int last = first;
    if (!range.second.empty() && !absl::SimpleAtoi(range.second, &last)) return {};
    if (last >= num_tasks) return {};
    for (int task = first; task <= last; ++task) tasks.push_back(task);
  }
  return tasks;
}

// "Exited with exit code 3", "Killed", "Segmentation fault (core dumped)".
ExitStatus ParseExit(absl::string_view text) {
  int code = 0;
  if (absl::ConsumePrefix(&text, "Exited with exit code ") && absl::SimpleAtoi(text, &code)) {
    return {.kind = ExitStatus::Kind::kExited, .code = code & 0xff};
  }
  const bool core = absl::ConsumeSuffix(&text, " (core dumped)");
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGHUP,
                           SIGINT, SIGQUIT, SIGXCPU, SIGXFSZ, SIGSYS}) {
    if (text != ::strsignal(signal)) continue;
    return {.kind = ExitStatus::Kind::kSignaled, .signal = signal, .core_dumped = core};
  }
  return {};
}

// "n[1-2]: tasks 0,2-3: Killed".
bool ParseEnd(absl::string_view text, int num_tasks, SrunLine* line) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(": ", 2));
  if (parts.size() != 3) return false;
  absl::string_view tasks = parts[1];
  if (!absl::ConsumePrefix(&tasks, "task ") && !absl::ConsumePrefix(&tasks, "tasks ")) {
    return false;
  }
  line->tasks = ParseTasks(tasks, num_tasks);
  if (line->tasks.empty()) return false;
  line->kind = SrunLine::Kind::kTasksEnded;
  line->hosts = std::string(parts[0]);
  line->text = std::string(parts[2]);
  line->exit = ParseExit(parts[2]);
  return true;
}

// "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT ... ***", from srun or from a host.
bool ParseStepEnd(absl::string_view text, SrunLine* line) {
  if (!absl::StartsWith(text, "slurmstepd") && !absl::StartsWith(text, kSrun)) return false;
  const size_t begin = text.find(kStars);
  if (begin == absl::string_view::npos) return false;
  absl::string_view words = text.substr(begin + kStars.size());
  if (!absl::StartsWith(words, "STEP ") && !absl::StartsWith(words, "JOB ")) return false;
  absl::ConsumeSuffix(&words, " ***");
  line->kind = SrunLine::Kind::kStepEnded;
  line->text = std::string(words);
  return true;
}

}  // namespace

SrunLine ParseSrunLine(absl::string_view text, int num_tasks) {
  SrunLine line;
  // Labels are as wide as the longest, with blanks before them.
  const absl::string_view trimmed = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  const size_t colon = trimmed.find(": ");
  int task = 0;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(trimmed.substr(0, colon), &task) &&
      task >= 0 && task < num_tasks) {
    line.kind = SrunLine::Kind::kTask;
    line.task = task;
    line.text = std::string(trimmed.substr(colon + 2));
    ParseStepEnd(line.text, &line);
    return line;
  }
  if (ParseStepEnd(text, &line)) return line;
  const bool own = absl::ConsumePrefix(&text, kSrun);
  const bool error = own && absl::ConsumePrefix(&text, kError);
  if (error && ParseEnd(text, num_tasks, &line)) return line;
  line.kind = error ? SrunLine::Kind::kError : SrunLine::Kind::kNote;
  line.text = std::string(text);
  if (error && absl::StartsWith(text, "Node failure on ")) line.kind = SrunLine::Kind::kStepEnded;
  return line;
}

}  // namespace millrace::cli
