#include "testing/chaos/machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "core/process/process.h"
#include "testing/child_process.h"

namespace millrace::chaos {
namespace {

constexpr char kLimit[] = "2097152";

// Once for each.
void SayMissing(const std::string& what) {
  static std::set<std::string>* const said = new std::set<std::string>();  // of one thread
  if (said->insert(what).second)
    std::fprintf(stderr, "chaos: not on this machine: %s\n", what.c_str());
}

std::string LibraryPath() { return RunfilePath("testing/chaos/jumping_clock.so"); }

// To a file that is there.
bool Write(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.valid() &&
         ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void MakeOwnMounts() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return SayMissing(absl::StrCat("mounts, for a full disk: ", std::strerror(errno)));
    }
    Write("/proc/self/setgroups", "deny");
    Write("/proc/self/uid_map", absl::StrCat(user, " ", user, " 1"));
    Write("/proc/self/gid_map", absl::StrCat(group, " ", group, " 1"));
  }
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
}

}  // namespace

void PrepareMachine(char** argv) {
  if (::dlsym(RTLD_DEFAULT, "millrace_chaos_clock") == nullptr && EnvOr("LD_PRELOAD", "").empty()) {
    // Found by its path, which others would look for beside /proc/self/exe.
    const std::string program = SelfExecutablePath().value_or("");
    if (EnvOr("TEST_SRCDIR", "").empty() && EnvOr("RUNFILES_DIR", "").empty()) {
      ::setenv("RUNFILES_DIR", absl::StrCat(program, ".runfiles").c_str(), 1);
    }
    ::setenv("LD_PRELOAD", LibraryPath().c_str(), 1);
    ::execv(program.c_str(), argv);
  }
  ::unsetenv("LD_PRELOAD");
  MakeOwnMounts();
}

// ---- the disk -----------------------------------------------------------------------------------

SmallDisk::SmallDisk(const std::string& folder) : folder_(folder) {
  ::mkdir(folder.c_str(), 0755);
  mounted_ = ::mount("chaos", folder.c_str(), "tmpfs", 0, "size=4m") == 0;
  if (!mounted_) SayMissing(absl::StrCat("a small file system: ", std::strerror(errno)));
}

SmallDisk::~SmallDisk() {
  if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
}

bool SmallDisk::Fill() {
  if (!mounted_) return false;
  const UniqueFd fd(::open(JoinPath(folder_, "ballast").c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string block(4096, '#');
  while (::write(fd.get(), block.data(), block.size()) > 0) {
  }
  return fd.valid();
}

void SmallDisk::Free() { ::unlink(JoinPath(folder_, "ballast").c_str()); }

// ---- the date -----------------------------------------------------------------------------------

ClockFile::ClockFile(const std::string& path) : path_(path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid() || ::ftruncate(fd.get(), sizeof(int64_t)) != 0) return;
  void* const mapped =
      ::mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped != MAP_FAILED) offset_ = static_cast<int64_t*>(mapped);
}

ClockFile::~ClockFile() {
  if (offset_ != nullptr) ::munmap(offset_, sizeof(int64_t));
}

std::map<std::string, std::string> ClockFile::Environment() const {
  return {{"LD_PRELOAD", LibraryPath()}, {"MILLRACE_CHAOS_CLOCK", path_}};
}

bool ClockFile::Jump(absl::Duration offset) {
  if (offset_ == nullptr) return false;
  __atomic_store_n(offset_, absl::ToInt64Nanoseconds(offset), __ATOMIC_SEQ_CST);
  return true;
}

bool JumpOwnClock(absl::Duration offset) {
  using Offset = int64_t* (*)();
  const auto own = reinterpret_cast<Offset>(::dlsym(RTLD_DEFAULT, "millrace_chaos_clock"));
  if (own == nullptr) {
    SayMissing("a preloaded library, for the date of the driver");
    return false;
  }
  __atomic_store_n(own(), absl::ToInt64Nanoseconds(offset), __ATOMIC_SEQ_CST);
  return true;
}

// ---- descriptors --------------------------------------------------------------------------------

std::optional<uint64_t> LimitDescriptors(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator entry(absl::StrCat("/proc/", pid, "/fd"), error);
  int highest = 2;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    highest = std::max(highest, std::atoi(entry->path().filename().c_str()));
  }
  rlimit before{};
  if (error || ::prlimit(pid, RLIMIT_NOFILE, nullptr, &before) != 0) return std::nullopt;
  const rlimit few = {.rlim_cur = static_cast<rlim_t>(highest) + 1, .rlim_max = before.rlim_max};
  if (::prlimit(pid, RLIMIT_NOFILE, &few, nullptr) != 0) return std::nullopt;
  return before.rlim_cur;
}

void RestoreDescriptors(pid_t pid, uint64_t limit) {
  rlimit now{};
  if (::prlimit(pid, RLIMIT_NOFILE, nullptr, &now) != 0) return;
  now.rlim_cur = limit;
  static_cast<void>(::prlimit(pid, RLIMIT_NOFILE, &now, nullptr));
}

// ---- memory -------------------------------------------------------------------------------------

MemoryGroup::MemoryGroup() {
  constexpr absl::string_view kController = ":memory:";
  for (const absl::string_view line :
       absl::StrSplit(ReadFile("/proc/self/cgroup").value_or(""), '\n')) {
    const size_t at = line.find(kController);
    if (at == absl::string_view::npos) continue;
    parent_ = absl::StrCat("/sys/fs/cgroup/memory", line.substr(at + kController.size()));
  }
  static int made = 0;  // of one thread
  const std::string name = absl::StrCat("millrace-chaos-", ::getpid(), "-", ++made);
  if (!parent_.empty() && ::mkdir(JoinPath(parent_, name).c_str(), 0755) == 0) {
    group_ = JoinPath(parent_, name);
  } else {
    SayMissing("control groups for memory (version 1) that this user may make");
  }
}

MemoryGroup::~MemoryGroup() {
  if (group_.empty()) return;
  Release();
  while (::rmdir(group_.c_str()) != 0 && errno == EBUSY) {
    for (const absl::string_view pid :
         absl::StrSplit(ReadFile(JoinPath(group_, "cgroup.procs")).value_or(""), '\n')) {
      if (!pid.empty()) Write(JoinPath(parent_, "cgroup.procs"), std::string(pid));
    }
  }
}

bool MemoryGroup::Add(pid_t pid) {
  return !group_.empty() && Write(JoinPath(group_, "memory.limit_in_bytes"), kLimit) &&
         Write(JoinPath(group_, "cgroup.procs"), absl::StrCat(pid));
}

void MemoryGroup::Release() {
  if (!group_.empty()) Write(JoinPath(group_, "memory.limit_in_bytes"), "-1");
}

}  // namespace millrace::chaos
