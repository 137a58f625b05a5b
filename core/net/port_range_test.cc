#include "core/net/port_range.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(PortRangeTest, IsTwoPortsOrOne) {
  EXPECT_THAT(ParsePortRange("9000-9100"), IsOkAndHolds(PortRange{9000, 9100}));
  EXPECT_THAT(ParsePortRange("9000"), IsOkAndHolds(PortRange{9000, 9000}));
  for (const char* text : {"", "0", "9100-9000", "9000-", "-9000", "1-65536", "a", "1-2-3", " 1"}) {
    EXPECT_THAT(ParsePortRange(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(PortRangeTest, KnowsWhoListens) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), any, size), 0);
  ASSERT_EQ(getsockname(listener.get(), any, &size), 0);
  const uint16_t port = ntohs(address.sin_port);
  EXPECT_EQ(PortHolders({port, port}), "no listener");  // only bound
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const std::string holders = PortHolders({port, port});
  EXPECT_THAT(holders, HasSubstr(absl::StrCat(port, " by ")));
  EXPECT_THAT(holders, HasSubstr(absl::StrCat("(pid ", getpid(), ")")));
  EXPECT_THAT(FindFreePort("127.0.0.1", {port, port}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("every port from ", port, " to ", port))));
}

TEST(PortRangeTest, AFreePortIsOfTheRange) {
  const absl::StatusOr<int> port = FindFreePort("127.0.0.1", {20000, 29999});
  ASSERT_THAT(port, IsOk());
  EXPECT_GE(*port, 20000);
  EXPECT_LE(*port, 29999);
  EXPECT_THAT(FindFreePort("localhost", {1, 2}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FindFreePort("203.0.113.1", {20000, 20000}),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace millrace
