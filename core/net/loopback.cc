#include "core/net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace millrace {

bool IsLoopbackHost(absl::string_view host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
         (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace millrace
