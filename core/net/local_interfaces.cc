#include "core/net/local_interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

struct Address {
  int family = 0;
  uint8_t bytes[16] = {};
  int bits() const { return family == AF_INET ? 32 : 128; }
};

std::optional<Address> ParseAddress(const std::string& text) {
  Address address;
  for (const int family : {AF_INET, AF_INET6}) {
    address.family = family;
    if (inet_pton(family, text.c_str(), address.bytes) == 1) return address;
  }
  return std::nullopt;
}

struct Network {
  Address address;
  int prefix_bits = 0;

  bool Holds(const Address& other) const {
    if (other.family != address.family) return false;
    for (int bit = 0; bit < prefix_bits; ++bit) {
      const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
      if ((address.bytes[bit / 8] & mask) != (other.bytes[bit / 8] & mask)) return false;
    }
    return true;
  }
};

absl::StatusOr<Network> ParseNetwork(absl::string_view text) {
  const size_t slash = text.find('/');
  Network network;
  const std::optional<Address> address = ParseAddress(std::string(text.substr(0, slash)));
  if (!address.has_value() || !absl::SimpleAtoi(text.substr(slash + 1), &network.prefix_bits) ||
      network.prefix_bits < 0 || network.prefix_bits > address->bits()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Ellipsize(EscapeControls(text), 100),
                     "\" is no network: write \"10.0.0.0/8\" or \"fd00::/8\""));
  }
  network.address = *address;
  return network;
}

// "eth0", "enp3s0", "ib1": a host name of that shape is less likely than a slip.
bool LooksLikeInterface(absl::string_view text) {
  if (text.empty() || text.size() > 15 || absl::StrContains(text, ".") ||
      !absl::ascii_isdigit(static_cast<unsigned char>(text.back()))) {
    return text == "lo";
  }
  for (const absl::string_view prefix :
       {"eth", "enp", "eno", "ens", "enx", "ib", "bond", "br", "docker", "veth", "wlan", "wlp"}) {
    if (absl::StartsWith(text, prefix) &&
        absl::ascii_isdigit(static_cast<unsigned char>(text[prefix.size()]))) {
      return true;
    }
  }
  return false;
}

std::string List(const std::vector<LocalInterface>& interfaces) {
  if (interfaces.empty()) return "none that the system tells";
  return absl::StrJoin(interfaces, ", ", [](std::string* out, const LocalInterface& interface) {
    absl::StrAppend(out, interface.address, " (", interface.name, ")");
  });
}

}  // namespace

std::vector<LocalInterface> ListLocalInterfaces() {
  std::vector<LocalInterface> interfaces;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return interfaces;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family ||
          (at->ifa_flags & IFF_UP) == 0) {
        continue;
      }
      const void* bytes = &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
      if (family == AF_INET6) {
        const auto* v6 = &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(v6)) continue;
        bytes = v6;
      }
      char text[INET6_ADDRSTRLEN] = {};
      if (inet_ntop(family, bytes, text, sizeof(text)) != nullptr) {
        interfaces.push_back({at->ifa_name, text});
      }
    }
  }
  freeifaddrs(first);
  return interfaces;
}

absl::Status CheckAdvertisedHost(absl::string_view text) {
  if (absl::StrContains(text, "/")) return ParseNetwork(text).status();
  const absl::StatusOr<HostPort> parsed = ParseHostPort(FormatHostPort(text, 1));
  if (parsed.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "must be a host name, an address without a port, an interface or a network (10.0.0.0/8): ",
      parsed.status().message()));
}

namespace local_interfaces_internal {

absl::StatusOr<std::string> Resolve(absl::string_view text,
                                    const std::vector<LocalInterface>& interfaces) {
  MILLRACE_RETURN_IF_ERROR(CheckAdvertisedHost(text));
  if (absl::StrContains(text, "/")) {
    MILLRACE_ASSIGN_OR_RETURN(const Network network, ParseNetwork(text));
    for (const LocalInterface& interface : interfaces) {
      const std::optional<Address> address = ParseAddress(interface.address);
      if (address.has_value() && network.Holds(*address)) return interface.address;
    }
    return absl::NotFoundError(absl::StrCat("host ", LocalHostname(), " has no address in ", text,
                                            "; it has ", List(interfaces)));
  }
  for (const LocalInterface& interface : interfaces) {
    if (interface.name == text) return interface.address;
  }
  if (LooksLikeInterface(text)) {
    return absl::NotFoundError(absl::StrCat("host ", LocalHostname(), " has no interface \"", text,
                                            "\" with an address; it has ", List(interfaces)));
  }
  return std::string(text);
}

}  // namespace local_interfaces_internal

absl::StatusOr<std::string> ResolveAdvertisedHost(absl::string_view text) {
  return local_interfaces_internal::Resolve(text, ListLocalInterfaces());
}

}  // namespace millrace
