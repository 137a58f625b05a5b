#include "core/agent/local_address.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace millrace {
namespace {

struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

bool Describe(const sockaddr_storage& address, Endpoint* endpoint) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    endpoint->port = ntohs(v4.sin_port);
    if (inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text)) == nullptr) return false;
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    endpoint->port = ntohs(v6.sin6_port);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    const void* bytes = mapped ? &v6.sin6_addr.s6_addr[12] : &v6.sin6_addr.s6_addr[0];
    if (inet_ntop(mapped ? AF_INET : AF_INET6, bytes, text, sizeof(text)) == nullptr) return false;
  } else {
    return false;
  }
  endpoint->host = text;
  return true;
}

}  // namespace

std::string LocalHostTowards(uint16_t peer_port) {
  std::string host;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return host;
  while (const dirent* entry = readdir(folder)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;
    // Other threads open and close descriptors meanwhile: an error only means "not this one".
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    Endpoint peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        !Describe(address, &peer) || peer.port != peer_port) {
      continue;
    }
    Endpoint local;
    size = sizeof(address);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        Describe(address, &local)) {
      host = local.host;
      break;
    }
  }
  closedir(folder);
  return host;
}

bool IsLoopbackHost(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace millrace
