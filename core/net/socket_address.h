// File: core/net/socket_address.h
//
// "host:port" as text, with brackets around IPv6. No name is looked up here.
//
// Defines: HostPort, ParseHostPort(), FormatHostPort(), LocalHostname().
//
//   MILLRACE_ASSIGN_OR_RETURN(HostPort address, ParseHostPort("[::1]:80"));
//   // address.host == "::1", address.port == 80, address.ToString() == "[::1]:80"
//
// Thread safety: pure functions, except that LocalHostname() asks the kernel.

#ifndef CORE_NET_SOCKET_ADDRESS_H_
#define CORE_NET_SOCKET_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct HostPort {
  std::string host;   // a name, an IPv4 address, or an IPv6 address without brackets
  uint16_t port = 0;  // 0 means "any", for listening

  [[nodiscard]] std::string ToString() const;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Parses "name:port", "1.2.3.4:port" or "[ipv6]:port" (a "%zone" is allowed inside the brackets).
// Returns INVALID_ARGUMENT, quoting the text, if the host is empty or has characters that no host
// name has, an IPv6 address lacks its brackets or is none, or the port is no number in 0..65535.
[[nodiscard]] absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// Puts brackets around a host with a colon that has none yet. Checks nothing.
[[nodiscard]] std::string FormatHostPort(absl::string_view host, int port);

// This host's name as gethostname(2) gives it; "localhost" if it gives none.
[[nodiscard]] std::string LocalHostname();

}  // namespace millrace

#endif  // CORE_NET_SOCKET_ADDRESS_H_
