// What a peer sends, and when it breaks the connection, is for no process a reason to abort. Each
// of these was an assertion in libzmq (third_party/README.md), so without its patch the whole test
// dies.

#include <poll.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/curve.h"
#include "feed/wire/poller.h"
#include "feed/wire/zmq_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/attacks/raw_peer.h"

namespace millrace::attacks {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
// Of a test. `--runs_per_test` makes more of them.
constexpr int kConnections = 64;
constexpr int kRoundsOfARace = 16;
// Longer than a heartbeat's interval.
constexpr absl::Duration kLinger = absl::Milliseconds(2500);

// Waits until `socket` has said `kind`.
bool Hears(ZmqSocket* socket, ZmqEvent::Kind kind) {
  Poller poller;
  poller.AddMonitor(*socket);
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline && poller.Wait(absl::Seconds(1)).ok()) {
    const auto event = socket->NextEvent();
    if (!event.ok()) return false;
    if (event->has_value() && (*event)->kind == kind) return true;
  }
  return false;
}

// A PUSH that is logged in, and the server's end of its connection.
struct Link {
  ZmqSocket push;
  UniqueFd server;
};

Link MakeLink(const ZmqContext& context) {
  const LoopbackListener listener;
  Link link;
  link.push = *ZmqSocket::Create(context, SocketType::kPush, SocketOptions::Plain("feeder/x", "y"));
  EXPECT_THAT(link.push.StartMonitor(), IsOk());
  EXPECT_THAT(link.push.Connect(listener.endpoint()), IsOk());
  link.server = listener.Accept();
  ServePlainHandshake(link.server.get());
  EXPECT_TRUE(Hears(&link.push, ZmqEvent::Kind::kHandshakeSucceeded));
  return link;
}

// More than the system's buffers take, in parts: some of it stays in libzmq, half of a message too.
void SendMuch(ZmqSocket* push) {
  static const auto* const part = new auto(std::make_shared<const std::string>(1 << 20, 'x'));
  std::vector<ZmqMessage> parts;
  for (int i = 0; i < 16; ++i) {
    parts.push_back(ZmqMessage::FromBuffer((*part)->data(), (*part)->size(), *part));
  }
  EXPECT_THAT(push->Send(std::move(parts)), IsOkAndHolds(true));
}

// On each connection messages, each followed by a PING, until no other side reads any more: from
// when its socket is being closed.
void SayUntilNobodyReads(const std::vector<Link>& links) {
  std::string said;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&said, absl::string_view("\x00\x04move", 6),
                    CommandFrame(absl::string_view("\x04PING\x00\x00", 7)));
  }
  std::vector<pollfd> ready;
  for (const Link& link : links) ready.push_back({.fd = link.server.get(), .events = POLLOUT});
  std::vector<size_t> sent(links.size());  // of what is said
  while (poll(ready.data(), ready.size(), 100) > 0) {
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      const ssize_t n = send(ready[i].fd, said.data() + sent[i], said.size() - sent[i],
                             MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) {  // a slow machine: the socket has given up before it was reset
        ready[i].fd = -1;
        continue;
      }
      sent[i] = (sent[i] + static_cast<size_t>(n)) % said.size();
    }
  }
}

void Reset(UniqueFd fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
}

// A node that ends while its feeder sends to the socket of the node's replies, and resets: its
// heartbeat is due before it has given up.
TEST(PeerAbortTest, ASocketIsClosedWhileItsPeerSendsAndResets) {
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  std::vector<Link> links;
  for (int i = 0; i < kConnections; ++i) links.push_back(MakeLink(*context));
  for (Link& link : links) {
    SendMuch(&link.push);
    link.push.CloseAfterSending(kLinger);
  }
  SayUntilNobodyReads(links);
  for (Link& link : links) Reset(std::move(link.server));
}

// The connection breaks in the middle of a message of many parts, which nobody can take from the
// pipe of a closed socket any more.
TEST(PeerAbortTest, ASocketIsClosedAtOnceWhileItsPeerResets) {
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  for (int round = 0; round < kRoundsOfARace; ++round) {
    std::vector<Link> links;
    for (int i = 0; i < kConnections; ++i) links.push_back(MakeLink(*context));
    for (Link& link : links) SendMuch(&link.push);
    Thread closer("closer", [&links] {
      for (Link& link : links) {
        link.push.DetachFromThread();
        link.push.CloseAfterSending(absl::ZeroDuration());
      }
    });
    for (Link& link : links) Reset(std::move(link.server));
    closer.Join();
  }
}

