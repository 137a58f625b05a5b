#include "core/agent/node/port_reservation.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket bound to the port as a gRPC server does it; invalid if that fails.
UniqueFd BindAs(uint16_t port, bool reuse_port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (reuse_port) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  const sockaddr_in address = Loopback(port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

bool Connects(uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

TEST(PortReservationTest, ReservedPortDoesNotListenButCanBeListenedOn) {
  auto port = PortReservation::Bind("127.0.0.1", {});
  ASSERT_THAT(port, IsOk());
  EXPECT_FALSE(Connects(port->port()));
  // A program that binds the same port while it is held.
  const UniqueFd server = BindAs(port->port(), /*reuse_port=*/true);
  ASSERT_TRUE(server.valid());
  ASSERT_EQ(listen(server.get(), 64), 0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Connects(port->port()));
}

TEST(PortReservationTest, HeldSocketItselfCanListen) {
  auto port = PortReservation::Bind("0.0.0.0", {});
  ASSERT_THAT(port, IsOk());
  ASSERT_EQ(listen(port->fd(), 16), 0);
  EXPECT_TRUE(Connects(port->port()));
}

TEST(PortReservationTest, ProgramWithoutReusePortCannotBindUntilRelease) {
  auto port = PortReservation::Bind("127.0.0.1", {});
  ASSERT_THAT(port, IsOk());
  EXPECT_FALSE(BindAs(port->port(), /*reuse_port=*/false).valid());
  port->Release();
  EXPECT_FALSE(port->held());
  EXPECT_TRUE(BindAs(port->port(), /*reuse_port=*/false).valid());
}

TEST(PortReservationTest, TwoReservationsNeverShareAPort) {
  const auto first = PortReservation::Bind("127.0.0.1", {});
  ASSERT_THAT(first, IsOk());
  const PortRange range{first->port(), first->port()};
  EXPECT_THAT(PortReservation::Bind("127.0.0.1", range),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("port_range")));
  std::vector<PortReservation> many;
  std::set<uint16_t> ports;
  for (int i = 0; i < 100; ++i) {
    auto next = PortReservation::Bind("127.0.0.1", {});
    ASSERT_THAT(next, IsOk());
    EXPECT_TRUE(ports.insert(next->port()).second);
    many.push_back(*std::move(next));
  }
}

TEST(PortReservationTest, AddressesThatCannotBeBoundAreTypedErrors) {
  EXPECT_THAT(PortReservation::Bind("localhost", {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PortReservation::Bind("192.0.2.1", {}), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace millrace
