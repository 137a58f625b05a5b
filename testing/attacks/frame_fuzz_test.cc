// Peers that say anything, before and after a handshake, to the sockets of a node and of a feeder.
// Both go on, and serve who means well.

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "testing/attacks/raw_peer.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace::attacks {
namespace {

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int kStrangers = 500;  // at each endpoint
constexpr int kLoggedIn = 200;

class FrameFuzzTest : public ::testing::Test {
 protected:
  int Below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  std::string Noise(int size) {
    std::string noise(static_cast<size_t>(size), '\0');
    for (char& byte : noise) byte = static_cast<char>(Below(256));
    return noise;
  }

  // A few frames, right in their form more often than not.
  std::string Frames() {
    static constexpr absl::string_view kBeginnings[] = {
        "",          "\x05HELLO", "\x07WELCOME", "\x08INITIATE",  "\x05READY",
        "\x05ERROR", "\x04PING",  "\x04PONG",    "\x09SUBSCRIBE", "\x07MESSAGE"};
    std::string frames;
    for (int i = Below(6); i >= 0; --i) {
      const std::string body =
          absl::StrCat(kBeginnings[Below(10)], Noise(Below(4) == 0 ? 0 : Below(200)));
      std::string frame = CommandFrame(body);
      const int form = Below(8);
      if (form == 0) {  // a length that is not that
        frame = absl::StrCat(std::string(1, static_cast<char>(2 | Below(8))), Noise(8));
      } else if (form == 1) {  // flags that there are not
        frame[0] = static_cast<char>(Below(256) & ~2);
      } else if (form == 2) {
        frame[0] = static_cast<char>(Below(2));
      }
      frames += frame;
    }
    return frames;
  }

  // Says it and goes, by a reset as often as not. The other side may have gone before.
  void SayAndGo(UniqueFd fd, const std::string& what) {
    static_cast<void>(send(fd.get(), what.data(), what.size(), MSG_NOSIGNAL));
    const linger reset{.l_onoff = Below(2), .l_linger = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }

  void Strangers(const std::string& endpoint) {
    static constexpr absl::string_view kMechanisms[] = {"PLAIN", "CURVE", "NULL", "GSSAPI", ""};
    for (int i = 0; i < kStrangers; ++i) {
      std::string greeting = Greeting(kMechanisms[Below(5)], Below(2) == 0);
      if (Below(8) == 0) greeting[Below(64)] = static_cast<char>(Below(256));
      SayAndGo(ConnectTo(endpoint), greeting + Frames());
    }
  }

  // Logs in to a PULL.
  UniqueFd LogIn(const std::string& endpoint, const std::string& user,
                 const std::string& password) {
    UniqueFd fd = ConnectTo(endpoint);
    Say(fd.get(), Greeting("PLAIN", /*as_server=*/false));
    Hear(fd.get(), 64);
    Say(fd.get(), CommandFrame(absl::StrCat("\x05HELLO", std::string(1, char(user.size())), user,
                                            std::string(1, char(password.size())), password)));
    EXPECT_EQ(HearFrame(fd.get()), "\x07WELCOME");
    Say(fd.get(),
        CommandFrame(absl::string_view("\x08INITIATE\x0bSocket-Type\x00\x00\x00\x04PUSH", 29)));
    EXPECT_EQ(HearFrame(fd.get()).substr(0, 6), "\x05READY");
    return fd;
  }

  static void ExpectFeeds(FeedReceiver* node, Feeder* feeder) {
    const FeedEndpoints& endpoints = node->endpoints();
    auto feed = node->GetDataFeed({.train_mode = true});
    ASSERT_THAT(feed, IsOk());
    auto session = feeder->OpenSession(
        {.node = "worker:0", .nonce = kNonce, .tcp_endpoint = endpoints.tcp, .key = endpoints.key},
        {.feed_id = "f1", .feed_timeout = kPatience});
    ASSERT_THAT(session, IsOk());
    ASSERT_THAT((*session)->Send(LedgerRows(0, 0, 0, 10)), IsOk());
    const auto rows = (*feed)->NextBatch(10);
    ASSERT_THAT(rows, IsOk());
    EXPECT_EQ(rows->num_rows(), 10);
  }

  // The same at each run; others with --gtest_shuffle --gtest_random_seed=N.
  std::mt19937 random_{static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed())};
};

TEST_F(FrameFuzzTest, ANodeGoesOn) {
  auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
  ASSERT_THAT(node, IsOk());
  const FeedEndpoints& endpoints = (*node)->endpoints();
  Strangers(endpoints.tcp);
  Strangers(endpoints.ipc);
  Strangers(endpoints.curve);
  for (int i = 0; i < kLoggedIn; ++i) {
    const std::string user = absl::StrCat("feeder/", absl::Hex(0x1000 + i));
    SayAndGo(LogIn(endpoints.tcp, user, FeederPassword(endpoints.key, user, 1)), Frames());
  }
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  ExpectFeeds(node->get(), feeder->get());
}

// A node plays the server of the feeder's PUSH, and then a client of the feeder's PULL.
TEST_F(FrameFuzzTest, AFeederGoesOn) {
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  std::string reply_endpoint;
  for (int i = 0; i < kLoggedIn; ++i) {
    const LoopbackListener listener;
    const std::string nonce = absl::StrCat(absl::Hex(0x1000 + i));
    auto session = (*feeder)->OpenSession(
        {.node = "worker:0", .nonce = nonce, .tcp_endpoint = listener.endpoint(), .key = "0123"},
        {.feed_id = "f1", .feed_timeout = kPatience});
    ASSERT_THAT(session, IsOk());
    UniqueFd push = listener.Accept();
    ServePlainHandshake(push.get());
    char flags = 4;
    while (flags != 1) HearFrame(push.get(), &flags);  // heartbeats, and the header of OPEN
    const auto open = DecodeOpen(HearFrame(push.get()));
    ASSERT_THAT(open, IsOk());
    reply_endpoint = open->reply.endpoint;
    const std::string user = absl::StrCat("node/", nonce);
    UniqueFd reply =
        LogIn(reply_endpoint, user,
              NodePassword("0123", open->reply.challenge, (*feeder)->principal(), user));
    SayAndGo(std::move(push), Frames());
    SayAndGo(std::move(reply), Frames());
  }
  Strangers(reply_endpoint);
  auto node = FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce});
  ASSERT_THAT(node, IsOk());
  ExpectFeeds(node->get(), feeder->get());
}

}  // namespace
}  // namespace millrace::attacks
