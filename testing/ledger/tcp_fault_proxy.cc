#include "testing/ledger/tcp_fault_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kEndpoint = "\"endpoint\":\"tcp://127.0.0.1:";
constexpr size_t kMaxPending = 256 * 1024;
// Bytes that look like the beginning of an endpoint wait this long for the rest.
constexpr absl::Duration kHold = absl::Milliseconds(20);
constexpr int kTurnMs = 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

absl::StatusOr<std::pair<UniqueFd, int>> Listen() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), 64) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen on loopback");
  }
  return std::make_pair(std::move(fd), int{ntohs(address.sin_port)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpFaultProxy>> TcpFaultProxy::Start(int target_port, Plan plan) {
  MILLRACE_ASSIGN_OR_RETURN(auto listening, Listen());
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  Listener listener{.fd = std::move(listening.first), .target_port = target_port};
  return std::unique_ptr<TcpFaultProxy>(
      new TcpFaultProxy(std::move(listener), listening.second, std::move(stop), std::move(plan)));
}

TcpFaultProxy::TcpFaultProxy(Listener listener, int port, UniqueFd stop, Plan plan)
    : port_(port), stop_(std::move(stop)), plan_(std::move(plan)) {
  listeners_.push_back(std::move(listener));
  thread_ = Thread("tcp-proxy", [this] { Run(); });
}

TcpFaultProxy::~TcpFaultProxy() {
  const uint64_t one = 1;
  static_cast<void>(!write(stop_.get(), &one, sizeof(one)));
  thread_.Join();
}

void TcpFaultProxy::Run() {
  while (true) {
    std::vector<pollfd> polled = {{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    for (const Listener& listener : listeners_) {
      polled.push_back({.fd = listener.fd.get(), .events = POLLIN, .revents = 0});
    }
    const absl::Duration now = RealClock()->SteadyNow();
    if (const int64_t hold_ns = hold_all_ns_.exchange(0); hold_ns > 0) {
      for (Connection& open : open_) open.resume = now + absl::Nanoseconds(hold_ns);
    }
    for (Connection& connection : open_) {
      const bool quiet = connection.stalled || now < connection.resume;
      const auto events = [&](const Flow& in, const Flow& out) {
        int wanted = connection.stalled ? POLLRDHUP : 0;
        if (!quiet && !in.ended && in.pending.size() < kMaxPending) wanted |= POLLIN;
        if (!quiet && !out.pending.empty()) wanted |= POLLOUT;
        return static_cast<short>(wanted);
      };
      polled.push_back({.fd = connection.client.get(),
                        .events = events(connection.up, connection.down),
                        .revents = 0});
      polled.push_back({.fd = connection.server.get(),
                        .events = events(connection.down, connection.up),
                        .revents = 0});
    }
    static_cast<void>(poll(polled.data(), polled.size(), kTurnMs));
    if (polled[0].revents != 0) return;
    if (cut_all_.exchange(false)) {
      std::for_each(open_.begin(), open_.end(), [](Connection& open) { Reset(&open); });
      open_.clear();
      continue;
    }
    size_t next = 1;
    const size_t listeners = listeners_.size();
    std::vector<short> ready;
    for (; next < 1 + listeners; ++next) ready.push_back(polled[next].revents);
    for (auto it = open_.begin(); it != open_.end(); next += 2) {
      const bool alive = Serve(&*it, polled[next].revents, polled[next + 1].revents);
      it = alive ? std::next(it) : open_.erase(it);
    }
    auto listener = listeners_.begin();
    for (size_t i = 0; i < listeners; ++i, ++listener) {
      if (ready[i] != 0) Accept(*listener);
    }
  }
}

void TcpFaultProxy::Accept(const Listener& listener) {
  UniqueFd client(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) return;
  UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(listener.target_port);
  // Loopback answers at once, also that nobody listens.
  if (!server.valid() ||
      connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return;
  }
  const int on = 1;
  for (const int fd : {client.get(), server.get()}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  Connection& connection = open_.emplace_back();
  connection.client = std::move(client);
  connection.server = std::move(server);
  connection.reply = listener.reply;
  connection.fault = plan_(listener.reply);
  ++connections_;
}

bool TcpFaultProxy::Serve(Connection* connection, short client_events, short server_events) {
  if (connection->stalled) {
    // Whoever gives up first takes the connection with it.
    if (((client_events | server_events) & (POLLHUP | POLLERR | POLLRDHUP)) == 0) return true;
    Reset(connection);
    return false;
  }
  if (RealClock()->SteadyNow() < connection->resume) return true;
  if ((client_events & (POLLIN | POLLHUP | POLLERR)) != 0 &&
      !Read(connection->client.get(), &connection->up)) {
    Reset(connection);
    return false;
  }
  if ((server_events & (POLLIN | POLLHUP | POLLERR)) != 0 &&
      !Read(connection->server.get(), &connection->down)) {
    Reset(connection);
    return false;
  }
  const bool alive = Pass(connection, &connection->up, connection->server.get()) &&
                     Pass(connection, &connection->down, connection->client.get());
  if (!alive) Reset(connection);
  return alive && !(connection->up.closed && connection->down.closed);
}

bool TcpFaultProxy::Read(int fd, Flow* flow) {
  if (flow->ended || flow->pending.size() >= kMaxPending) return true;
  char buffer[64 * 1024];
  const ssize_t size = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) flow->ended = true;
  flow->pending.append(buffer, static_cast<size_t>(size));
  return true;
}

bool TcpFaultProxy::Pass(Connection* connection, Flow* flow, int to) {
  size_t size = flow->pending.size();
  if (flow == &connection->up && !connection->reply) size = RewriteEndpoints(connection);
  const TcpFault& fault = connection->fault;
  bool due = false;
  if (fault.kind != TcpFault::Kind::kNone) {
    const int64_t left = std::max<int64_t>(0, fault.after_bytes - connection->passed);
    size = std::min(size, static_cast<size_t>(left));
    due = !flow->pending.empty() && size == static_cast<size_t>(left);
  }
  if (size > 0) {
    const ssize_t sent = send(to, flow->pending.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    due = due && static_cast<size_t>(sent) == size;
    connection->passed += sent;
    flow->pending.erase(0, static_cast<size_t>(sent));
  }
  if (due) {
    ++faults_;
    if (fault.kind == TcpFault::Kind::kCut) return false;
    if (fault.kind == TcpFault::Kind::kStall) connection->stalled = true;
    connection->resume = RealClock()->SteadyNow() + fault.delay;
    connection->fault = {};
  }
  if (flow->ended && flow->pending.empty() && !flow->closed) {
    flow->closed = true;
    shutdown(to, SHUT_WR);
  }
  return true;
}

size_t TcpFaultProxy::RewriteEndpoints(Connection* connection) {
  std::string& bytes = connection->up.pending;
  size_t at = 0;
  while ((at = bytes.find(kEndpoint.data(), at, kEndpoint.size())) != std::string::npos) {
    const size_t begin = at + kEndpoint.size();
    size_t end = begin;
    while (end < bytes.size() && absl::ascii_isdigit(static_cast<unsigned char>(bytes[end]))) ++end;
    if (end == bytes.size()) break;  // more digits may follow
    int port = 0;
    const absl::string_view digits(bytes.data() + begin, end - begin);
    if (absl::SimpleAtoi(digits, &port)) {
      const std::string replaced = absl::StrCat(ReplyPort(port).value_or(port));
      if (replaced.size() == digits.size()) bytes.replace(begin, digits.size(), replaced);
    }
    at = end;
  }
  // The beginning of an endpoint at the end waits for the rest.
  size_t hold = at == std::string::npos ? 0 : bytes.size() - at;
  for (size_t n = std::min(kEndpoint.size(), bytes.size()); hold == 0 && n > 0; --n) {
    if (absl::EndsWith(bytes, kEndpoint.substr(0, n))) hold = n;
  }
  if (hold == 0) {
    connection->held_since = absl::InfiniteFuture();
    return bytes.size();
  }
  connection->held_since = std::min(connection->held_since, absl::Now());
  const bool given_up = absl::Now() - connection->held_since >= kHold;
  return given_up ? bytes.size() : bytes.size() - hold;
}

std::optional<int> TcpFaultProxy::ReplyPort(int target_port) {
  // What was replaced may be seen again, when it could not be sent at once.
  for (const auto& [target, port] : reply_ports_) {
    if (port == target_port) return port;
  }
  if (const auto it = reply_ports_.find(target_port); it != reply_ports_.end()) return it->second;
  absl::StatusOr<std::pair<UniqueFd, int>> listening = Listen();
  if (!listening.ok()) return std::nullopt;
  listeners_.push_back(
      {.fd = std::move(listening->first), .target_port = target_port, .reply = true});
  reply_ports_[target_port] = listening->second;
  return listening->second;
}

void TcpFaultProxy::Reset(Connection* connection) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  for (const UniqueFd* fd : {&connection->client, &connection->server}) {
    setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
}

}  // namespace millrace
