#include "resolver/local_accelerators.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

extern char** environ;

namespace millrace {
namespace {

constexpr char kHelperVariable[] = "MILLRACE_GPU_HELPER";
constexpr size_t kMaxOutputBytes = size_t{4} << 20;

// The executable file `name`, in PATH unless it has a slash. Empty: there is none.
std::string FindInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  for (const absl::string_view folder : absl::StrSplit(EnvOr("PATH", ""), ':', absl::SkipEmpty())) {
    std::string path = absl::StrCat(folder, "/", name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

absl::StatusOr<std::string> FindHelper(const std::string& chosen) {
  std::vector<std::string> candidates;
  const std::string by_variable = EnvOr(kHelperVariable, "");
  if (!chosen.empty()) {
    candidates.push_back(chosen);
  } else if (!by_variable.empty()) {
    candidates.push_back(by_variable);
  } else {
    if (const absl::StatusOr<std::string> self = SelfExecutablePath(); self.ok()) {
      const std::string folder = self->substr(0, self->rfind('/'));
      candidates.push_back(folder + "/millrace-gpu");
      candidates.push_back(*self + ".runfiles/millrace/core/gpu/millrace-gpu");
      // Bazel's output tree, from NAME and core/NAME alike.
      candidates.push_back(folder + "/../core/gpu/millrace-gpu");
      candidates.push_back(folder + "/../gpu/millrace-gpu");
    }
    if (std::string found = FindInPath("millrace-gpu"); !found.empty()) {
      candidates.push_back(std::move(found));
    }
  }
  for (const std::string& path : candidates) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  const bool named = !chosen.empty() || !by_variable.empty();
  return absl::NotFoundError(
      absl::StrCat("the GPUs of this host cannot be counted, there is no millrace-gpu: looked at ",
                   absl::StrJoin(candidates, ", "), named ? "" : " and in PATH",
                   "; put it beside this program or set ", kHelperVariable));
}

struct ProgramEnd {
  std::string output;
  ExitStatus exit;
  bool late = false;  // it was killed
};

// Runs a program to its end, or until `deadline` on the steady clock. Its stdin is empty, its
// stderr goes nowhere.
absl::StatusOr<ProgramEnd> RunProgram(const std::string& program,
                                      const std::vector<std::string>& args,
                                      absl::Duration deadline) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(program, " cannot be run: pipe"));
  }
  UniqueFd out(pipe_fds[0]);
  UniqueFd in(pipe_fds[1]);
  std::vector<std::string> words = {program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // Our threads block signals; the child must not.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  in.reset();
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(program, " cannot be run"));

  ProgramEnd end;
  char buffer[16384];
  for (;;) {
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    pollfd ready = {.fd = out.get(), .events = POLLIN, .revents = 0};
    const int count =
        left <= absl::ZeroDuration()
            ? 0
            : poll(&ready, 1,
                   static_cast<int>(absl::ToInt64Milliseconds(std::min(left, absl::Hours(1))) + 1));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || end.output.size() > kMaxOutputBytes) {
      end.late = count <= 0;
      kill(pid, SIGKILL);
      break;
    }
    const ssize_t got = read(out.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    end.output.append(buffer, static_cast<size_t>(got));
  }
  // One that hangs in a driver does not end when it is killed, and one that closed its stdout may
  // run on: it is not waited for longer than the deadline and a moment.
  const absl::Duration give_up = std::max(deadline, RealClock()->SteadyNow()) + absl::Seconds(1);
  int wait_status = 0;
  pid_t waited = 0;
  while ((waited = waitpid(pid, &wait_status, WNOHANG)) == 0 || (waited < 0 && errno == EINTR)) {
    const absl::Duration now = RealClock()->SteadyNow();
    if (now >= give_up) break;
    if (now >= deadline && !end.late) {
      end.late = true;
      kill(pid, SIGKILL);
    }
    poll(nullptr, 0, 2);
  }
  if (waited == pid) end.exit = ExitStatusFromWait(wait_status);
  return end;
}

// What CUDA can name: a GPU or, in MIG mode, its instances.
struct Gpu {
  int index = -1;
  std::string uuid;
  bool mig_mode = false;
  std::vector<std::string> instances;  // UUIDs

