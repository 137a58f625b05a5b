// File: core/net/local_interfaces.h
//
// The addresses of this host, and the choice of one by an interface or a network.
//
// Defines: LocalInterface, ListLocalInterfaces(), ResolveAdvertisedHost().
//
//   MILLRACE_ASSIGN_OR_RETURN(const std::string host, ResolveAdvertisedHost("10.0.0.0/8"));

#ifndef CORE_NET_LOCAL_INTERFACES_H_
#define CORE_NET_LOCAL_INTERFACES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct LocalInterface {
  std::string name;     // "eth0"; once for each address
  std::string address;  // numeric
};

// Interfaces that are up, IPv4 addresses first; without IPv6 link-local ones, which mean nothing to
// others. Empty if the system does not tell.
// Thread safety: thread-safe. Blocking: never (netlink).
[[nodiscard]] std::vector<LocalInterface> ListLocalInterfaces();

// Whether `text` may be given where a host to advertise is: a host name, an address without a port,
// the name of an interface, or a network ("10.0.0.0/8", "fd00::/8"). Returns INVALID_ARGUMENT,
// quoting it. Thread safety: pure function.
[[nodiscard]] absl::Status CheckAdvertisedHost(absl::string_view text);

// The host that `text` means on this host: the first address of the interface of that name, or the
// first one within the network; host names and addresses are returned as they are. Returns
// NOT_FOUND, listing the addresses there are, if no address is within the network, or if `text`
// looks like the name of an interface that this host does not have ("eth7"); INVALID_ARGUMENT as
// above. Thread safety: thread-safe. Blocking: never.
[[nodiscard]] absl::StatusOr<std::string> ResolveAdvertisedHost(absl::string_view text);

namespace local_interfaces_internal {
// Exposed for the test.
[[nodiscard]] absl::StatusOr<std::string> Resolve(absl::string_view text,
                                                  const std::vector<LocalInterface>& interfaces);
}  // namespace local_interfaces_internal

}  // namespace millrace

#endif  // CORE_NET_LOCAL_INTERFACES_H_
