#include "core/cli/host/machine_facts.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/deadline.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "core/gpu/gpu_helper.h"
#include "core/gpu/gpu_lines.h"
#include "core/process/process.h"
#include "millrace/cluster_file.h"
#include "millrace/local_launcher.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr char kGroups[] = "/sys/fs/cgroup";
// For a program that answers at once. millrace-gpu gives up a driver call after 2 s by itself.
constexpr absl::Duration kProgramPatience = absl::Seconds(10);
constexpr size_t kMaxOutputBytes = size_t{4} << 20;

// The control groups of this process, from its own to the root: /sys/fs/cgroup/a/b,
// /sys/fs/cgroup/a.
std::vector<std::string> ControlGroups() {
  std::vector<std::string> folders;
  const absl::StatusOr<std::string> text = ReadFile("/proc/self/cgroup");
  if (!text.ok()) return folders;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;  // version 1 has other lines
    for (std::string path(line); path.size() > 1; path.resize(path.rfind('/'))) {
      folders.push_back(absl::StrCat(kGroups, path));
    }
    folders.emplace_back(kGroups);  // in a container its own group is the root
  }
  return folders;
}

double Quota(const std::vector<std::string>& groups) {
  double least = 0;
  for (const std::string& group : groups) {
    const double quota = ParseCpuQuota(ReadFile(JoinPath(group, "cpu.max")).value_or(""));
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

uint64_t AvailableMemory() {
  const absl::StatusOr<std::string> text = ReadFile("/proc/meminfo");
  if (!text.ok()) return MachineFacts::kUnknown;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    uint64_t kib = 0;
    if (absl::ConsumePrefix(&line, "MemAvailable:") && absl::ConsumeSuffix(&line, " kB") &&
        absl::SimpleAtoi(line, &kib)) {
      return kib << 10;
    }
  }
  return MachineFacts::kUnknown;
}

void ReadMemory(const std::vector<std::string>& groups, MachineFacts* facts) {
  facts->memory_bytes = AvailableMemory();
  for (const std::string& group : groups) {
    const uint64_t most = ParseMemoryBytes(ReadFile(JoinPath(group, "memory.max")).value_or(""));
    const uint64_t used =
        ParseMemoryBytes(ReadFile(JoinPath(group, "memory.current")).value_or(""));
    if (most == MachineFacts::kUnknown || used == MachineFacts::kUnknown) continue;
    const uint64_t left = most - std::min(most, used);
    if (left >= facts->memory_bytes) continue;
    facts->memory_bytes = left;
    facts->memory_group = group;
  }
}

bool SharedMemoryWorks() {
  const UniqueFd file(::memfd_create("millrace-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return file.valid() && ::ftruncate(file.get(), 4096) == 0;
}

// Makes a file where agents make theirs, and removes it.
absl::Status TryTemporaryFiles() {
  MILLRACE_ASSIGN_OR_RETURN(const TempDir folder, TempDir::Create("millrace-doctor"));
  return WriteFileAtomic(JoinPath(folder.path(), "file"), "x");
}

void ReadFolder(MachineFacts* facts) {
  facts->folder = EnvOr("TMPDIR", "/tmp");
  facts->folder_status = TryTemporaryFiles();
  struct statvfs disk {};
  if (::statvfs(facts->folder.c_str(), &disk) == 0) {
    facts->folder_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
}

// The folder, if a driver could leave its file there.
absl::StatusOr<std::string> ClustersFolder() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, ClustersDir());
  struct stat info {};
  // It, or the first above it that is there: a driver makes the others.
  std::filesystem::path place = folder;
  while (::stat(place.c_str(), &info) != 0) {
    if (errno != ENOENT || place == place.parent_path())
      return absl::ErrnoToStatus(errno, place.native());
    place = place.parent_path();
  }
  if (::access(place.c_str(), W_OK | X_OK) != 0) return absl::ErrnoToStatus(errno, place.native());
  if (place == folder && (info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0)) {
    return absl::PermissionDeniedError(absl::StrCat(
        folder, " belongs to another user, or others may read it: chmod 700 ", folder));
  }
  return folder;
}

bool ClockIsSynchronized() {
  timex state{};
  const int answer = ::adjtimex(&state);
  return answer < 0 || (answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0);
}

// What a program writes to stdout until it ends, however it ends.
absl::StatusOr<std::string> OutputOf(const std::string& path, const std::string& argument) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "a pipe");
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char* const argv[] = {const_cast<char*>(path.c_str()), const_cast<char*>(argument.c_str()),
                        nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  in.reset();
  if (error != 0) return absl::ErrnoToStatus(error, path);

  std::string output;
  absl::Status status;
  const Deadline deadline(kProgramPatience);
  while (status.ok()) {
    pollfd readable = {.fd = out.get(), .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline.Left());
    if (left <= 0 || output.size() > kMaxOutputBytes) {
      status = absl::DeadlineExceededError(absl::StrCat(path, " ", argument, " did not end within ",
                                                        absl::FormatDuration(kProgramPatience)));
      break;
    }
    if (::poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    char block[4096];
    const ssize_t size = ::read(out.get(), block, sizeof(block));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    output.append(block, static_cast<size_t>(size));
  }
  if (!status.ok()) ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!status.ok()) return status;
  return output;
}

absl::StatusOr<std::string> AgentVersion(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string line, OutputOf(path, "--version"));
  // "millrace-agent 0.2.0 (...)"
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() < 2 || words[0] != "millrace-agent") {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no agent of Millrace"));
  }
  return std::string(absl::StripSuffix(words[1], "\n"));
}

