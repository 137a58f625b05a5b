#include "core/cli/host/limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"

namespace millrace::cli {
namespace {

// The least that a run is known to need. Cluster files and nodes' contexts are a few KiB.
constexpr uint64_t kFileBytes = uint64_t{64} << 10;
// Descriptors of the driver: its own, and for each agent stdin, stdout, stderr, its pidfd and a
// connection.
constexpr uint64_t kDescriptors = 40;
constexpr uint64_t kDescriptorsPerNode = 5;
// The driver's threads; of each node the agent with its threads, its guard, and the program.
constexpr uint64_t kProcesses = 20;
constexpr uint64_t kProcessesPerNode = 8;

uint64_t HardLimit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return Limits::kNone;
  return limit.rlim_max;
}

// The soft limit, which applies unless the process raises it.
uint64_t SoftLimit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Limits::kNone;
  return limit.rlim_cur;
}

uint64_t ThreadsOf(const std::string& process) {
  const absl::StatusOr<std::string> status = ReadFile(process + "/status");
  if (!status.ok()) return 0;  // it has ended
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    uint64_t threads = 0;
    if (absl::ConsumePrefix(&line, "Threads:") && absl::SimpleAtoi(line, &threads)) return threads;
  }
  return 0;
}

uint64_t ThreadsOfThisUser() {
  uint64_t threads = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    struct stat info {};
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid) &&
        ::stat(entry.path().c_str(), &info) == 0 && info.st_uid == ::getuid()) {
      threads += ThreadsOf(entry.path().string());
    }
  }
  return threads;
}

// A datagram socket that is connected sends nothing: it only looks for the way.
bool LoopbackIsUp() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return !fd.valid() ||
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         (errno != ENETUNREACH && errno != ENETDOWN && errno != EADDRNOTAVAIL);
}

}  // namespace

std::string NodesText(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

Limits ReadLimits() {
  Limits limits = {.file_bytes = SoftLimit(RLIMIT_FSIZE),
                   .descriptors = HardLimit(RLIMIT_NOFILE),
                   .loopback = LoopbackIsUp()};
  if (::geteuid() == 0) return limits;
  limits.processes = SoftLimit(RLIMIT_NPROC);
  if (limits.processes != Limits::kNone) limits.processes_used = ThreadsOfThisUser();
  return limits;
}

absl::Status CheckLimits(const Limits& limits, int num_nodes) {
  const auto nodes = static_cast<uint64_t>(num_nodes);
  if (!limits.loopback) {
    return absl::FailedPreconditionError(
        "this machine has no loopback interface (127.0.0.1 cannot be reached), over which the "
        "nodes reach each other: ip link set lo up");
  }
  if (limits.file_bytes < kFileBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("files here may have at most ", limits.file_bytes,
                     " bytes, which is too little for millrace's own files: ulimit -f unlimited"));
  }
  const uint64_t descriptors = kDescriptors + kDescriptorsPerNode * nodes;
  if (limits.descriptors < descriptors) {
    return absl::FailedPreconditionError(
        absl::StrCat(NodesText(num_nodes), " take about ", descriptors, " file descriptors, and ",
                     limits.descriptors, " are allowed here: ulimit -n ", descriptors,
                     " (root, or limits.conf, raises it), or start fewer nodes"));
  }
  const uint64_t processes = kProcesses + kProcessesPerNode * nodes;
  if (limits.processes < limits.processes_used + processes) {
    return absl::FailedPreconditionError(absl::StrCat(
        NodesText(num_nodes), " take about ", processes, " processes and threads; this user has ",
        limits.processes_used, " now and may have ", limits.processes, ": ulimit -u ",
        limits.processes_used + 2 * processes,
        " (root, or limits.conf, raises it), or start fewer nodes"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
