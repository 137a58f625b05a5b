#include "core/agent/link/relay_socket.h"

#include <sys/socket.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

UniqueFd Accept(const UniqueFd& listening) {
  return UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

void Write(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

TEST(RelaySocketTest, TheFirstListensAndOthersConnectUntilItIsGone) {
  const std::string name = absl::StrCat("relay-test-", RandomHex(8));
  absl::StatusOr<RelayEnds> first = ReachRelay(name);
  ASSERT_THAT(first, IsOk());
  ASSERT_TRUE(first->listening.valid());
  absl::StatusOr<RelayEnds> second = ReachRelay(name);
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE(second->listening.valid());
  for (int i = 0; i < 2; ++i) {
    const UniqueFd accepted = Accept(first->listening);
    ASSERT_TRUE(accepted.valid());
    EXPECT_TRUE(IsOwnUser(accepted.get()));
  }
  first->listening.reset();
  absl::StatusOr<RelayEnds> third = ReachRelay(name);
  ASSERT_THAT(third, IsOk());
  EXPECT_TRUE(third->listening.valid());
}

TEST(RelaySocketTest, ClustersHaveRelaysOfTheirOwn) {
  const CoordinatorEndpoint one = {.address = "h:1", .ca_pem = "c", .token = "t"};
  CoordinatorEndpoint other = one;
  EXPECT_EQ(RelayName(one), RelayName(other));
  EXPECT_THAT(RelayName(one), ::testing::MatchesRegex("millrace-relay-[0-9a-f]+"));
  other.token = "u";
  EXPECT_NE(RelayName(one), RelayName(other));
  other = one;
  other.address = "h:2";
  EXPECT_NE(RelayName(one), RelayName(other));
  other = one;
  other.ca_pem = "d";
  EXPECT_NE(RelayName(one), RelayName(other));
}

class GreetingTest : public ::testing::Test {
 protected:
  GreetingTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    agent_.reset(ends[0]);
    relay_.reset(ends[1]);
  }
  absl::StatusOr<std::string> Read(absl::Duration timeout = absl::Seconds(60)) {
    return ReadGreeting(agent_.get(), timeout, cancelled_);
  }

  UniqueFd agent_;
  UniqueFd relay_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(GreetingTest, IsOneLineAndNothingMoreIsRead) {
  Write(relay_, "10.0.0.7\nPRI");
  EXPECT_THAT(Read(), IsOkAndHolds("10.0.0.7"));
  char rest[8] = {};
  EXPECT_EQ(recv(agent_.get(), rest, sizeof(rest), MSG_DONTWAIT), 3);
}

TEST_F(GreetingTest, SomethingElseIsNoRelay) {
  Write(relay_, std::string(kMaxGreetingBytes + 1, 'x'));
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is none")));
}

TEST_F(GreetingTest, ARelayThatEndsOrIsSilentIsNone) {
  EXPECT_THAT(Read(absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Write(relay_, "10.0");
  relay_.reset();
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable));
  cancelled_ = true;
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace millrace
