// File: core/net/port_range.h
//
// A range of TCP ports that a listener may take, and who holds the ports of a range that is full.
//
// Defines: PortRange, ParsePortRange(), FindFreePort(), PortHolders().
//
//   MILLRACE_ASSIGN_OR_RETURN(const PortRange range, ParsePortRange("9000-9100"));

#ifndef CORE_NET_PORT_RANGE_H_
#define CORE_NET_PORT_RANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Ports first..last, both included. {0, 0} is any port the system has.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// "9000-9100" or "9000". Returns INVALID_ARGUMENT, quoting the text, for anything else, port 0 and
// a range that runs backwards. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<PortRange> ParsePortRange(absl::string_view text);

// A port of the range on which `address` (numeric; "0.0.0.0" and "::" are every interface) can be
// listened now; somebody else may be quicker. Returns RESOURCE_EXHAUSTED, naming the range and who
// listens there, if all are taken; INVALID_ARGUMENT if `address` is not numeric; PERMISSION_DENIED
// for privileged ports; UNAVAILABLE if this host does not have the address. Thread safety:
// thread-safe.
[[nodiscard]] absl::StatusOr<int> FindFreePort(const std::string& address, PortRange range);

// For an error text: who listens on ports of the range on this host, as far as this user may see
// ("9000 by python3 (pid 12), 9001 by a process of another user"), at most eight of them. Ports
// that are only bound, as agents reserve them, show nowhere: "no listener". Thread safety:
// thread-safe. Blocking: procfs.
[[nodiscard]] std::string PortHolders(PortRange range);

}  // namespace millrace

#endif  // CORE_NET_PORT_RANGE_H_
