// A stranger who tells great lengths before any handshake is done: what they are told to, no side
// allocates.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "feed/fake_feed_node.h"
#include "feed/feeder.h"
#include "feed/login.h"
#include "feed/node_directory.h"
#include "feed/receiver.h"
#include "feed/zmq_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Below the 1 GiB that a data socket takes of those whom it knows.
constexpr int64_t kToldBytes = 900 * kMiB;
// What is sent of it. The system's buffers take some; the rest would lie in the process.
constexpr int64_t kSentBytes = 192 * kMiB;
constexpr int64_t kSystemBuffers = 32 * kMiB;
constexpr int kConnections = 3;
constexpr absl::Duration kPatience = absl::Seconds(60);

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

sockaddr_in Address(absl::string_view endpoint) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port)) << endpoint;
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd Connect(absl::string_view endpoint) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Address(endpoint);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
      << endpoint;
  return fd;
}

// ZMTP 3.0's greeting, and the header of a command of kToldBytes.
std::string Greeting(absl::string_view mechanism, bool as_server) {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  std::memcpy(&greeting[12], mechanism.data(), mechanism.size());
  greeting[32] = as_server ? 1 : 0;
  return greeting;
}

std::string GreatCommand() {
  std::string header = {'\x06'};
  for (int shift = 56; shift >= 0; shift -= 8) {
    header.push_back(static_cast<char>((kToldBytes >> shift) & 0xff));
  }
  return header;
}

// Sends as much as the peer takes before it closes; returns how much that was.
int64_t Flood(int fd, const std::string& begin) {
  const std::string chunk(256 << 10, 'x');
  if (send(fd, begin.data(), begin.size(), MSG_NOSIGNAL) < 0) return 0;
  const absl::Time deadline = absl::Now() + kPatience;
  int64_t sent = 0;
  while (sent < kSentBytes && absl::Now() < deadline) {
    pollfd ready{.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, 1000) <= 0) continue;
    const ssize_t n = send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) return sent;
    if (n > 0) sent += n;
  }
  return sent;
}

void Say(int fd, const std::string& bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

void Hear(int fd, size_t size) {
  std::string bytes(size, '\0');
  EXPECT_EQ(recv(fd, bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
}

bool HandshakeSucceeds(ZmqSocket* socket) {
  Poller poller;
  poller.AddMonitor(*socket);
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline && poller.Wait(absl::Seconds(1)).ok()) {
    const auto event = socket->NextEvent();
    if (!event.ok()) return false;
    if (!event->has_value()) continue;
    if ((*event)->kind == ZmqEvent::Kind::kHandshakeSucceeded) return true;
    if ((*event)->kind != ZmqEvent::Kind::kConnected) return false;
  }
  return false;
}

// The connections stay open together: what they hold adds up.
void ExpectNothingIsHeld(absl::string_view endpoint, absl::string_view mechanism) {
  const int64_t before = ResidentBytes();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kConnections; ++i) {
    strangers.push_back(Connect(endpoint));
    EXPECT_LT(Flood(strangers.back().get(), Greeting(mechanism, false) + GreatCommand()),
              kSystemBuffers)
        << endpoint;
  }
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers) << endpoint;
}

TEST(HandshakeMemoryTest, ANodeHoldsNothingThatAStrangerSends) {
  auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = "5b0c9e1f22d3a4b6", .advertise_host = "127.0.0.1"});
  ASSERT_THAT(node, IsOk());
  ExpectNothingIsHeld((*node)->endpoints().tcp, "PLAIN");
  ExpectNothingIsHeld((*node)->endpoints().curve, "CURVE");
}

TEST(HandshakeMemoryTest, AFeedersReplySocketHoldsNothingThatAStrangerSends) {
  FakeFeedNode node("worker:0", FakeFeedNode::ReadAll());
  FeedTarget target = node.target();
  target.ipc_endpoint.clear();  // so that its replies come by TCP
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  auto session = (*feeder)->OpenSession(target, {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(LedgerRows(0, 0, 0, 10)), IsOk());
  ExpectNothingIsHeld(node.events()[0].open.reply.endpoint, "PLAIN");
  ASSERT_THAT((*session)->Finish(10), IsOk());
  EXPECT_THAT((*session)->WaitDone(), IsOk());
}

// Who listens at a node's address is a stranger too.
TEST(HandshakeMemoryTest, AFeederHoldsNothingThatAServerSends) {
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Address("tcp://127.0.0.1:0");
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(server.get(), 5), 0);
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  const FeedTarget target{.node = "worker:0",
                          .nonce = "5b0c9e1f22d3a4b6",
                          .tcp_endpoint = absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port)),
                          .key = "0123"};
  const int64_t before = ResidentBytes();
  auto session = (*feeder)->OpenSession(target, {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  const UniqueFd fd(accept(server.get(), nullptr, nullptr));
  EXPECT_LT(Flood(fd.get(), Greeting("PLAIN", true) + GreatCommand()), kSystemBuffers);
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers);
}

// A PUSH socket takes commands, and no messages, of a server that has done the handshake: one that
// takes every login and proves nothing.
TEST(HandshakeMemoryTest, APushTakesNoMessageOfItsServer) {
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Address("tcp://127.0.0.1:0");
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(server.get(), 5), 0);
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  auto push =
      ZmqSocket::Create(*context, SocketType::kPush,
                        SocketOptions::Plain("feeder/x", FeederPassword("k", "feeder/x", 1)));
  ASSERT_THAT(push, IsOk());
  ASSERT_THAT(push->StartMonitor(), IsOk());
  ASSERT_THAT(push->Connect(absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port))), IsOk());
  const UniqueFd fd(accept(server.get(), nullptr, nullptr));
  // Greeting and HELLO, with a name of 8 and a password of 80 bytes; then INITIATE.
  Say(fd.get(), Greeting("PLAIN", true));
  Hear(fd.get(), 64 + 2 + 6 + 1 + 8 + 1 + 80);
  Say(fd.get(), std::string("\x04\x08\x07WELCOME", 10));
  Hear(fd.get(), 2 + 9);
  Say(fd.get(), std::string("\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL", 28));
  ASSERT_TRUE(HandshakeSucceeds(&*push));
  const int64_t before = ResidentBytes();
  std::string message = GreatCommand();
  message[0] = '\x02';  // a message, no command
  EXPECT_LT(Flood(fd.get(), message), kSystemBuffers);
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers);
}

}  // namespace
}  // namespace millrace
