#include "core/agent/link/local_address.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/numbers.h"

namespace millrace {
namespace {

constexpr size_t kMaxDescriptorsToTry = 1024;  // an agent has some thirty

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

// The local host of `fd` if that is a TCP connection to `peer_port`. Other threads open and close
// descriptors meanwhile: an error only means "not this one".
std::string LocalHostOf(int fd, uint16_t peer_port) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  Endpoint peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      !Describe(address, &peer) || peer.port != peer_port) {
    return "";
  }
  Endpoint local;
  size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      !Describe(address, &local)) {
    return "";
  }
  return local.host;
}

// The descriptors of this process; without /proc all that there may be, as far as numbers go that
// are given out: the lowest free one is.
std::vector<int> Descriptors() {
  std::vector<int> descriptors;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) {
    descriptors.resize(kMaxDescriptorsToTry);
    std::iota(descriptors.begin(), descriptors.end(), 0);
    return descriptors;
  }
  while (const dirent* entry = readdir(folder.get())) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd)) descriptors.push_back(fd);
  }
  return descriptors;
}

}  // namespace

std::string LocalHostTowards(uint16_t peer_port) {
  for (const int fd : Descriptors()) {
    std::string host = LocalHostOf(fd, peer_port);
    if (!host.empty()) return host;
  }
  return "";
}

}  // namespace millrace
