#include "core/agent/node/port_reservation.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "core/base/text.h"

namespace millrace {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  void SetPort(uint16_t port) {
    if (storage.ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
    }
  }
  uint16_t port() const {
    return ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
};

absl::StatusOr<SocketAddress> ParseNumeric(const std::string& address) {
  SocketAddress parsed;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    parsed.size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    parsed.size = sizeof(*v6);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("\"", Ellipsize(EscapeControls(address), 64),
                                                   "\" is no numeric address to bind to"));
  }
  return parsed;
}

// Binds `port` on a new socket; errno says why the result is invalid.
UniqueFd TryBind(SocketAddress* address, uint16_t port) {
  UniqueFd fd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  address->SetPort(port);
  if (bind(fd.get(), address->get(), address->size) != 0) {
    fd.reset();
    return fd;
  }
  // Only now, so that the bind itself was exclusive: with the option set before, two reservations
  // of one user would share a port.
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) fd.reset();
  return fd;
}

absl::Status BindError(int error, const std::string& address, uint16_t port) {
  const std::string where =
      port == 0 ? absl::StrCat("a port on ", address) : absl::StrCat(address, " port ", port);
  if (error == EADDRNOTAVAIL) {
    return absl::UnavailableError(
        absl::StrCat("cannot reserve ", where, ": this host does not have that address"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot reserve ", where));
}

}  // namespace

absl::StatusOr<PortReservation> PortReservation::Bind(const std::string& address, PortRange range) {
  auto parsed = ParseNumeric(address);
  if (!parsed.ok()) return parsed.status();
  const uint32_t count = static_cast<uint32_t>(range.last) - range.first + 1;
  // From a random place, so that agents which start together do not all try the same ports.
  const uint32_t start = static_cast<uint32_t>(RandomU64() % count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (start + i) % count);
    UniqueFd fd = TryBind(&*parsed, port);
    if (!fd.valid()) {
      if (errno == EADDRINUSE) continue;
      return BindError(errno, address, port);
    }
    SocketAddress bound;
    bound.size = sizeof(bound.storage);
    if (getsockname(fd.get(), bound.get(), &bound.size) != 0) {
      return BindError(errno, address, port);
    }
    return PortReservation(std::move(fd), bound.port());
  }
  return absl::ResourceExhaustedError(
      range.first == 0 ? absl::StrCat("no free port on ", address)
                       : absl::StrCat("every port from ", range.first, " to ", range.last, " on ",
                                      address, " is taken (listening: ", PortHolders(range),
                                      "; the others are bound, as agents do it, or leave "
                                      "TIME_WAIT); give a wider port_range"));
}

bool PortReservation::listening() const {
  int value = 0;
  socklen_t size = sizeof(value);
  return fd_.valid() && getsockopt(fd_.get(), SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 &&
         value != 0;
}

}  // namespace millrace
