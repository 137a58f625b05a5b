// File: feed/wire/curve.h
//
// The keys of CURVE (docs/feed_protocol.md, section 8) and the addresses of its sockets, which
// peers on other hosts reach.
//
// Defines: CurveKeys, MakeCurveKeys(), DecodeCurveKey(), BindTcp(), BindHostFor(), TcpEndpoint(),
// LocalAddressOf().
//
//   MILLRACE_ASSIGN_OR_RETURN(const CurveKeys keys, MakeCurveKeys());
//   auto pull = ZmqSocket::Create(context, SocketType::kPull, SocketOptions::CurveServer(keys));
//   MILLRACE_ASSIGN_OR_RETURN(const int port, BindTcp(&*pull, BindHostFor("10.0.0.7"), {}));
//
// A process has one pair: its public key names its servers and, as a client, itself.

#ifndef FEED_WIRE_CURVE_H_
#define FEED_WIRE_CURVE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/net/port_range.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// A fresh pair. Returns UNAVAILABLE if this libzmq is built without CURVE. Thread safety:
// thread-safe.
[[nodiscard]] absl::StatusOr<CurveKeys> MakeCurveKeys();

// The 32 bytes of a key in Z85, as ZapRequest::curve_key has them. Returns INVALID_ARGUMENT,
// without the text, for anything but 40 characters of Z85. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<std::string> DecodeCurveKey(absl::string_view z85);

// Binds `socket` to a port of the range ({0, 0}: any) on `host`, a numeric address, and returns the
// port. The range is tried from a random place, so that nodes of one host which start together do
// not all try the same ports. Returns RESOURCE_EXHAUSTED, naming who listens there, if all of them
// are taken; otherwise as ZmqSocket::Bind().
[[nodiscard]] absl::StatusOr<int> BindTcp(ZmqSocket* socket, const std::string& host,
                                          PortRange range);

// Where to listen so that peers reach `advertised`: the address itself if this host has it, every
// interface if it is a name or an address in front of this host (NAT, a load balancer).
[[nodiscard]] std::string BindHostFor(const std::string& advertised);

// "tcp://10.0.0.7:4711", "tcp://[::1]:4711".
[[nodiscard]] std::string TcpEndpoint(absl::string_view host, int port);

// The address of this host that a TCP connection goes out from, numeric. Returns UNAVAILABLE if the
// descriptor is (by now) none of TCP.
[[nodiscard]] absl::StatusOr<std::string> LocalAddressOf(int fd);

}  // namespace millrace

#endif  // FEED_WIRE_CURVE_H_
