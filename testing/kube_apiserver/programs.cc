#include "testing/kube_apiserver/programs.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/unique_fd.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

constexpr char kPrograms[] = "../kube_apiserver_programs/";

}  // namespace

std::string KubeProgramPath(const std::string& name) {
  return RunfilePath(absl::StrCat(kPrograms, "bin/", name));
}

std::optional<std::string> KubeProgramUnavailable(const std::string& name) {
  if (::access(KubeProgramPath(name).c_str(), X_OK) == 0) return std::nullopt;
  const auto reason = ReadFile(RunfilePath(absl::StrCat(kPrograms, "unavailable.txt")));
  return absl::StrCat("no kube-apiserver and etcd: ", reason.ok()
                                                          ? absl::StripAsciiWhitespace(*reason)
                                                          : reason.status().message());
}

absl::StatusOr<int> FreeLoopbackPort() {
  constexpr uint64_t kFirst = 12000;
  constexpr uint64_t kCount = 20000;
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto port = static_cast<int>(kFirst + RandomU64() % kCount);
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return port;
  }
  return absl::ResourceExhaustedError("no free port on 127.0.0.1 in 12000-31999");
}

}  // namespace millrace
