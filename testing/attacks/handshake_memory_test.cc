// A stranger who tells great lengths before any handshake is done: what they are told to, no side
// allocates.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"
#include "feed/wire/zmq_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "testing/attacks/raw_peer.h"
#include "testing/ledger/ledger_rows.h"
#include "testing/process_table.h"

namespace millrace::attacks {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Below the 1 GiB that a data socket takes of those whom it knows.
constexpr int64_t kToldBytes = 900 * kMiB;
// What is sent of it. The system's buffers take some; the rest would lie in the process.
constexpr int64_t kSentBytes = 192 * kMiB;
constexpr int64_t kSystemBuffers = 32 * kMiB;
constexpr int kConnections = 3;
constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr absl::Duration kPatience = absl::Seconds(60);

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The header of a command of kToldBytes.
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
    strangers.push_back(ConnectTo(endpoint));
    EXPECT_LT(Flood(strangers.back().get(), Greeting(mechanism, false) + GreatCommand()),
              kSystemBuffers)
        << endpoint;
  }
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers) << endpoint;
}

TEST(HandshakeMemoryTest, ANodeHoldsNothingThatAStrangerSends) {
  auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
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

// The socket for nodes of other hosts too, which is bound when the first of them is reached. Its
// port is told to that node alone: strangers try what there is.
TEST(HandshakeMemoryTest, NoPortOfAFeedHoldsWhatAStrangerSends) {
  auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
  ASSERT_THAT(node, IsOk());
  auto feed = (*node)->GetDataFeed({.train_mode = true});
  ASSERT_THAT(feed, IsOk());
  auto feeder = Feeder::Start({.curve_only = true});
  ASSERT_THAT(feeder, IsOk());
  ASSERT_THAT((*node)->AnnounceFeeder((*feeder)->principal(), (*feeder)->curve_key()), IsOk());
  auto session = (*feeder)->OpenSession({.node = "worker:0",
                                         .nonce = kNonce,
                                         .curve_endpoint = (*node)->endpoints().curve,
                                         .curve_key = (*node)->endpoints().curve_key},
                                        {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(LedgerRows(0, 0, 0, 10)), IsOk());
  const auto rows = (*feed)->NextBatch(10);  // they come once the node has replied
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ(rows->num_rows(), 10);
  int ports = 0;
  for (const BoundSocket& socket : FindBoundSockets({getpid()})) {
    if (socket.kind != BoundSocket::Kind::kTcp) continue;
    ++ports;
    const std::string endpoint = absl::StrCat("tcp://127.0.0.1:", socket.port);
    ExpectNothingIsHeld(endpoint, "CURVE");
    ExpectNothingIsHeld(endpoint, "PLAIN");
  }
  EXPECT_GE(ports, 3) << "two of the node's and the feeder's";
}

// Who listens at a node's address is a stranger too.
TEST(HandshakeMemoryTest, AFeederHoldsNothingThatAServerSends) {
  const LoopbackListener server;
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  const FeedTarget target{
      .node = "worker:0", .nonce = kNonce, .tcp_endpoint = server.endpoint(), .key = "0123"};
  const int64_t before = ResidentBytes();
  auto session = (*feeder)->OpenSession(target, {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  const UniqueFd fd = server.Accept();
  EXPECT_LT(Flood(fd.get(), Greeting("PLAIN", true) + GreatCommand()), kSystemBuffers);
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers);
}

// A PUSH socket takes commands, and no messages, of a server that has done the handshake: one that
// takes every login and proves nothing.
TEST(HandshakeMemoryTest, APushTakesNoMessageOfItsServer) {
  const LoopbackListener server;
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  auto push =
      ZmqSocket::Create(*context, SocketType::kPush,
                        SocketOptions::Plain("feeder/x", FeederPassword("k", "feeder/x", 1)));
  ASSERT_THAT(push, IsOk());
  ASSERT_THAT(push->StartMonitor(), IsOk());
  ASSERT_THAT(push->Connect(server.endpoint()), IsOk());
  const UniqueFd fd = server.Accept();
  ServePlainHandshake(fd.get());
  ASSERT_TRUE(HandshakeSucceeds(&*push));
  const int64_t before = ResidentBytes();
  std::string message = GreatCommand();
  message[0] = '\x02';  // a message, no command
  EXPECT_LT(Flood(fd.get(), message), kSystemBuffers);
  EXPECT_LT(ResidentBytes() - before, kSystemBuffers);
}

}  // namespace
}  // namespace millrace::attacks
