#include "core/net/port_range.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace millrace {
namespace {

constexpr size_t kMaxHolders = 8;

// Inode to port of the listening sockets of the range.
void AddListeners(const char* table, PortRange range, std::map<std::string, int>* listeners) {
  const absl::StatusOr<std::string> text = ReadFile(table);
  if (!text.ok()) return;
  for (const absl::string_view row : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> columns = absl::StrSplit(row, ' ', absl::SkipEmpty());
    if (columns.size() < 10 || columns[3] != "0A") continue;  // TCP_LISTEN
    const std::vector<absl::string_view> local = absl::StrSplit(columns[1], ':');
    int port = 0;
    if (!absl::SimpleHexAtoi(local.back(), &port)) continue;
    if (port >= range.first && port <= range.last) (*listeners)[std::string(columns[9])] = port;
  }
}

// The process that has each socket open, among those that this user may inspect.
std::map<std::string, std::string> Owners(const std::map<std::string, int>& listeners) {
  std::map<std::string, std::string> owners;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code unreadable;
    for (const auto& entry :
         std::filesystem::directory_iterator(process.path() / "fd", unreadable)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      absl::string_view inode = target;
      if (gone || !absl::ConsumePrefix(&inode, "socket:[") || !absl::ConsumeSuffix(&inode, "]")) {
        continue;
      }
      const std::string key(inode);
      if (!listeners.contains(key) || owners.contains(key)) continue;
      const absl::StatusOr<std::string> name = ReadFile((process.path() / "comm").string());
      owners[key] = absl::StrCat(name.ok() ? EscapeControls(FirstLine(*name)) : "a process",
                                 " (pid ", pid, ")");
    }
  }
  return owners;
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('-', 1));
  uint32_t bounds[2] = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const absl::string_view part = parts[i < parts.size() ? i : 0];
    const bool digits = !part.empty() && part.size() <= 5 &&
                        part.find_first_not_of("0123456789") == absl::string_view::npos;
    if (!digits || !absl::SimpleAtoi(part, &bounds[i]) || bounds[i] < 1 || bounds[i] > 65535) {
      bounds[0] = 0;
      break;
    }
  }
  if (bounds[0] == 0 || bounds[0] > bounds[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Ellipsize(EscapeControls(text), 64),
                     "\" is no port range: write \"9000-9100\" with ports from 1 to 65535"));
  }
  return PortRange{static_cast<uint16_t>(bounds[0]), static_cast<uint16_t>(bounds[1])};
}

absl::StatusOr<int> FindFreePort(const std::string& address, PortRange range) {
  sockaddr_storage storage = {};
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("\"", Ellipsize(EscapeControls(address), 64),
                                                   "\" is no numeric address to listen on"));
  }
  const bool ipv6 = storage.ss_family == AF_INET6;
  const uint32_t count = static_cast<uint32_t>(range.last) - range.first + 1;
  // From a random place, so that those who start together do not all try the same ports.
  const auto start = static_cast<uint32_t>(RandomU64() % count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (start + i) % count);
    (ipv6 ? v6->sin6_port : v4->sin_port) = htons(port);
    const UniqueFd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // As a server does, or ports with old connections in TIME_WAIT would count as taken.
    const int on = 1;
    if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
      return absl::ErrnoToStatus(errno, "cannot look for a free port");
    }
    const socklen_t size = ipv6 ? sizeof(*v6) : sizeof(*v4);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) == 0 &&
        listen(fd.get(), 1) == 0) {
      return port;
    }
    if (errno == EADDRINUSE) continue;
    if (errno == EADDRNOTAVAIL) {
      return absl::UnavailableError(absl::StrCat("this host does not have the address ", address));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", address, " port ", port));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("every port from ", range.first, " to ", range.last, " on ", address,
                   " is taken (listening: ", PortHolders(range), "); give a wider port_range"));
}

std::string PortHolders(PortRange range) {
  std::map<std::string, int> listeners;
  AddListeners("/proc/net/tcp", range, &listeners);
  AddListeners("/proc/net/tcp6", range, &listeners);
  if (listeners.empty()) return "no listener";
  const std::map<std::string, std::string> owners = Owners(listeners);
  std::map<int, std::string> by_port;
  for (const auto& [inode, port] : listeners) {
    const auto owner = owners.find(inode);
    by_port[port] = absl::StrCat(
        port, " by ", owner == owners.end() ? "a process of another user" : owner->second);
  }
  std::vector<std::string> texts;
  for (const auto& [port, text] : by_port) {
    if (texts.size() == kMaxHolders) {
      texts.push_back("...");
      break;
    }
    texts.push_back(text);
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace millrace
