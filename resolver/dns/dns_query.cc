#include "resolver/dns/dns_query.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kAttemptTimeout = absl::Seconds(1);
constexpr int kAttempts = 4;  // of each server; `timeout` ends them before

// c-ares counts its own users, but not at once from several threads.
int InitOnce() {
  static const int done = ares_library_init(ARES_LIB_INIT_ALL);
  return done;
}

absl::Status StatusOf(int code, const std::string& about) {
  const std::string what = absl::StrCat(about, ": ", ares_strerror(code));
  switch (code) {
    case ARES_SUCCESS:
      return absl::OkStatus();
    case ARES_EBADNAME:
      return absl::InvalidArgumentError(what);
    case ARES_EBADRESP:
    case ARES_EFORMERR:
      return absl::DataLossError(what);
    case ARES_ETIMEOUT:
      return absl::DeadlineExceededError(what);
    case ARES_ENOMEM:
      return absl::ResourceExhaustedError(what);
    default:
      return absl::UnavailableError(what);
  }
}

struct ChannelDeleter {
  void operator()(ares_channel channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<ares_channeldata, ChannelDeleter>;

absl::StatusOr<Channel> MakeChannel(const DnsServers& servers) {
  MILLRACE_RETURN_IF_ERROR(StatusOf(InitOnce(), "c-ares"));
  ares_options options = {};
  options.timeout = static_cast<int>(absl::ToInt64Milliseconds(kAttemptTimeout));
  options.tries = kAttempts;
  ares_channel made = nullptr;
  MILLRACE_RETURN_IF_ERROR(StatusOf(
      ares_init_options(&made, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES), "name servers"));
  Channel channel(made);
  if (!servers.addresses.empty()) {
    const std::string list = absl::StrJoin(servers.addresses, ",");
    if (ares_set_servers_ports_csv(made, list.c_str()) != ARES_SUCCESS) {
      return absl::InvalidArgumentError(
          absl::StrCat("servers must be addresses of name servers, such as 10.0.0.10:53, found ",
                       Ellipsize(EscapeControls(list), 200)));
    }
  }
  return channel;
}

struct Answer {
  bool there = false;
  int code = ARES_SUCCESS;
  std::string bytes;
};

void TakeAnswer(void* argument, int code, int /*timeouts*/, unsigned char* bytes, int size) {
  auto* const answer = static_cast<Answer*>(argument);
  answer->there = true;
  answer->code = code;
  if (bytes != nullptr) {
    answer->bytes.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
}

// Waits for what c-ares waits for, at most `limit_ms`.
void ProcessOnce(ares_channel channel, int limit_ms) {
  std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets = {};
  const int wanted = ares_getsock(channel, sockets.data(), static_cast<int>(sockets.size()));
  std::vector<pollfd> polled;
  for (size_t i = 0; i < sockets.size(); ++i) {
    short events = 0;
    if (ARES_GETSOCK_READABLE(wanted, i)) events |= POLLIN;
    if (ARES_GETSOCK_WRITABLE(wanted, i)) events |= POLLOUT;
    if (events != 0) polled.push_back({.fd = sockets[i], .events = events, .revents = 0});
  }
  timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = (limit_ms % 1000) * 1000};
  timeval next = {};
  const timeval* const wait = ares_timeout(channel, &limit, &next);
  const auto wait_ms = static_cast<int>(wait->tv_sec * 1000 + wait->tv_usec / 1000) + 1;
  if (::poll(polled.data(), polled.size(), wait_ms) <= 0) {
    ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // what has taken too long
    return;
  }
  for (const pollfd& each : polled) {
    const bool in = (each.revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    const bool out = (each.revents & POLLOUT) != 0;
    if (!in && !out) continue;
    ares_process_fd(channel, in ? each.fd : ARES_SOCKET_BAD, out ? each.fd : ARES_SOCKET_BAD);
  }
}

// The answer's bytes; empty where there is no such name or record.
absl::StatusOr<std::string> Query(const DnsServers& servers, const std::string& name, int type,
                                  const std::string& about) {
  Answer answer;  // before the channel, whose end calls back
  MILLRACE_ASSIGN_OR_RETURN(const Channel channel, MakeChannel(servers));
  const absl::Duration deadline = RealClock()->SteadyNow() + servers.timeout;
  ares_query(channel.get(), name.c_str(), ns_c_in, type, TakeAnswer, &answer);
  while (!answer.there) {
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          about, ": no name server has answered within ", absl::FormatDuration(servers.timeout)));
    }
    ProcessOnce(channel.get(),
                static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1000)));
  }
  if (answer.code == ARES_ENOTFOUND || answer.code == ARES_ENODATA) return std::string();
  MILLRACE_RETURN_IF_ERROR(StatusOf(answer.code, about));
  return std::move(answer.bytes);
}

const unsigned char* BytesOf(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Adds the addresses of one family.
absl::Status AddAddresses(const DnsServers& servers, const std::string& name, int family,
                          std::vector<std::string>* addresses) {
  const bool v6 = family == AF_INET6;
  const std::string about =
      absl::StrCat("the ", v6 ? "AAAA" : "A", " records of ", Ellipsize(EscapeControls(name), 200));
  MILLRACE_ASSIGN_OR_RETURN(const std::string answer,
                            Query(servers, name, v6 ? ns_t_aaaa : ns_t_a, about));
  if (answer.empty()) return absl::OkStatus();
  hostent* host = nullptr;
  const auto size = static_cast<int>(answer.size());
  const int code = v6 ? ares_parse_aaaa_reply(BytesOf(answer), size, &host, nullptr, nullptr)
                      : ares_parse_a_reply(BytesOf(answer), size, &host, nullptr, nullptr);
  if (code == ARES_ENODATA) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(StatusOf(code, about));
  const absl::Cleanup free = [host] { ares_free_hostent(host); };
  std::vector<std::string> found;  // the bytes
  for (char** each = host->h_addr_list; *each != nullptr; ++each) {
    found.emplace_back(*each, static_cast<size_t>(host->h_length));
  }
  std::sort(found.begin(), found.end());
  for (const std::string& bytes : found) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    addresses->emplace_back(
        ::inet_ntop(family, bytes.data(), text.data(), static_cast<socklen_t>(text.size())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDnsServers(const DnsServers& servers) { return MakeChannel(servers).status(); }

absl::StatusOr<std::vector<SrvRecord>> QuerySrv(const DnsServers& servers,
                                                const std::string& name) {
  const std::string about =
      absl::StrCat("the SRV records of ", Ellipsize(EscapeControls(name), 200));
  MILLRACE_ASSIGN_OR_RETURN(const std::string answer, Query(servers, name, ns_t_srv, about));
  std::vector<SrvRecord> records;
  if (answer.empty()) return records;
  ares_srv_reply* first = nullptr;
  const int code = ares_parse_srv_reply(BytesOf(answer), static_cast<int>(answer.size()), &first);
  if (code == ARES_ENODATA) return records;
  MILLRACE_RETURN_IF_ERROR(StatusOf(code, about));
  const absl::Cleanup free = [first] { ares_free_data(first); };
  for (const ares_srv_reply* each = first; each != nullptr; each = each->next) {
    // "." says that there is no such service.
    if (std::strlen(each->host) > 0) records.push_back({.target = each->host, .port = each->port});
  }
  return records;
}

absl::StatusOr<std::vector<std::string>> QueryAddresses(const DnsServers& servers,
                                                        const std::string& name) {
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    MILLRACE_RETURN_IF_ERROR(AddAddresses(servers, name, family, &addresses));
  }
  return addresses;
}

}  // namespace millrace
