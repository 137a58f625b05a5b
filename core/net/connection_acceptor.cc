#include "core/net/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/net/sweep_interval.h"
#include "core/process/descriptor_limit.h"

namespace millrace {
namespace {

constexpr unsigned char kTlsHandshake = 0x16;  // the type of a TLS record, its first byte
constexpr int kAcceptsPerRound = 64;
constexpr int kEventsPerRound = 128;
constexpr absl::Duration kShortagePause = absl::Milliseconds(100);
constexpr absl::Duration kLogInterval = absl::Minutes(1);
// Descriptors that connections leave to the rest of the process: an eighth, at most these.
constexpr int64_t kMostSpare = 64;

constexpr uint64_t kListenerId = 0;
constexpr uint64_t kWakeId = 1;
constexpr uint64_t kFirstConnectionId = 2;

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  sockaddr_in* v4() { return reinterpret_cast<sockaddr_in*>(&storage); }
  sockaddr_in6* v6() { return reinterpret_cast<sockaddr_in6*>(&storage); }
  uint16_t port() { return ntohs(storage.ss_family == AF_INET ? v4()->sin_port : v6()->sin6_port); }

  // Numeric, an IPv4 address in IPv6 as IPv4; empty if it is neither.
  std::string host() {
    char text[INET6_ADDRSTRLEN] = {};
    if (storage.ss_family == AF_INET) {
      return inet_ntop(AF_INET, &v4()->sin_addr, text, sizeof(text)) == nullptr ? "" : text;
    }
    if (storage.ss_family != AF_INET6) return "";
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6()->sin6_addr);
    const void* bytes = mapped ? &v6()->sin6_addr.s6_addr[12] : &v6()->sin6_addr.s6_addr[0];
    if (inet_ntop(mapped ? AF_INET : AF_INET6, bytes, text, sizeof(text)) == nullptr) return "";
    const uint32_t zone = mapped ? 0 : v6()->sin6_scope_id;
    return zone == 0 ? text : absl::StrCat(text, "%", zone);
  }
};

absl::StatusOr<Address> ParseNumeric(const HostPort& text) {
  Address address;
  const std::string host = text.host == "localhost" ? "127.0.0.1" : text.host;
  if (inet_pton(AF_INET, host.c_str(), &address.v4()->sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    address.v4()->sin_port = htons(text.port);
    address.size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, host.c_str(), &address.v6()->sin6_addr) == 1) {
    address.storage.ss_family = AF_INET6;
    address.v6()->sin6_port = htons(text.port);
    address.size = sizeof(sockaddr_in6);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot listen on ", text.ToString(), ": \"", text.host,
        "\" is no numeric address; name one of this host, or 0.0.0.0 or [::] for all"));
  }
  return address;
}

bool IsWildcard(const HostPort& address) {
  return address.host == "0.0.0.0" || address.host == "::";
}

// An invalid descriptor and errno if it fails.
UniqueFd TryListen(Address address, bool both_families) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int on = 1;
  const int v6only = both_families ? 0 : 1;
  const bool ipv6 = address.storage.ss_family == AF_INET6;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      // Connections inherit it.
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      (ipv6 && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) != 0) ||
      bind(fd.get(), address.get(), address.size) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    fd.reset();
  }
  return fd;
}

// Which socket a descriptor is: the number may mean another one by now. 0: none.
uint64_t SocketId(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode)) return 0;
  return info.st_ino;
}

// As the acceptor writes a peer: "1.2.3.4:5", "[fd00::1]:5".
std::string FromGrpcPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  if (!absl::StrContains(peer, '%')) return std::string(peer);
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

struct Connection {
  std::string peer;      // host:port
  std::string host;      // of the peer; empty: this one, which may have as many as it likes
  absl::Duration since;  // steady: when it came into its state
  UniqueFd fd;           // silent and ready
  bool ready = false;    // of those two
  int number = -1;       // handshaking: of the descriptor, which is the server's
  uint64_t socket = 0;   // handshaking: see SocketId()
  bool cut = false;      // handshaking: shut down, and not gone yet
};

// Whether nothing has moved for `limit` and all that came was read, so that it is the peer's turn.
bool StandsStill(int fd, absl::Duration limit) {
  int unread = 0;
  if (ioctl(fd, FIONREAD, &unread) != 0 || unread > 0) return false;
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  const uint32_t quiet_ms = std::min(info.tcpi_last_data_recv, info.tcpi_last_data_sent);
  return absl::Milliseconds(quiet_ms) >= limit;
}

