#include "feed/wire/zmq_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "feed/wire/poller.h"
#include "feed/wire/zap_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kKey[] = "0123abcd";
constexpr char kUser[] = "feeder/42";

std::vector<ZmqMessage> Parts(std::vector<std::string> texts) {
  std::vector<ZmqMessage> parts;
  for (const std::string& text : texts) parts.push_back(ZmqMessage::Copy(text));
  return parts;
}

// One context with a ZAP handler that knows kKey and a PULL bound to both loopback transports.
class ZmqSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = ZmqContext::Create();
    ASSERT_THAT(context, IsOk());
    context_.emplace(*std::move(context));
    auto zap = ZapServer::Create(*context_, [this](const ZapRequest& request) {
      last_request_ = request;
      return request.password == kKey ? std::optional(request.user) : std::nullopt;
    });
    ASSERT_THAT(zap, IsOk());
    zap_.emplace(*std::move(zap));
    pull_ = NewSocket(SocketType::kPull, SocketOptions::PlainServer());
    ASSERT_THAT(pull_.StartMonitor(), IsOk());
    auto tcp = pull_.Bind("tcp://127.0.0.1:*");
    ASSERT_THAT(tcp, IsOk());
    tcp_ = *tcp;
    auto ipc = pull_.Bind(absl::StrCat("ipc://@millrace-test-", RandomHex(8)));
    ASSERT_THAT(ipc, IsOk());
    ipc_ = *ipc;
    poller_.Add(pull_);
    poller_.Add(zap_->socket());
  }

  ZmqSocket NewSocket(SocketType type, const SocketOptions& options) {
    auto socket = ZmqSocket::Create(*context_, type, options);
    EXPECT_THAT(socket, IsOk());
    return *std::move(socket);
  }

  // A PUSH that is connecting to `endpoint`, with a monitor.
  ZmqSocket NewPush(const std::string& endpoint, const std::string& key) {
    ZmqSocket push = NewSocket(SocketType::kPush, SocketOptions::Plain(kUser, key));
    EXPECT_THAT(push.StartMonitor(), IsOk());
    EXPECT_THAT(push.Connect(endpoint), IsOk());
    return push;
  }

  // Answers ZAP until `done` returns true; false if that takes 40 s.
  template <typename F>
  bool PumpUntil(F done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(40);
    while (!done()) {
      if (absl::Now() > deadline) return false;
      EXPECT_THAT(poller_.Wait(absl::Milliseconds(20)), IsOk());
      if (poller_.HasInput(zap_->socket())) {
        EXPECT_THAT(zap_->Poll(), IsOk());
      }
    }
    return true;
  }

  std::optional<std::vector<ZmqMessage>> ReceiveOne() {
    std::optional<std::vector<ZmqMessage>> received;
    PumpUntil([&] {
      auto message = pull_.Receive();
      EXPECT_THAT(message, IsOk());
      received = *std::move(message);
      return received.has_value();
    });
    return received;
  }

  // Reads events of `socket` until one of `kind`.
  std::optional<ZmqEvent> WaitForEvent(ZmqSocket& socket, ZmqEvent::Kind kind) {
    std::optional<ZmqEvent> found;
    PumpUntil([&] {
      while (true) {
        auto event = socket.NextEvent();
        EXPECT_THAT(event, IsOk());
        if (!event->has_value()) return false;
        if ((*event)->kind == kind) {
          found = **event;
          return true;
        }
      }
    });
    return found;
  }

  std::optional<ZmqContext> context_;
  std::optional<ZapServer> zap_;
  ZapRequest last_request_;
  ZmqSocket pull_;
  Poller poller_;
  std::string tcp_;
  std::string ipc_;
};

TEST_F(ZmqSocketTest, BindTellsTheEndpointThatWasBound) {
  EXPECT_THAT(tcp_, StartsWith("tcp://127.0.0.1:"));
  EXPECT_NE(tcp_, "tcp://127.0.0.1:*");
  EXPECT_THAT(ipc_, StartsWith("ipc://@millrace-test-"));
}

TEST_F(ZmqSocketTest, AMessageCarriesItsPartsAndThePrincipalOfItsSender) {
  for (const std::string& endpoint : {tcp_, ipc_}) {
    SCOPED_TRACE(endpoint);
    ZmqSocket push = NewPush(endpoint, kKey);
    auto sent = push.Send(Parts({"head", "", "body"}));
    ASSERT_THAT(sent, IsOkAndHolds(true));
    auto parts = ReceiveOne();
    ASSERT_TRUE(parts.has_value());
    ASSERT_EQ(parts->size(), 3u);
    EXPECT_EQ((*parts)[0].view(), "head");
    EXPECT_EQ((*parts)[1].view(), "");
    EXPECT_EQ((*parts)[2].view(), "body");
    for (const ZmqMessage& part : *parts) EXPECT_EQ(part.user_id(), kUser);
    EXPECT_GE((*parts)[0].source_fd(), 0);
    EXPECT_EQ(last_request_.mechanism, "PLAIN");
    EXPECT_EQ(last_request_.domain, "millrace");
  }
}

