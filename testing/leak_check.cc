#include "testing/leak_check.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr char kIdVariable[] = "MILLRACE_TEST_ID";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

std::string Describe(const ProcessInfo& process) {
  return absl::StrCat("process ", process.pid, " (state ", std::string(1, process.state),
                      ", parent ", process.parent, "): ", process.command);
}

std::string Describe(const BoundSocket& socket) {
  const bool own = socket.pid == ::getpid();
  const std::string holder = own ? "this process" : absl::StrCat("process ", socket.pid);
  return socket.kind == BoundSocket::Kind::kTcp
             ? absl::StrCat("listening port ", socket.address, " of ", holder)
             : absl::StrCat("abstract socket ", socket.address, " of ", holder);
}

}  // namespace

LeakCheck::LeakCheck() {
  absl::StatusOr<TempDir> folder = TempDir::Create("leak-check");
  MILLRACE_CHECK(folder.ok()) << folder.status();
  folder_.emplace(*std::move(folder));
  const std::string id = RandomHex(8);
  marker_ = absl::StrCat(kIdVariable, "=", id);
  SetEnvironment(kIdVariable, id);
  SetEnvironment("TMPDIR", folder_->path());
  SetEnvironment("HOME", folder_->path());
  // The records of the last clusters, of which there are only so many, are there to stay.
  AllowPath(".millrace/clusters/ended");
  for (const ProcessInfo& process : FindProcesses(marker_, ::getpid())) {
    processes_before_.emplace(process.pid, process.start_time);
  }
  for (const BoundSocket& socket : FindBoundSockets({::getpid()})) {
    sockets_before_.insert(socket.inode);
  }
}

LeakCheck::~LeakCheck() {
  for (const auto& [name, value] : environment_) {
    if (value.has_value()) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
}

void LeakCheck::SetEnvironment(const std::string& name, const std::string& value) {
  const char* before = ::getenv(name.c_str());
  environment_.emplace_back(name,
                            before == nullptr ? std::nullopt : std::optional<std::string>(before));
  ::setenv(name.c_str(), value.c_str(), 1);
}

void LeakCheck::AllowPath(const std::string& path) {
  allowed_paths_.insert(JoinPath(folder(), path));
}

std::vector<ProcessInfo> LeakCheck::Processes() const {
  std::vector<ProcessInfo> processes;
  for (ProcessInfo& process : FindProcesses(marker_, ::getpid())) {
    if (processes_before_.count({process.pid, process.start_time}) > 0) continue;
    processes.push_back(std::move(process));
  }
  return processes;
}

std::vector<BoundSocket> LeakCheck::Sockets() const {
  std::vector<pid_t> pids = {::getpid()};
  for (const ProcessInfo& process : Processes()) pids.push_back(process.pid);
  std::vector<BoundSocket> sockets;
  for (BoundSocket& socket : FindBoundSockets(pids)) {
    if (sockets_before_.count(socket.inode) == 0) sockets.push_back(std::move(socket));
  }
  return sockets;
}

std::vector<std::string> LeakCheck::Files() const {
  std::vector<std::string> files;
  std::error_code error;  // what vanishes meanwhile is not left
  std::filesystem::recursive_directory_iterator entry(folder(), error);
  const std::filesystem::recursive_directory_iterator end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (allowed_paths_.count(path) > 0) {
      entry.disable_recursion_pending();
      continue;
    }
    // A folder that only leads to what is allowed.
    bool leads = false;
    for (const std::string& allowed : allowed_paths_) {
      leads = leads || absl::StartsWith(allowed, absl::StrCat(path, "/"));
    }
    if (!leads) files.push_back(path);
  }
  return files;
}

std::vector<std::string> LeakCheck::Leftovers() const {
  std::vector<std::string> left;
  for (const ProcessInfo& process : Processes()) left.push_back(Describe(process));
  for (const BoundSocket& socket : Sockets()) left.push_back(Describe(socket));
  for (const std::string& file : Files()) left.push_back(absl::StrCat("file ", file));
  return left;
}

std::vector<std::string> LeakCheck::WaitUntilNothingLeft(absl::Duration within) const {
  const absl::Time deadline = absl::Now() + within;
  while (true) {
    std::vector<std::string> left = Leftovers();
    if (left.empty() || absl::Now() >= deadline) return left;
    absl::SleepFor(kPollInterval);
  }
}

void LeakCheck::ExpectNothingLeft(absl::Duration within) {
  const std::vector<std::string> left = WaitUntilNothingLeft(within);
  if (left.empty()) return;
  ADD_FAILURE() << "still there after " << absl::FormatDuration(within) << ":\n  "
                << absl::StrJoin(left, "\n  ");
  for (const ProcessInfo& process : Processes()) {
    if (process.state != 'Z') ::kill(process.pid, SIGKILL);
  }
}

}  // namespace millrace