// By the helper that the agent would run.
absl::StatusOr<std::string> Gpus(const std::string& agent) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string helper,
                            FindGpuHelper(EnvOr(kGpuHelperVariable, ""), agent));
  MILLRACE_ASSIGN_OR_RETURN(const std::string output, OutputOf(helper, "--once"));
  size_t count = 0;
  std::string driver;
  for (absl::string_view text : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    MILLRACE_ASSIGN_OR_RETURN(const GpuLine line, ParseGpuLine(text));
    if (line.kind == GpuLine::Kind::kError) return absl::NotFoundError(line.text);
    if (line.kind == GpuLine::Kind::kStuck) {
      return absl::DeadlineExceededError(
          absl::StrCat("the driver hangs in ", line.text, " of GPU ", line.gpu));
    }
    if (line.kind != GpuLine::Kind::kReady) continue;
    driver = line.snapshot.driver_version;
    for (const GpuReading& gpu : line.snapshot.gpus) {
      if (!gpu.error.empty()) {
        return absl::UnavailableError(absl::StrCat("GPU ", gpu.index, ": ", gpu.error));
      }
      if (gpu.parent_uuid.empty()) ++count;
    }
  }
  if (driver.empty()) return absl::UnavailableError(absl::StrCat(helper, " says nothing"));
  return absl::StrCat(count, count == 1 ? " GPU" : " GPUs", ", driver ", driver);
}

}  // namespace

uint64_t ParseMemoryBytes(absl::string_view text) {
  uint64_t bytes = 0;
  return absl::SimpleAtoi(text, &bytes) ? bytes : MachineFacts::kUnknown;
}

double ParseCpuQuota(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  double quota = 0;
  double period = 0;
  if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &quota) ||
      !absl::SimpleAtod(parts[1], &period) || quota <= 0 || period <= 0) {
    return 0;
  }
  return quota / period;
}

MachineFacts ReadMachineFacts() {
  const std::vector<std::string> groups = ControlGroups();
  MachineFacts facts;
  facts.limits = ReadLimits();
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) facts.processors = CPU_COUNT(&mask);
  facts.processor_quota = Quota(groups);
  ReadMemory(groups, &facts);
  facts.shared_memory = SharedMemoryWorks();
  ReadFolder(&facts);
  facts.clusters = ClustersFolder();
  facts.clock_synchronized = ClockIsSynchronized();
  const absl::StatusOr<std::string> agent = LocalLauncher::FindAgent({});
  facts.agent = agent.ok() ? AgentVersion(*agent) : agent;
  facts.gpus = Gpus(agent.value_or(""));
  return facts;
}

}  // namespace millrace::cli
