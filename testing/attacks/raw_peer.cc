#include "testing/attacks/raw_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace millrace::attacks {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address AddressOf(absl::string_view endpoint) {
  Address address;
  if (absl::ConsumePrefix(&endpoint, "ipc://@")) {
    auto* const local = reinterpret_cast<sockaddr_un*>(&address.storage);
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path + 1, endpoint.data(), endpoint.size());
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint.size());
    return address;
  }
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port)) << endpoint;
  auto* const tcp = reinterpret_cast<sockaddr_in*>(&address.storage);
  tcp->sin_family = AF_INET;
  tcp->sin_port = htons(static_cast<uint16_t>(port));
  tcp->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.size = sizeof(*tcp);
  return address;
}

}  // namespace

LoopbackListener::LoopbackListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const Address any = AddressOf("tcp://127.0.0.1:0");
  EXPECT_EQ(bind(fd_.get(), any.get(), any.size), 0);
  EXPECT_EQ(listen(fd_.get(), SOMAXCONN), 0);
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  endpoint_ = absl::StrCat("tcp://127.0.0.1:", ntohs(bound.sin_port));
}

UniqueFd LoopbackListener::Accept() const {
  UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  return fd;
}

UniqueFd SocketFor(absl::string_view endpoint) {
  UniqueFd fd(socket(AddressOf(endpoint).get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(fd.valid());
  return fd;
}

void ConnectSocket(int fd, absl::string_view endpoint) {
  const Address address = AddressOf(endpoint);
  EXPECT_EQ(connect(fd, address.get(), address.size), 0) << endpoint;
}

UniqueFd ConnectTo(absl::string_view endpoint) {
  UniqueFd fd = SocketFor(endpoint);
  ConnectSocket(fd.get(), endpoint);
  return fd;
}

std::string Greeting(absl::string_view mechanism, bool as_server) {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  std::memcpy(&greeting[12], mechanism.data(), mechanism.size());
  greeting[32] = as_server ? 1 : 0;
  return greeting;
}

void Say(int fd, absl::string_view bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

std::string Hear(int fd, size_t size) {
  std::string bytes(size, '\0');
  EXPECT_EQ(recv(fd, bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  return bytes;
}

std::string CommandFrame(absl::string_view command) {
  return absl::StrCat("\x04", std::string(1, static_cast<char>(command.size())), command);
}

std::string HearFrame(int fd, char* flags) {
  const char head = Hear(fd, 1)[0];
  if (flags != nullptr) *flags = head;
  size_t size = 0;
  for (const char digit : Hear(fd, (head & 2) != 0 ? 8 : 1)) size = size << 8 | (digit & 0xff);
  return Hear(fd, size);
}

void ServePlainHandshake(int fd) {
  Say(fd, Greeting("PLAIN", /*as_server=*/true));
  Hear(fd, 64);
  EXPECT_EQ(HearFrame(fd).substr(0, 6), "\x05HELLO");
  Say(fd, CommandFrame("\x07WELCOME"));
  EXPECT_EQ(HearFrame(fd).substr(0, 9), "\x08INITIATE");
  Say(fd, CommandFrame(absl::string_view("\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL", 26)));
}

}  // namespace millrace::attacks