TEST_F(ZmqSocketTest, TheFdOfAMessageIsTheOneItsDisconnectionNames) {
  ZmqSocket push = NewPush(tcp_, kKey);
  ASSERT_THAT(push.Send(Parts({"x"})), IsOkAndHolds(true));
  auto parts = ReceiveOne();
  ASSERT_TRUE(parts.has_value());
  const int fd = (*parts)[0].source_fd();
  push.Close();
  auto event = WaitForEvent(pull_, ZmqEvent::Kind::kDisconnected);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->fd, fd);
}

TEST_F(ZmqSocketTest, AWrongKeyIsAnEventOfTheClient) {
  ZmqSocket push = NewPush(tcp_, "wrong");
  ASSERT_THAT(push.Send(Parts({"x"})), IsOkAndHolds(true));
  auto event = WaitForEvent(push, ZmqEvent::Kind::kHandshakeFailedAuth);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->endpoint, tcp_);
  EXPECT_FALSE((*pull_.Receive()).has_value());
}

TEST_F(ZmqSocketTest, ANullClientIsRefused) {
  ZmqSocket push = NewSocket(SocketType::kPush, SocketOptions());
  ASSERT_THAT(push.StartMonitor(), IsOk());
  ASSERT_THAT(push.Connect(tcp_), IsOk());
  EXPECT_TRUE(WaitForEvent(push, ZmqEvent::Kind::kDisconnected).has_value());
}

TEST_F(ZmqSocketTest, NobodyThereIsAnEventAndNoRetryFollows) {
  // A port that is taken, so that nobody else gets it, but does not listen.
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size_bytes = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size_bytes), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size_bytes), 0);
  ZmqSocket push = NewPush(absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port)), kKey);
  EXPECT_TRUE(WaitForEvent(push, ZmqEvent::Kind::kConnectFailed).has_value());
  ZmqSocket ipc = NewPush("ipc://@millrace-test-nobody", kKey);
  EXPECT_TRUE(WaitForEvent(ipc, ZmqEvent::Kind::kConnectFailed).has_value());
}

TEST_F(ZmqSocketTest, TheDeathOfThePeerIsAnEventAndSendsFindNoConnection) {
  ZmqSocket push = NewPush(ipc_, kKey);
  ASSERT_TRUE(WaitForEvent(push, ZmqEvent::Kind::kHandshakeSucceeded).has_value());
  poller_.Remove(pull_);
  pull_.Close();
  auto event = WaitForEvent(push, ZmqEvent::Kind::kDisconnected);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->endpoint, ipc_);
  EXPECT_TRUE(PumpUntil([&] {
    std::vector<ZmqMessage> parts = Parts({"x", "y"});
    auto sent = push.Send(std::move(parts));
    EXPECT_THAT(sent, IsOk());
    const bool refused = !*sent;
    if (refused) {
      EXPECT_EQ(parts.size(), 2u) << "a refused message stays with the caller";
    }
    return refused;
  }));
}

// As that of a feeder whose key is refused. libzmq sees it about once a millisecond, mostly between
// two parts.
TEST_F(ZmqSocketTest, AConnectionThatGoesAwayWithinAMessageTakesItAlong) {
  for (int i = 0; i < 5; ++i) {
    ZmqSocket push = NewPush(ipc_, "wrong");
    push.DetachMessagesFromThread();
    absl::StatusOr<bool> sent = true;
    std::atomic<bool> done = false;
    Thread sender("sender", [&] {
      while (sent.ok() && *sent) sent = push.Send(Parts(std::vector<std::string>(50, "part")));
      push.DetachMessagesFromThread();
      done = true;
    });
    ASSERT_TRUE(PumpUntil([&] { return done.load(); }));
    ASSERT_THAT(sent, IsOkAndHolds(false));
  }
}

TEST_F(ZmqSocketTest, AnIpcConnectionGetsALargeSendBuffer) {
  int allowed = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> allowed;
  ZmqSocket push = NewPush(ipc_, kKey);
  const std::optional<ZmqEvent> event = WaitForEvent(push, ZmqEvent::Kind::kConnected);
  ASSERT_TRUE(event.has_value());
  int bytes = 0;
  socklen_t size_bytes = sizeof(bytes);
  ASSERT_EQ(getsockopt(event->fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size_bytes), 0);
  EXPECT_EQ(bytes, 2 * std::min(ZmqSocket::kIpcSendBufferBytes, allowed));
}