  // How CUDA counts it. `seen` holds what was counted before.
  int CountOnce(std::set<std::string>* seen) const {
    if (!mig_mode) return seen->insert(absl::StrCat(index, " ", uuid)).second ? 1 : 0;
    int count = 0;
    for (const std::string& id : instances) count += seen->insert(id).second ? 1 : 0;
    return count;
  }
};

int CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  std::set<std::string> seen;
  int count = 0;
  if (!visible.has_value()) {
    for (const Gpu& gpu : gpus) count += gpu.CountOnce(&seen);
    return count;
  }
  // As CUDA reads it: what follows an entry that names nothing does not count.
  for (absl::string_view entry : absl::StrSplit(*visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    int index = -1;
    const bool by_index = absl::SimpleAtoi(entry, &index);
    int named = 0;
    int added = 0;
    for (const Gpu& gpu : gpus) {
      if (by_index ? gpu.index == index : entry.size() > 4 && absl::StartsWith(gpu.uuid, entry)) {
        ++named;
        added = gpu.CountOnce(&seen);
      }
      for (const std::string& id : gpu.instances) {
        if (by_index || entry.size() <= 4 || !absl::StartsWith(id, entry)) continue;
        ++named;
        added = seen.insert(id).second ? 1 : 0;
      }
    }
    if (named != 1) break;
    count += added;
  }
  return count;
}

std::vector<Gpu> GpusOfSample(const Json& sample) {
  std::vector<Gpu> gpus;
  const absl::StatusOr<const Json*> list = GetArray(sample, "gpus");
  if (!list.ok()) return gpus;
  for (const Json& entry : **list) {
    Gpu gpu;
    gpu.index = static_cast<int>(GetIntOr(entry, "index", -1).value_or(-1));
    gpu.uuid = GetStringOr(entry, "uuid", "").value_or("");
    gpu.mig_mode = GetBoolOr(entry, "mig_mode", false).value_or(false);
    if (const auto instances = GetArray(entry, "instances"); instances.ok()) {
      for (const Json& instance : **instances) {
        std::string id = GetStringOr(instance, "uuid", "").value_or("");
        if (!id.empty()) gpu.instances.push_back(std::move(id));
      }
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<Gpu> GpusOfNvidiaSmi(absl::string_view output) {
  std::vector<Gpu> gpus;
  for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
    Gpu gpu;
    if (columns.size() != 2 || !absl::SimpleAtoi(columns[0], &gpu.index)) continue;
    gpu.uuid = std::string(absl::StripAsciiWhitespace(columns[1]));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// Where NVML cannot be used. Without nvidia-smi either, there is no driver and so no GPU.
absl::StatusOr<std::vector<Gpu>> AskNvidiaSmi(const LocalAcceleratorsOptions& options,
                                              const std::string& nvml_problem,
                                              absl::Duration deadline) {
  const std::string program = FindInPath(options.nvidia_smi);
  if (program.empty()) return std::vector<Gpu>();
  MILLRACE_ASSIGN_OR_RETURN(
      const ProgramEnd end,
      RunProgram(program, {"--query-gpu=index,uuid", "--format=csv,noheader,nounits"}, deadline));
  const std::string about =
      absl::StrCat("the GPUs of this host cannot be counted: ", nvml_problem, ", and ", program);
  if (end.late) {
    return absl::DeadlineExceededError(
        absl::StrCat(about, " did not answer within ", absl::FormatDuration(options.timeout)));
  }
  if (!end.exit.ok()) {
    const std::string line = Ellipsize(EscapeControls(FirstLine(end.output)), 200);
    if (absl::StrContains(line, "No devices were found")) return std::vector<Gpu>();
    return absl::UnavailableError(absl::StrCat(about, " ended with ", DescribeExit(end.exit),
                                               line.empty() ? "" : ": ", line,
                                               "; see to the driver"));
  }
  return GpusOfNvidiaSmi(end.output);
}

absl::StatusOr<std::vector<Gpu>> ListGpus(const LocalAcceleratorsOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string helper, FindHelper(options.helper));
  const absl::Duration deadline = RealClock()->SteadyNow() + options.timeout;
  // A driver may be slow to load: a call counts as stuck only shortly before the end.
  const int64_t stuck_ms =
      std::clamp<int64_t>(absl::ToInt64Milliseconds(0.8 * options.timeout), 100, 3600000);
  MILLRACE_ASSIGN_OR_RETURN(
      const ProgramEnd end,
      RunProgram(helper, {"--once", absl::StrCat("--stuck-ms=", stuck_ms)}, deadline));
  std::string stuck;
  for (const absl::string_view text : absl::StrSplit(end.output, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<Json> line = ParseJson(text);
    if (!line.ok()) break;
    const std::string type = GetStringOr(*line, "type", "").value_or("");
    if (type == "sample") return GpusOfSample(*line);
    if (type == "stuck") stuck = GetStringOr(*line, "call", "").value_or("");
    if (type == "error") {
      const std::string why = GetStringOr(*line, "message", "NVML cannot be used").value_or("");
      return AskNvidiaSmi(options, Ellipsize(EscapeControls(why), 300), deadline);
    }
  }
  const std::string about = absl::StrCat("the GPUs of this host cannot be counted: ", helper);
  const std::string driver_call =
      stuck.empty() ? std::string()
                    : absl::StrCat(": the driver hangs in ", Ellipsize(EscapeControls(stuck), 100));
  if (end.late || !stuck.empty()) {
    return absl::DeadlineExceededError(absl::StrCat(
        about, " did not answer within ", absl::FormatDuration(options.timeout), driver_call));
  }
  return absl::UnavailableError(
      absl::StrCat(about, " ended with ", DescribeExit(end.exit), " and told nothing"));
}

}  // namespace

absl::StatusOr<std::map<std::string, int>> LocalAccelerators(
    const LocalAcceleratorsOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, ListGpus(options));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const int count =
      CountVisible(gpus, visible == nullptr ? std::nullopt : std::optional<std::string>(visible));
  std::map<std::string, int> accelerators;
  if (count > 0) accelerators["GPU"] = count;
  return accelerators;
}

}  // namespace millrace
