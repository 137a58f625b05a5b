#include "testing/attacks/attacked_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/client/raw_cluster_client.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace::attacks {

std::vector<std::string> Limited(const std::string& limit,
                                 const std::vector<std::string>& command) {
  std::vector<std::string> argv = {"/bin/sh", "-c",
                                   absl::StrCat("ulimit ", limit, " && exec \"$0\" \"$@\"")};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

std::vector<std::string> MillraceRun(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {RunfilePath("core/cli/millrace"), "run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

UniqueFd Connect(const std::string& host_port, const std::string& bytes) {
  const absl::StatusOr<HostPort> target = ParseHostPort(host_port);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!target.ok() || inet_pton(AF_INET, target->host.c_str(), &address.sin_addr) != 1) {
    return UniqueFd();
  }
  address.sin_port = htons(target->port);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return UniqueFd();
  }
  // Whoever is closed at once need not hear it.
  (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return fd;
}

void AttackedCluster::SetEnvironment(const std::string& dir) {
  ::setenv("MILLRACE_CLUSTERS_DIR", JoinPath(dir, "clusters").c_str(), 1);
  ::setenv("MILLRACE_AGENT", RunfilePath("core/agent/millrace-agent").c_str(), 1);
}

absl::StatusOr<AttackedCluster> AttackedCluster::Start(const std::string& limit) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<ChildProcess> driver,
      ChildProcess::Start(Limited(limit, MillraceRun({"--", "/bin/sleep", "1000"}))));
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    absl::StatusOr<ClusterFile> file = NewestClusterFile();
    if (file.ok()) return AttackedCluster(std::move(driver), *std::move(file));
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::DeadlineExceededError("there is no cluster file");
}

absl::Status AttackedCluster::Look() const {
  ClusterClientOptions options = ClusterClientOptionsFrom(file_);
  options.timeout = kPatience;
  MILLRACE_ASSIGN_OR_RETURN(const auto client, RawClusterClient::Connect(std::move(options)));
  const absl::Time deadline = absl::Now() + kPatience;
  absl::Status status;
  do {
    status = client->Snapshot().status();
  } while (absl::IsUnavailable(status) && absl::Now() < deadline);
  return status;
}

}  // namespace millrace::attacks