TEST_F(ZmqSocketTest, AZeroCopyBufferIsLetGoOnceItWasSent) {
  std::atomic<bool> released{false};
  auto buffer = std::shared_ptr<std::vector<char>>(new std::vector<char>(1 << 20, 'z'),
                                                   [&](std::vector<char>* dead) {
                                                     delete dead;
                                                     released = true;
                                                   });
  ZmqSocket push = NewPush(tcp_, kKey);
  std::vector<ZmqMessage> parts;
  parts.push_back(ZmqMessage::FromBuffer(buffer->data(), buffer->size(), buffer));
  buffer.reset();
  ASSERT_THAT(push.Send(std::move(parts)), IsOkAndHolds(true));
  auto received = ReceiveOne();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ((*received)[0].view(), std::string(1 << 20, 'z'));
  EXPECT_TRUE(PumpUntil([&] { return released.load(); }));
}

TEST_F(ZmqSocketTest, AZeroCopyBufferOfAnUnsentMessageIsLetGo) {
  auto owner = std::make_shared<int>(7);
  {
    ZmqMessage message = ZmqMessage::FromBuffer(owner.get(), sizeof(int), owner);
    ZmqMessage moved = std::move(message);
    EXPECT_EQ(moved.size(), sizeof(int));
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(ZmqSocketTest, ABadEndpointIsInvalidArgument) {
  ZmqSocket push = NewSocket(SocketType::kPush, SocketOptions());
  EXPECT_THAT(push.Connect("no endpoint"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no endpoint")));
  EXPECT_THAT(push.Bind("udp://nowhere"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ZmqSocketTest, ATakenEndpointIsUnavailable) {
  ZmqSocket other = NewSocket(SocketType::kPull, SocketOptions());
  EXPECT_THAT(other.Bind(tcp_), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(tcp_)));
  EXPECT_THAT(ZapServer::Create(*context_, [](const ZapRequest&) { return std::nullopt; }),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ZmqSocketTest, AMessageOverTheLimitEndsTheConnection) {
  SocketOptions options = SocketOptions::PlainServer();
  options.max_message_bytes = 1000;
  ZmqSocket small = NewSocket(SocketType::kPull, options);
  auto endpoint = small.Bind("tcp://127.0.0.1:*");
  ASSERT_THAT(endpoint, IsOk());
  ZmqSocket push = NewPush(*endpoint, kKey);
  ASSERT_THAT(push.Send(Parts({std::string(1001, 'x')})), IsOkAndHolds(true));
  EXPECT_TRUE(WaitForEvent(push, ZmqEvent::Kind::kDisconnected).has_value());
  EXPECT_FALSE((*small.Receive()).has_value());
}

TEST_F(ZmqSocketTest, AWakeUpFromAnotherThreadEndsTheWait) {
  auto wake = WakeFd::Create();
  ASSERT_THAT(wake, IsOk());
  poller_.Add(*wake);
  Thread other("waker", [&] { wake->Wake(); });
  ASSERT_THAT(poller_.Wait(absl::InfiniteDuration()), IsOk());
  EXPECT_TRUE(poller_.IsWoken(*wake));
  EXPECT_FALSE(poller_.HasInput(pull_));
  wake->Clear();
  ASSERT_THAT(poller_.Wait(absl::ZeroDuration()), IsOk());
  EXPECT_FALSE(poller_.IsWoken(*wake));
}

TEST_F(ZmqSocketTest, ASocketUsedFromTwoThreadsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Thread other("intruder", [&] { (void)pull_.Receive(); });
        other.Join();
      },
      "from two threads");
}

TEST(PrincipalTest, OnlySafeCharactersArePrincipals) {
  EXPECT_TRUE(IsPrincipal("feeder/0a1b"));
  EXPECT_TRUE(IsPrincipal("node/5b0c9e1f22d3a4b6"));
  EXPECT_TRUE(IsPrincipal(std::string(64, 'x')));
  EXPECT_FALSE(IsPrincipal(std::string(65, 'x')));
  EXPECT_FALSE(IsPrincipal(""));
  EXPECT_FALSE(IsPrincipal("feeder/0a\n"));
  EXPECT_FALSE(IsPrincipal(std::string("feeder\0", 7)));
  EXPECT_FALSE(IsPrincipal("f\xc3\xa4"));
}

}  // namespace
}  // namespace millrace
