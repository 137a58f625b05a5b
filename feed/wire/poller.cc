#include "feed/wire/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace millrace {
namespace {

// The longest single poll(), whose timeout is an int of milliseconds.
constexpr absl::Duration kLongestPoll = absl::Hours(1);

// libzmq's descriptor of a socket. It is no socket of the system: it is readable when libzmq has
// something to look at, once, until it has looked.
int DescriptorOf(void* handle) {
  int fd = -1;
  size_t size_bytes = sizeof(fd);
  MILLRACE_CHECK(zmq_getsockopt(handle, ZMQ_FD, &fd, &size_bytes) == 0)
      << "no descriptor: " << zmq_strerror(zmq_errno());
  return fd;
}

}  // namespace

absl::StatusOr<WakeFd> WakeFd::Create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  return WakeFd(std::move(fd));
}

void WakeFd::Wake() const {
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the poller is awake already.
  while (write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void WakeFd::Clear() const {
  uint64_t count;
  while (read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

void Poller::AddItem(const ZmqSocket* socket, bool monitor, int fd) {
  entries_.push_back({socket, monitor, /*ready=*/false});
  items_.push_back({fd, POLLIN, 0});
}

void Poller::Add(const ZmqSocket& socket) {
  socket.CheckThread();
  socket.drained_ = false;
  AddItem(&socket, /*monitor=*/false, DescriptorOf(socket.handle_));
  if (socket.monitor_ != nullptr) AddMonitor(socket);
}

void Poller::AddMonitor(const ZmqSocket& socket) {
  socket.CheckMonitorThread();
  socket.monitor_drained_ = false;
  AddItem(&socket, /*monitor=*/true, DescriptorOf(socket.monitor_));
}

void Poller::Add(const WakeFd& wake) { AddItem(nullptr, /*monitor=*/false, wake.fd()); }

void Poller::Remove(const ZmqSocket& socket) {
  for (size_t i = entries_.size(); i-- > 0;) {
    if (entries_[i].socket != &socket) continue;
    entries_.erase(entries_.begin() + i);
    items_.erase(items_.begin() + i);
  }
}

bool Poller::Drained(const Entry& entry) {
  if (entry.socket == nullptr) return true;
  if (entry.monitor) return entry.socket->monitor_drained_;
  return entry.socket->drained_ || !entry.socket->receives_;
}

// Whether there is something to read. If not, the descriptor becomes ready when there is.
bool Poller::AskLibzmq(const Entry& entry) {
  if (entry.monitor) {
    entry.socket->CheckMonitorThread();
  } else {
    entry.socket->CheckThread();
  }
  int events = 0;
  size_t size_bytes = sizeof(events);
  void* const handle = entry.monitor ? entry.socket->monitor_ : entry.socket->handle_;
  if (zmq_getsockopt(handle, ZMQ_EVENTS, &events, &size_bytes) != 0) return true;  // reads tell why
  const bool readable = (events & ZMQ_POLLIN) != 0;
  (entry.monitor ? entry.socket->monitor_drained_ : entry.socket->drained_) = !readable;
  return readable;
}

// False if poll() fails.
bool Poller::PollOnce(int timeout_ms, bool* ready) {
  if (poll(items_.data(), items_.size(), timeout_ms) < 0) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (items_[i].revents != 0 && !entry.ready) {
      entry.ready = entry.socket == nullptr || AskLibzmq(entry);
    }
    *ready = *ready || entry.ready;
  }
  return true;
}

absl::Status Poller::Wait(absl::Duration timeout) {
  bool ready = false;
  // Messages that were left unread do not make a descriptor readable.
  for (Entry& entry : entries_) {
    entry.ready = !Drained(entry) && AskLibzmq(entry);
    ready = ready || entry.ready;
  }
  const absl::Duration until = RealClock()->SteadyNow() + std::max(timeout, absl::ZeroDuration());
  while (true) {
    int timeout_ms = 0;
    if (!ready && timeout == absl::InfiniteDuration()) {
      timeout_ms = -1;
    } else if (!ready) {
      // Rounded up: rounding down would spin through the last millisecond of every wait.
      const absl::Duration left =
          std::clamp(until - RealClock()->SteadyNow(), absl::ZeroDuration(), kLongestPoll);
      timeout_ms =
          static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
    }
    if (!PollOnce(timeout_ms, &ready)) {
      const int error = errno;
      if (error == EINTR) return absl::OkStatus();
      return absl::ErrnoToStatus(error, "cannot poll");
    }
    // A descriptor may have become ready for something that is not input, such as a connection.
    if (ready || timeout_ms == 0) return absl::OkStatus();
  }
}

bool Poller::IsReady(const ZmqSocket* socket, bool monitor, int fd) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.socket != socket || entry.monitor != monitor) continue;
    if (socket != nullptr || items_[i].fd == fd) return entry.ready;
  }
  return false;
}

std::vector<const ZmqSocket*> Poller::WithEvents() const {
  std::vector<const ZmqSocket*> sockets;
  for (const Entry& entry : entries_) {
    if (entry.monitor && entry.ready) sockets.push_back(entry.socket);
  }
  return sockets;
}

bool Poller::HasInput(const ZmqSocket& socket) const { return IsReady(&socket, false, -1); }
bool Poller::HasEvent(const ZmqSocket& socket) const { return IsReady(&socket, true, -1); }
bool Poller::IsWoken(const WakeFd& wake) const { return IsReady(nullptr, false, wake.fd()); }

}  // namespace millrace
