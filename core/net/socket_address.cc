#include "core/net/socket_address.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxHostBytes = 253;  // DNS

absl::Status Invalid(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", Ellipsize(EscapeControls(text), 300),
                                                 "\" is no host:port address: ", why));
}

bool IsHostName(absl::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

bool IsIpv6(absl::string_view host) {
  const size_t percent = host.find('%');
  if (percent != absl::string_view::npos) {
    const absl::string_view zone = host.substr(percent + 1);
    if (zone.empty() || !IsHostName(zone)) return false;
  }
  in6_addr unused;
  return host.find('\0') == absl::string_view::npos &&
         inet_pton(AF_INET6, std::string(host.substr(0, percent)).c_str(), &unused) == 1;
}

// Digits only: no sign, no white space, which the usual parsers accept.
bool ParsePort(absl::string_view text, uint16_t* port) {
  if (text.empty() || text.size() > 5) return false;
  uint32_t value = 0;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  if (value > 65535) return false;
  *port = static_cast<uint16_t>(value);
  return true;
}

}  // namespace

std::string HostPort::ToString() const { return FormatHostPort(host, port); }

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort address;
  absl::string_view port;
  if (absl::StartsWith(text, "[")) {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) return Invalid(text, "\"]\" is missing");
    const absl::string_view host = text.substr(1, close - 1);
    if (!IsIpv6(host)) return Invalid(text, "the brackets hold no IPv6 address");
    if (!absl::StartsWith(text.substr(close + 1), ":")) return Invalid(text, "the port is missing");
    address.host = std::string(host);
    port = text.substr(close + 2);
  } else {
    const size_t colon = text.find(':');
    if (colon == absl::string_view::npos) return Invalid(text, "the port is missing");
    if (text.rfind(':') != colon) {
      return Invalid(text, "more than one colon; write an IPv6 address in brackets, \"[::1]:80\"");
    }
    const absl::string_view host = text.substr(0, colon);
    if (host.empty()) return Invalid(text, "the host is missing");
    if (host.size() > kMaxHostBytes) return Invalid(text, "the host has more than 253 bytes");
    if (!IsHostName(host)) return Invalid(text, "the host has a character that no host name has");
    address.host = std::string(host);
    port = text.substr(colon + 1);
  }
  if (!ParsePort(port, &address.port)) return Invalid(text, "the port is no number in 0..65535");
  return address;
}

std::string FormatHostPort(absl::string_view host, int port) {
  if (absl::StrContains(host, ":") && !absl::StartsWith(host, "[")) {
    return absl::StrCat("[", host, "]:", port);
  }
  return absl::StrCat(host, ":", port);
}

std::string LocalHostname() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace millrace