class EpollAcceptor final : public ConnectionAcceptor {
 public:
  EpollAcceptor(Options options, UniqueFd listener, int port)
      : options_(std::move(options)), listener_(std::move(listener)), port_(port) {
    limit_ = DescriptorLimit();
    if (options_.max_handshakes <= 0) {
      options_.max_handshakes = static_cast<int>(std::clamp<int64_t>(limit_ / 8, 8, 1024));
    }
    if (options_.max_waiting <= 0) {
      options_.max_waiting = static_cast<int>(std::clamp<int64_t>(limit_ / 4, 16, 1 << 18));
    }
    usable_ = limit_ - std::min(limit_ / 8, kMostSpare);
  }
  ~EpollAcceptor() override { Stop(); }

  absl::Status Prepare() {
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    TakeReserve();
    if (!epoll_.valid() || !wake_.valid() || !reserve_.valid() || !Watch(wake_.get(), kWakeId)) {
      return absl::ErrnoToStatus(errno, "cannot wait for connections");
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

  void Start(Handler handler) override {
    handler_ = std::move(handler);
    listening_ = Watch(listener_.get(), kListenerId);
    thread_ = Thread(options_.thread_name, [this] { Run(); });
  }

  void Admitted(absl::string_view peer) override {
    const std::string key = FromGrpcPeer(peer);
    bool wake = false;
    {
      MutexLock lock(&mu_);
      const auto found = by_peer_.find(key);
      if (found == by_peer_.end()) return;
      EraseHandshake(found->second);
      wake = std::exchange(wants_room_, false);
    }
    if (wake) Wake();
  }

  absl::Status Shortage() const override {
    MutexLock lock(&mu_);
    if (turned_away_ == 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "this process has run out of file descriptors (EMFILE; its limit is ", limit_,
        ") and turned ", turned_away_, turned_away_ == 1 ? " connection" : " connections",
        " away: raise the hard limit (ulimit -Hn) of the user that runs it"));
  }

  void Stop() override {
    stop_.Notify();
    if (thread_.joinable()) {
      Wake();
      thread_.Join();
    }
    waiting_.clear();
    listener_.reset();
  }

 private:
  using Waiting = std::map<uint64_t, Connection>;  // by id: in the order in which they came

  bool Watch(int fd, uint64_t id, uint32_t events = EPOLLIN) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
  }