// The soft limit of this process, until the end of a test.
class DescriptorLimit {
 public:
  DescriptorLimit() { EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  ~DescriptorLimit() { Restore(); }

  void LowerTo(int highest_fd) {
    rlimit lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(highest_fd) + 1;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  void Restore() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_;
};

// Strangers who connect until a node has no descriptor left, to `endpoint` of its endpoints.
void ExpectSurvivesStrangers(const std::string& endpoint) {
  std::vector<UniqueFd> strangers;
  int highest = 0;
  for (int i = 0; i < kConnections; ++i) {
    strangers.push_back(SocketFor(endpoint));
    highest = std::max(highest, strangers.back().get());
  }
  DescriptorLimit limit;
  limit.LowerTo(highest + 4);
  for (const UniqueFd& stranger : strangers) ConnectSocket(stranger.get(), endpoint);
  // The first was taken, and is put off by its time limit; by then the node has met the others.
  std::string greeting(64, '\0');
  while (recv(strangers[0].get(), greeting.data(), greeting.size(), 0) > 0) {
  }
  limit.Restore();
  strangers.clear();
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  auto push = ZmqSocket::Create(*context, SocketType::kPush,
                                SocketOptions::Plain("feeder/x", "no password of anybody's"));
  ASSERT_THAT(push, IsOk());
  ASSERT_THAT(push->StartMonitor(), IsOk());
  ASSERT_THAT(push->Connect(endpoint), IsOk());
  EXPECT_TRUE(Hears(&*push, ZmqEvent::Kind::kHandshakeFailedAuth)) << "nobody answers";
}

TEST(PeerAbortTest, StrangersTakeAllDescriptorsOfANode) {
  auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = "5b0c9e1f22d3a4b6", .advertise_host = "127.0.0.1"});
  ASSERT_THAT(node, IsOk());
  ExpectSurvivesStrangers((*node)->endpoints().tcp);
  ExpectSurvivesStrangers((*node)->endpoints().ipc);
}

// The WELCOME of a server that has its key and chooses a key of zeros for the connection.
std::string WelcomeWithNoKey(const std::string& hello,
                             const uint8_t (&secret)[crypto_box_SECRETKEYBYTES]) {
  uint8_t nonce[crypto_box_NONCEBYTES] = "WELCOME-";
  const std::string plain(128, '\0');  // the key, and a cookie
  std::string box(plain.size() + crypto_box_MACBYTES, '\0');
  EXPECT_EQ(crypto_box_easy(reinterpret_cast<uint8_t*>(box.data()),
                            reinterpret_cast<const uint8_t*>(plain.data()), plain.size(), nonce,
                            reinterpret_cast<const uint8_t*>(hello.data()) + 80, secret),
            0);
  return absl::StrCat("\x07WELCOME", std::string(reinterpret_cast<char*>(nonce) + 8, 16), box);
}

TEST(PeerAbortTest, ACurveServerChoosesAKeyOfZeros) {
  uint8_t public_key[crypto_box_PUBLICKEYBYTES];
  uint8_t secret_key[crypto_box_SECRETKEYBYTES];
  ASSERT_EQ(crypto_box_keypair(public_key, secret_key), 0);
  char z85[41];
  ASSERT_NE(zmq_z85_encode(z85, public_key, sizeof(public_key)), nullptr);
  const auto keys = MakeCurveKeys();
  ASSERT_THAT(keys, IsOk());
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  const LoopbackListener listener;
  auto push = ZmqSocket::Create(*context, SocketType::kPush, SocketOptions::Curve(*keys, z85));
  ASSERT_THAT(push, IsOk());
  ASSERT_THAT(push->StartMonitor(), IsOk());
  ASSERT_THAT(push->Connect(listener.endpoint()), IsOk());
  const UniqueFd server = listener.Accept();
  Say(server.get(), Greeting("CURVE", /*as_server=*/true));
  Hear(server.get(), 64);
  Say(server.get(), CommandFrame(WelcomeWithNoKey(HearFrame(server.get()), secret_key)));
  EXPECT_TRUE(Hears(&*push, ZmqEvent::Kind::kHandshakeFailedOther));
}

// No assertion, but the same peer: what it did not send is not sent back to it.
TEST(PeerAbortTest, APingThatIsTooShortIsNotAnswered) {
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  auto pull = ZmqSocket::Create(*context, SocketType::kPull, {});
  ASSERT_THAT(pull, IsOk());
  const auto endpoint = pull->Bind("tcp://127.0.0.1:*");
  ASSERT_THAT(endpoint, IsOk());
  const UniqueFd client = ConnectTo(*endpoint);
  Say(client.get(), Greeting("NULL", /*as_server=*/false));
  Say(client.get(),
      CommandFrame(absl::string_view("\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH", 26)));
  Hear(client.get(), 64);
  EXPECT_EQ(HearFrame(client.get()).substr(0, 6), "\x05READY");
  Say(client.get(), CommandFrame("\x04PING"));
  Say(client.get(), CommandFrame(absl::string_view("\x04PING\x00\x00whole", 12)));
  std::string answer = HearFrame(client.get());
  while (answer.substr(0, 5) == "\x04PING") answer = HearFrame(client.get());  // its heartbeat
  EXPECT_EQ(answer, "\x04PONGwhole");
}

}  // namespace
}  // namespace millrace::attacks
