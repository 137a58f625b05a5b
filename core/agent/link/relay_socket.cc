#include "core/agent/link/relay_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/net/sha256.h"
#include "core/net/socket_address.h"

namespace millrace {
namespace {

constexpr int kBacklog = 1024;
// A relay that ends while it is looked for leaves its name to the next.
constexpr int kTries = 5;
constexpr size_t kNameDigits = 32;
constexpr absl::Duration kSlice = absl::Milliseconds(100);  // in which `cancelled` is looked at

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

UniqueFd UnixSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

std::string RelayName(const CoordinatorEndpoint& endpoint) {
  const std::string digest =
      Sha256Hex(absl::StrCat(endpoint.token, "\n", endpoint.address, "\n", endpoint.ca_pem, "\n",
                             getuid(), "\n", LocalHostname()));
  return absl::StrCat("millrace-relay-", digest.substr(0, kNameDigits));
}

bool IsOwnUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

absl::StatusOr<RelayEnds> ReachRelay(const std::string& name) {
  sockaddr_un address;
  const socklen_t size = AbstractAddress(name, &address);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  for (int i = 0; i < kTries; ++i) {
    RelayEnds ends;
    ends.listening = UnixSocket();
    ends.connection = UnixSocket();
    if (!ends.listening.valid() || !ends.connection.valid()) {
      return absl::ErrnoToStatus(errno, "making a unix socket");
    }
    if (::bind(ends.listening.get(), where, size) != 0) {
      if (errno != EADDRINUSE) return absl::ErrnoToStatus(errno, "binding a relay's name");
      ends.listening.reset();
    } else if (::listen(ends.listening.get(), kBacklog) != 0) {
      return absl::ErrnoToStatus(errno, "listening under a relay's name");
    }
    if (::connect(ends.connection.get(), where, size) != 0) continue;
    if (IsOwnUser(ends.connection.get())) return ends;
    return absl::PermissionDeniedError("another user listens under the name of this host's relay");
  }
  return absl::UnavailableError("no relay takes this agent");
}

absl::StatusOr<std::string> ReadGreeting(int fd, absl::Duration timeout,
                                         const std::atomic<bool>& cancelled) {
  const Deadline deadline(timeout);
  std::string line;
  while (true) {
    if (cancelled.load()) return absl::CancelledError("not wanted any more");
    if (deadline.Passed()) return absl::DeadlineExceededError("the relay says nothing");
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    const absl::Duration wait = std::min(kSlice, deadline.Left());
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1) <= 0) continue;
    char byte = 0;
    const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return absl::UnavailableError("the relay has ended");
    if (byte == '\n') return line;
    line += byte;
    if (line.size() > kMaxGreetingBytes) {
      return absl::UnavailableError("what listens under the relay's name is none");
    }
  }
}

}  // namespace millrace