  void TakeReserve() { reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  void Run() {
    epoll_event events[kEventsPerRound];
    while (!stop_.HasBeenNotified()) {
      const int count = epoll_wait(epoll_.get(), events, kEventsPerRound, TimeoutMs());
      now_ = RealClock()->SteadyNow();
      for (int i = 0; i < count; ++i) {
        const uint64_t id = events[i].data.u64;
        if (id == kListenerId) {
          Accept();
        } else if (id == kWakeId) {
          uint64_t value;
          (void)!read(wake_.get(), &value, sizeof(value));
        } else {
          OnEvent(id, events[i].events);
        }
      }
      Resume();
      if (now_ - swept_ >= sweep_interval_) Sweep();
      Dispatch();
    }
  }

  int TimeoutMs() {
    MutexLock lock(&mu_);
    if (listening_ && waiting_.empty() && handshakes_.empty()) return -1;
    return static_cast<int>(absl::ToInt64Milliseconds(SweepInterval(0)));
  }

  // ---- accepting -----------------------------------------------------------------------------

  void Accept() {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      Address peer;
      UniqueFd fd(accept4(listener_.get(), peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd.valid()) {
        Take(std::move(fd), &peer);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        if (!DropOldestSilent("") && !TurnOneAway()) return;
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO && errno != EPERM) {
        // Errors of the network come by accept(2), too; the next one may be well.
        Pause();
        return;
      }
    }
  }

  void Take(UniqueFd fd, Address* peer) {
    Connection connection;
    Address local;
    if (getsockname(fd.get(), local.get(), &local.size) != 0) return;  // gone again
    connection.host = peer->host();
    connection.peer = FormatHostPort(connection.host, peer->port());
    if (connection.host == local.host()) connection.host.clear();
    connection.since = now_;
    // Descriptors are given from the lowest on: a high one says that there are few left.
    if (fd.get() >= usable_ && !DropOldestSilent("")) {
      fd.reset();
      CountTurnedAway();
      return;
    }
    if (!connection.host.empty() &&
        waiting_hosts_[connection.host] >= std::max(options_.max_waiting / 2, 1) &&
        !DropOldestSilent(connection.host)) {
      return;
    }
    if (static_cast<int>(waiting_.size()) >= options_.max_waiting && !DropOldestSilent("")) return;
    const uint64_t id = next_id_++;
    if (!Watch(fd.get(), id, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT)) return;
    connection.fd = std::move(fd);
    if (!connection.host.empty()) ++waiting_hosts_[connection.host];
    waiting_.emplace(id, std::move(connection));
    silent_.insert(id);
  }

  // Drops the oldest silent connection of `host`, or of any host if that is empty.
  bool DropOldestSilent(const std::string& host) {
    for (const uint64_t id : silent_) {
      const auto it = waiting_.find(id);
      if (!host.empty() && it->second.host != host) continue;
      EraseWaiting(it);
      return true;
    }
    return false;
  }

  // Closes the connection that is next, by the reserve. Returns false if there is none (left).
  bool TurnOneAway() {
    reserve_.reset();
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const bool turned = fd.valid();
    const bool none = !turned && errno == EAGAIN;
    fd.reset();
    TakeReserve();
    if (turned) CountTurnedAway();
    if (none && reserve_.valid()) return false;
    if (turned && reserve_.valid()) return true;
    // Another thread was faster.
    Pause();
    return false;
  }

  void CountTurnedAway() {
    {
      MutexLock lock(&mu_);
      ++turned_away_;
    }
    if (logged_ != absl::ZeroDuration() && now_ - logged_ < kLogInterval) return;
    logged_ = now_;
    MILLRACE_LOG(WARNING) << "port " << port_ << ": " << Shortage().message();
  }

  // Otherwise the listener would report the same connection, which cannot be taken, again and
  // again.
  void Pause() {
    if (!listening_) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
    listening_ = false;
    paused_ = now_;
  }

  void Resume() {
    if (listening_ || now_ - paused_ < kShortagePause) return;
    if (!reserve_.valid()) TakeReserve();
    listening_ = Watch(listener_.get(), kListenerId);
  }

  // ---- waiting for the first byte ------------------------------------------------------------

  void OnEvent(uint64_t id, uint32_t events) {
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    Connection& connection = it->second;
    unsigned char first = 0;
    const ssize_t got =
        connection.ready ? 0 : recv(connection.fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool gone = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (gone || got != 1 || first != kTlsHandshake) {
      EraseWaiting(it);
      return;
    }
    connection.ready = true;
    connection.since = now_;
    silent_.erase(id);
    ready_.emplace(now_, id);
    epoll_event event{};
    event.events = EPOLLRDHUP | EPOLLONESHOT;  // while it waits for its turn
    event.data.u64 = id;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
  }

  void EraseWaiting(Waiting::iterator it) {
    ForgetWaitingHost(it->second.host);
    silent_.erase(it->first);
    ready_.erase({it->second.since, it->first});
    waiting_.erase(it);
  }

  void ForgetWaitingHost(const std::string& host) {
    const auto found = waiting_hosts_.find(host);
    if (found != waiting_hosts_.end() && --found->second <= 0) waiting_hosts_.erase(found);
  }

  // ---- handshakes ----------------------------------------------------------------------------

  void Dispatch() {
    while (true) {
      uint64_t id = 0;
      {
        MutexLock lock(&mu_);
        id = NextReady();
        wants_room_ = id == 0 && !ready_.empty();
      }
      if (id == 0) return;
      HandOn(waiting_.find(id));
    }
  }

  // The first one of ready_ whose host may have another handshake; 0: none.
  uint64_t NextReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (static_cast<int>(handshakes_.size()) >= options_.max_handshakes) return 0;
    for (const auto& [since, id] : ready_) {
      const std::string& host = waiting_.at(id).host;
      const auto busy = handshake_hosts_.find(host);
      if (host.empty() || busy == handshake_hosts_.end() ||
          busy->second < std::max(options_.max_handshakes / 2, 1)) {
        return id;
      }
    }
    return 0;
  }

  void HandOn(Waiting::iterator it) {
    const uint64_t id = it->first;
    ready_.erase({it->second.since, id});
    Connection connection = std::move(it->second);
    waiting_.erase(it);
    ForgetWaitingHost(connection.host);
    UniqueFd fd = std::move(connection.fd);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
    connection.number = fd.get();
    connection.socket = SocketId(fd.get());
    connection.since = now_;
    {
      MutexLock lock(&mu_);
      if (!connection.host.empty()) ++handshake_hosts_[connection.host];
      by_peer_[connection.peer] = id;
      handshakes_.insert_or_assign(id, std::move(connection));
    }
    handler_(listener_.get(), std::move(fd));
  }

  void EraseHandshake(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = handshakes_.find(id);
    if (it == handshakes_.end()) return;
    const auto host = handshake_hosts_.find(it->second.host);
    if (host != handshake_hosts_.end() && --host->second <= 0) handshake_hosts_.erase(host);
    const auto peer = by_peer_.find(it->second.peer);
    if (peer != by_peer_.end() && peer->second == id) by_peer_.erase(peer);
    handshakes_.erase(it);
  }

  void Sweep() {
    swept_ = now_;
    // Both are in the order in which their time is over.
    while (!silent_.empty()) {
      const auto oldest = waiting_.find(*silent_.begin());
      if (now_ - oldest->second.since < options_.silence_timeout) break;
      EraseWaiting(oldest);
    }
    while (!ready_.empty() && now_ - ready_.begin()->first >= options_.admission_timeout) {
      EraseWaiting(waiting_.find(ready_.begin()->second));
    }
    MutexLock lock(&mu_);
    sweep_interval_ = SweepInterval(handshakes_.size());
    std::vector<uint64_t> gone;
    for (auto& [id, connection] : handshakes_) {
      if (SocketId(connection.number) != connection.socket) {
        gone.push_back(id);
      } else if (!connection.cut &&
                 (now_ - connection.since >= options_.admission_timeout ||
                  (!ready_.empty() && now_ - connection.since >= options_.stall_timeout &&
                   StandsStill(connection.number, options_.stall_timeout)))) {
        connection.cut = true;
        Cut(connection);
      }
    }
    for (const uint64_t id : gone) EraseHandshake(id);
  }

  // Ends a connection that the server owns: it sees the end of the stream and closes it. By a copy
  // of the descriptor, so that it cannot hit another file that has got the number meanwhile.
  void Cut(const Connection& connection) {
    reserve_.reset();
    {
      const UniqueFd copy(fcntl(connection.number, F_DUPFD_CLOEXEC, 0));
      if (copy.valid() && SocketId(copy.get()) == connection.socket) {
        shutdown(copy.get(), SHUT_RDWR);
      }
    }
    TakeReserve();
  }

  Options options_;
  UniqueFd listener_;
  const int port_;
  int64_t limit_ = 0;
  int64_t usable_ = 0;  // descriptors from this number on are left to others
  UniqueFd epoll_;
  UniqueFd wake_;
  Handler handler_;
  Notification stop_;

  // Used by the acceptor's thread only.
  UniqueFd reserve_;  // given up for a moment where there is no other descriptor
  absl::Duration now_;
  absl::Duration swept_;
  absl::Duration sweep_interval_ = SweepInterval(0);
  absl::Duration paused_;
  absl::Duration logged_;
  bool listening_ = false;
  uint64_t next_id_ = kFirstConnectionId;
  Waiting waiting_;  // silent and ready
  std::set<uint64_t> silent_;
  std::map<std::string, int> waiting_hosts_;
  std::set<std::pair<absl::Duration, uint64_t>> ready_;  // since when, and which

  mutable Mutex mu_;
  std::map<uint64_t, Connection> handshakes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint64_t> by_peer_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> handshake_hosts_ ABSL_GUARDED_BY(mu_);
  bool wants_room_ ABSL_GUARDED_BY(mu_) = false;  // wake the thread when a handshake is over
  int64_t turned_away_ ABSL_GUARDED_BY(mu_) = 0;

  Thread thread_;  // last: joined first
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const Options& options) {
  absl::StatusOr<Address> address = ParseNumeric(options.address);
  if (!address.ok()) return address.status();
  const bool wildcard = IsWildcard(options.address);
  UniqueFd fd;
  if (wildcard) {
    Address both;
    both.storage.ss_family = AF_INET6;
    both.v6()->sin6_addr = in6addr_any;
    both.v6()->sin6_port = htons(options.address.port);
    both.size = sizeof(sockaddr_in6);
    fd = TryListen(both, /*both_families=*/true);
  }
  if (!fd.valid() && !(wildcard && errno == EADDRINUSE)) fd = TryListen(*address, false);
  if (!fd.valid()) {
    const int error = errno;
    const std::string what = absl::StrCat("cannot listen on ", options.address.ToString(), ": ");
    if (error == EMFILE || error == ENFILE) {
      return absl::ErrnoToStatus(error, absl::StrCat(what, "out of file descriptors (the limit is ",
                                                     DescriptorLimit(), ")"));
    }
    return absl::UnavailableError(absl::StrCat(
        what, std::strerror(error), "; is it an address of this host, and the port free?"));
  }
  Address bound;
  if (getsockname(fd.get(), bound.get(), &bound.size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot tell the port that was bound");
  }
  auto acceptor = std::make_unique<EpollAcceptor>(options, std::move(fd), bound.port());
  if (absl::Status status = acceptor->Prepare(); !status.ok()) return status;
  return acceptor;
}

}  // namespace millrace
