#include "testing/faults/hostile_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::faults {
namespace {

std::string Noise(size_t bytes) {
  std::minstd_rand random(7);
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

// ZMTP 3.1: signature, version, mechanism, as-server, filler.
std::string ZmtpGreeting(absl::string_view mechanism) {
  std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01", 12);
  greeting.append(mechanism.data(), mechanism.size());
  greeting.resize(64, '\0');
  return greeting;
}

std::string ZmtpCommand(absl::string_view name, absl::string_view data) {
  const std::string body = absl::StrCat(std::string(1, static_cast<char>(name.size())), name, data);
  return absl::StrCat("\x04", std::string(1, static_cast<char>(body.size())), body);
}

std::string PlainHello(absl::string_view user, absl::string_view password) {
  return ZmtpCommand("HELLO",
                     absl::StrCat(std::string(1, static_cast<char>(user.size())), user,
                                  std::string(1, static_cast<char>(password.size())), password));
}

const std::string& ReadyAsPush() {
  static const auto* const ready =
      new std::string(ZmtpCommand("READY", std::string("\x0bSocket-Type\0\0\0\x04PUSH", 20)));
  return *ready;
}

}  // namespace

std::vector<HostileAttack> HostileAttacks() {
  const std::string plain = ZmtpGreeting("PLAIN");
  const std::string null = ZmtpGreeting("NULL");
  return {
      {"half open", ""},
      {"one byte", "x"},
      {"zeros", std::string(4096, '\0')},
      {"noise", Noise(1 << 16)},
      {"plain HTTP", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"plain HTTP/2", absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string(64, '\0'))},
      {"TLS record cut off", std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03", 11)},
      {"TLS with noise", absl::StrCat(std::string("\x16\x03\x01\x02\x00", 5), Noise(512))},
      {"half a ZMTP greeting", plain.substr(0, 20)},
      {"ZMTP greeting only", plain},
      {"ZMTP without a mechanism", absl::StrCat(null, ReadyAsPush(), std::string("\x00\x01x", 3))},
      {"ZMTP with CURVE", absl::StrCat(ZmtpGreeting("CURVE"), Noise(200))},
      {"ZMTP with a wrong password",
       absl::StrCat(plain, PlainHello("feeder/0", "0123456789abcdef"))},
      {"ZMTP with no password", absl::StrCat(plain, PlainHello("", ""))},
      {"ZMTP that skips the handshake", absl::StrCat(plain, ReadyAsPush(), Noise(300))},
      {"ZMTP command of 2^63 bytes",
       absl::StrCat(plain, std::string("\x06\x80\0\0\0\0\0\0\0", 9), Noise(100))},
      {"ZMTP message of 2^62 bytes",
       absl::StrCat(null, ReadyAsPush(), std::string("\x02\x40\0\0\0\0\0\0\0", 9), Noise(100))},
      {"ZMTP version 1", absl::StrCat(std::string("\x01\x00", 2), Noise(100))},
  };
}

absl::StatusOr<HostileConnection> HostileConnection::Connect(const BoundSocket& socket) {
  const bool tcp = socket.kind == BoundSocket::Kind::kTcp;
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (tcp) {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = htons(static_cast<uint16_t>(socket.port));
    size = sizeof(*address);
  } else {
    auto* address = reinterpret_cast<sockaddr_un*>(&storage);
    address->sun_family = AF_UNIX;
    const std::string name = socket.address.substr(1);
    std::memcpy(address->sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  UniqueFd fd(::socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("connecting to ", socket.address));
  }
  return HostileConnection(std::move(fd));
}

void HostileConnection::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

bool HostileConnection::Drain() {
  char buffer[4096];
  while (true) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n > 0) continue;
    return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

}  // namespace millrace::faults
