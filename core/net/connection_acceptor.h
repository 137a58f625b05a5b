// File: core/net/connection_acceptor.h
//
// A listening TCP socket for a TLS server: it takes connections, and hands on those whose peer has
// begun a TLS handshake. A peer that connects and sends nothing, or makes no call that is admitted,
// takes up little, is dropped soon, and cannot use up the process's descriptors.
//
// Defines: ConnectionAcceptor.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto acceptor, ConnectionAcceptor::Listen({.address = address}));
//   acceptor->Start([&](int listener_fd, UniqueFd fd) {
//     server.Take(listener_fd, std::move(fd));
//   });
//   ...
//   acceptor->Admitted(context.peer());   // by the server: this connection's peer is one of ours
//
// A connection goes through three states:
//   silent       accepted; nothing has come from its peer. The oldest goes where room is needed.
//   ready        the first byte of a TLS handshake is there. In order, as handshakes are free.
//   handshaking  handed on, no call admitted yet. One that has stood still for `stall_timeout`
//                while others wait is shut down, and any after `admission_timeout`.
// Once Admitted() it is no more of the acceptor's business.

#ifndef CORE_NET_CONNECTION_ACCEPTOR_H_
#define CORE_NET_CONNECTION_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/unique_fd.h"
#include "core/net/socket_address.h"

namespace millrace {

// Ownership: owns the socket and the connections that are not handed on. Thread safety:
// thread-safe, but for Start(), which comes once. Threads: one. Blocking: Stop() and the destructor
// wait for it.
class ConnectionAcceptor {
 public:
  struct Options {
    // A numeric address of this host, or "localhost". "0.0.0.0" and "::" are both families, where
    // the host has both.
    HostPort address;
    std::string thread_name = "accept";
    // 0: an eighth of the limit of descriptors, from 8 to 1,024.
    int max_handshakes = 0;
    // Silent and ready ones. 0: a quarter of the limit of descriptors, 16 at least. One host may
    // have half of them (and of the handshakes), except for this one.
    int max_waiting = 0;
    absl::Duration silence_timeout = absl::Seconds(10);
    absl::Duration stall_timeout = absl::Seconds(5);
    absl::Duration admission_timeout = absl::Seconds(60);
  };

  // Takes a connection; `listener_fd` is the socket that it came by. On the acceptor's thread, and
  // must not block.
  using Handler = std::function<void(int listener_fd, UniqueFd fd)>;

  // Binds and listens; connections wait for Start(). Returns UNAVAILABLE, naming the address, if it
  // cannot be had, INVALID_ARGUMENT if it is no numeric one, RESOURCE_EXHAUSTED without a
  // descriptor.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(
      const Options& options);
  virtual ~ConnectionAcceptor() = default;

  [[nodiscard]] virtual int port() const = 0;

  virtual void Start(Handler handler) = 0;

  // A call over the connection from `peer` was admitted. `peer` is as gRPC writes it:
  // "ipv4:1.2.3.4:5" or "ipv6:%5Bfd00::1%5D:5". One that is not known is ignored.
  virtual void Admitted(absl::string_view peer) = 0;

  // OK, or RESOURCE_EXHAUSTED, saying how many connections were turned away for want of
  // descriptors, and what to do.
  [[nodiscard]] virtual absl::Status Shortage() const = 0;

  // Closes the socket and what waits; nothing is handed on afterwards. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace millrace

#endif  // CORE_NET_CONNECTION_ACCEPTOR_H_
