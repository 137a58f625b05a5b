#include "feed/wire/curve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "core/base/unique_fd.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kKeyCharacters = 40;  // of Z85
constexpr char kEveryInterface[] = "0.0.0.0";

// Whether this host has the numeric address.
template <typename Address>
bool HasAddress(const Address& address, int family) {
  const UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.valid() &&
         bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

std::string TcpEndpointText(absl::string_view host, absl::string_view port) {
  const bool is_v6 = host.find(':') != absl::string_view::npos;
  return absl::StrCat("tcp://", is_v6 ? "[" : "", host, is_v6 ? "]" : "", ":", port);
}

}  // namespace

absl::StatusOr<CurveKeys> MakeCurveKeys() {
  char public_key[kKeyCharacters + 1];
  char secret_key[kKeyCharacters + 1];
  if (zmq_curve_keypair(public_key, secret_key) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot make a CURVE key pair: ", zmq_strerror(zmq_errno()),
        "; this libzmq is built without CURVE: install one that is built with libsodium"));
  }
  return CurveKeys{.public_key = public_key, .secret_key = secret_key};
}

absl::StatusOr<std::string> DecodeCurveKey(absl::string_view z85) {
  const std::string text(z85);
  std::string key(kKeyBytes, '\0');
  // libzmq takes its length from a NUL, and some characters beyond Z85.
  if (z85.size() != kKeyCharacters || std::strlen(text.c_str()) != kKeyCharacters ||
      zmq_z85_decode(reinterpret_cast<uint8_t*>(key.data()), text.c_str()) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a CURVE key is ", kKeyCharacters,
                                                   " characters of Z85; found ", z85.size(),
                                                   " bytes that are none"));
  }
  return key;
}

absl::StatusOr<int> BindTcp(ZmqSocket* socket, const std::string& host, PortRange range) {
  const auto bind = [&](absl::string_view port) -> absl::StatusOr<int> {
    MILLRACE_ASSIGN_OR_RETURN(const std::string endpoint,
                              socket->Bind(TcpEndpointText(host, port)));
    int bound = 0;
    if (!absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &bound)) {
      return absl::InternalError(absl::StrCat("libzmq bound ", endpoint));
    }
    return bound;
  };
  if (range.first == 0) return bind("*");
  const uint32_t count = static_cast<uint32_t>(range.last) - range.first + 1;
  const auto start = static_cast<uint32_t>(RandomU64() % count);
  for (uint32_t i = 0; i < count; ++i) {
    absl::StatusOr<int> bound = bind(absl::StrCat(range.first + (start + i) % count));
    if (!absl::IsUnavailable(bound.status())) return bound;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "every port from ", range.first, " to ", range.last, " on ", host, " is taken (listening: ",
      PortHolders(range), "); give a wider range: a node that is fed takes two ports of it"));
}

std::string BindHostFor(const std::string& advertised) {
  sockaddr_in v4{.sin_family = AF_INET};
  if (inet_pton(AF_INET, advertised.c_str(), &v4.sin_addr) == 1) {
    return HasAddress(v4, AF_INET) ? advertised : kEveryInterface;
  }
  sockaddr_in6 v6{.sin6_family = AF_INET6};
  if (inet_pton(AF_INET6, advertised.c_str(), &v6.sin6_addr) == 1) {
    return HasAddress(v6, AF_INET6) ? advertised : "::";
  }
  return kEveryInterface;
}

std::string TcpEndpoint(absl::string_view host, int port) {
  return TcpEndpointText(host, absl::StrCat(port));
}

absl::StatusOr<std::string> LocalAddressOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char text[INET6_ADDRSTRLEN];
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot tell the local address of a connection: ", std::strerror(errno)));
  }
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return std::string(inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text)));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      return std::string(inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text)));
    }
    return std::string(inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text)));
  }
  return absl::UnavailableError("a connection is lost: its descriptor is none of TCP by now");
}

}  // namespace millrace
