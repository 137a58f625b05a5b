#include "testing/process_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"

namespace millrace {
namespace {

constexpr absl::string_view kListening = "0A";  // TCP_LISTEN in /proc/net/tcp

std::string ProcFile(pid_t pid, absl::string_view name) {
  return ReadFile(absl::StrCat("/proc/", pid, "/", name)).value_or("");
}

std::string CommandOf(pid_t pid, absl::string_view name) {
  std::string command = ProcFile(pid, "cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  return command.empty() ? absl::StrCat("[", name, "]") : command;
}

std::vector<pid_t> AllPids() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid)) pids.push_back(pid);
  }
  return pids;
}

bool HasEnvironmentEntry(pid_t pid, absl::string_view entry) {
  const std::string environment = ProcFile(pid, "environ");
  for (const absl::string_view each : absl::StrSplit(environment, '\0')) {
    if (each == entry) return true;
  }
  return false;
}

// "0100007F:1F90" (IPv4) or 32 digits (IPv6): each group of 8 is a word in this host's byte order.
bool ParseHexAddress(absl::string_view text, std::string* address, int* port) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, ':');
  uint32_t port_number = 0;
  if (!absl::SimpleHexAtoi(parts.second, &port_number) || parts.first.size() % 8 != 0) return false;
  uint32_t words[4] = {};
  const size_t count = parts.first.size() / 8;
  if (count != 1 && count != 4) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(parts.first.substr(8 * i, 8), &words[i])) return false;
  }
  char host[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(count == 1 ? AF_INET : AF_INET6, words, host, sizeof(host));
  *port = static_cast<int>(port_number);
  *address = count == 1 ? absl::StrCat(host, ":", *port) : absl::StrCat("[", host, "]:", *port);
  return true;
}

// Listening sockets by inode. The tables are those of `pid`'s network namespace.
void ReadTcpTable(absl::string_view table, std::map<uint64_t, BoundSocket>* sockets) {
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    BoundSocket socket;
    if (fields.size() < 10 || fields[3] != kListening ||
        !absl::SimpleAtoi(fields[9], &socket.inode) ||
        !ParseHexAddress(fields[1], &socket.address, &socket.port)) {
      continue;
    }
    sockets->insert_or_assign(socket.inode, socket);
  }
}

// Rows: num refcount protocol flags type state inode path; "@" begins an abstract name.
void ReadUnixTable(absl::string_view table, std::map<uint64_t, BoundSocket>* sockets) {
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(' ', 6), absl::SkipEmpty());
    if (fields.size() < 7) continue;
    const std::pair<absl::string_view, absl::string_view> last =
        absl::StrSplit(absl::StripLeadingAsciiWhitespace(fields[6]), absl::MaxSplits(' ', 1));
    BoundSocket socket;
    socket.kind = BoundSocket::Kind::kAbstract;
    socket.address = std::string(last.second);
    if (absl::StartsWith(socket.address, "@") && absl::SimpleAtoi(last.first, &socket.inode)) {
      sockets->insert_or_assign(socket.inode, socket);
    }
  }
}

std::set<uint64_t> SocketInodesOf(pid_t pid) {
  std::set<uint64_t> inodes;
  std::error_code error;
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    absl::string_view text = target;
    uint64_t inode = 0;
    if (absl::ConsumePrefix(&text, "socket:[") && absl::ConsumeSuffix(&text, "]") &&
        absl::SimpleAtoi(text, &inode)) {
      inodes.insert(inode);
    }
  }
  return inodes;
}

}  // namespace

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  const std::string stat = ProcFile(pid, "stat");
  // "pid (name) state ppid ...": the name may hold anything, also ")".
  const size_t open = stat.find('(');
  const size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(close + 1), ' ', absl::SkipEmpty());
  ProcessInfo process;
  process.pid = pid;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[1], &process.parent) ||
      !absl::SimpleAtoi(fields[19], &process.start_time)) {
    return std::nullopt;
  }
  process.state = fields[0][0];
  process.command = CommandOf(pid, absl::string_view(stat).substr(open + 1, close - open - 1));
  return process;
}

std::vector<ProcessInfo> FindProcesses(absl::string_view marker, pid_t ancestor) {
  std::map<pid_t, ProcessInfo> all;
  std::set<pid_t> found;
  for (const pid_t pid : AllPids()) {
    std::optional<ProcessInfo> process = ReadProcess(pid);
    if (!process.has_value()) continue;
    if (HasEnvironmentEntry(pid, marker)) found.insert(pid);
    all.emplace(pid, *std::move(process));
  }
  bool grown = true;
  while (grown) {
    grown = false;
    for (const auto& [pid, process] : all) {
      const bool descends = process.parent == ancestor || found.count(process.parent) > 0;
      if (descends && found.insert(pid).second) grown = true;
    }
  }
  found.erase(ancestor);
  std::vector<ProcessInfo> processes;
  for (const pid_t pid : found) processes.push_back(all.at(pid));
  return processes;
}

std::vector<BoundSocket> FindBoundSockets(const std::vector<pid_t>& pids) {
  std::map<uint64_t, BoundSocket> sockets;
  for (const pid_t pid : pids) {
    std::map<uint64_t, BoundSocket> table;
    ReadTcpTable(ProcFile(pid, "net/tcp"), &table);
    ReadTcpTable(ProcFile(pid, "net/tcp6"), &table);
    ReadUnixTable(ProcFile(pid, "net/unix"), &table);
    for (const uint64_t inode : SocketInodesOf(pid)) {
      const auto row = table.find(inode);
      if (row == table.end()) continue;
      row->second.pid = pid;
      sockets.emplace(inode, row->second);
    }
  }
  // One row for each name: connections to an abstract socket bear it too.
  std::map<std::pair<std::string, pid_t>, BoundSocket> by_address;
  for (const auto& [inode, socket] : sockets) {
    by_address.emplace(std::make_pair(socket.address, socket.pid), socket);
  }
  std::vector<BoundSocket> result;
  for (auto& [key, socket] : by_address) result.push_back(std::move(socket));
  return result;
}

}  // namespace millrace
