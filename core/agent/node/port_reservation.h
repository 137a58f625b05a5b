// File: core/agent/node/port_reservation.h
//
// A TCP port that is this node's from before it registers until it is used or released: bound, not
// listening, with SO_REUSEPORT, so that the node's program may bind the same port while it is held.
//
// Defines: PortReservation.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto port, PortReservation::Bind("0.0.0.0", {9000, 9100}));
//   Register(port.port());
//   Inherit(port.fd());   // close-on-exec: whoever passes it on clears that in the child
//
// Why not listening: connections that arrive at a port with two listening sockets are dealt between
// them, and those dealt to the holder would hang. A socket that is only bound gets none.

#ifndef CORE_AGENT_NODE_PORT_RESERVATION_H_
#define CORE_AGENT_NODE_PORT_RESERVATION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"
#include "core/net/port_range.h"

namespace millrace {

// Holds the port until Release() or destruction. Movable.
// Thread safety: not thread-safe. Blocking: never.
class [[nodiscard]] PortReservation {
 public:
  // Holds nothing.
  PortReservation() = default;

  // Binds a free port of `range` on `address`, a numeric IPv4 or IPv6 address ("0.0.0.0" and "::"
  // are every interface). No other reservation, of this or another process, gets the same port,
  // although both set SO_REUSEPORT.
  //
  // Returns INVALID_ARGUMENT if `address` is not numeric, RESOURCE_EXHAUSTED if every port of the
  // range is taken, UNAVAILABLE if this host does not have the address, PERMISSION_DENIED for
  // privileged ports.
  [[nodiscard]] static absl::StatusOr<PortReservation> Bind(const std::string& address,
                                                            PortRange range);

  [[nodiscard]] bool held() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // 0 if nothing was ever bound; stays after Release().
  [[nodiscard]] uint16_t port() const { return port_; }

  // A program listens, or listened, on the held socket: connections to it may wait for nobody.
  [[nodiscard]] bool listening() const;

  // Closes the agent's copy. Idempotent.
  void Release() { fd_.reset(); }

 private:
  PortReservation(UniqueFd fd, uint16_t port) : fd_(std::move(fd)), port_(port) {}

  UniqueFd fd_;
  uint16_t port_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_PORT_RESERVATION_H_
