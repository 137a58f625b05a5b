// File: feed/wire/poller.h
//
// Waits for sockets of ZeroMQ, and for other threads.
//
// Defines: WakeFd, Poller.
//
//   Poller poller;
//   poller.Add(pull);
//   poller.Add(wake);
//   MILLRACE_RETURN_IF_ERROR(poller.Wait(absl::Seconds(1)));
//   if (poller.HasInput(pull)) { MILLRACE_ASSIGN_OR_RETURN(auto parts, pull.Receive()); ... }
//   if (poller.IsWoken(wake)) { wake.Clear(); ... }

#ifndef FEED_WIRE_POLLER_H_
#define FEED_WIRE_POLLER_H_

#include <poll.h>  // for pollfd, held by value

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/unique_fd.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// Wakes a Poller from another thread.
// Thread safety: thread-safe. Blocking: never.
class WakeFd {
 public:
  // Returns RESOURCE_EXHAUSTED if no descriptor is left.
  [[nodiscard]] static absl::StatusOr<WakeFd> Create();

  // Makes the next (or current) Poller::Wait return. Calls before that are counted as one.
  void Wake() const;

  // Takes the wake-ups so far. Call it before looking at what they announce.
  void Clear() const;

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit WakeFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  // an eventfd
};

// Waits for input on sockets, for events of their monitors and for wake-ups. One poll() per Wait()
// and libzmq asked only about the sockets whose descriptors are ready: zmq_poll asks about each
// socket before and after, three system calls a time.
// Ownership: none; an added socket must stay where it is in memory until it is removed.
// Thread safety: one thread, that of its sockets.
class Poller {
 public:
  // Adds a socket and, if it has one, its monitor.
  void Add(const ZmqSocket& socket);
  // Its monitor alone: for a PUSH that another thread uses. Requires StartMonitor().
  void AddMonitor(const ZmqSocket& socket);
  void Add(const WakeFd& wake);
  void Remove(const ZmqSocket& socket);

  // Blocks until something is ready or `timeout` has passed; InfiniteDuration() waits for ever.
  [[nodiscard]] absl::Status Wait(absl::Duration timeout);

  // Of the last Wait(). False for what was added since.
  [[nodiscard]] bool HasInput(const ZmqSocket& socket) const;
  [[nodiscard]] bool HasEvent(const ZmqSocket& socket) const;
  [[nodiscard]] bool IsWoken(const WakeFd& wake) const;
  // All sockets of which HasEvent() is true, in one pass.
  [[nodiscard]] std::vector<const ZmqSocket*> WithEvents() const;

 private:
  struct Entry {
    const ZmqSocket* socket;  // nullptr for a WakeFd
    bool monitor;
    bool ready;
  };
  void AddItem(const ZmqSocket* socket, bool monitor, int fd);
  static bool Drained(const Entry& entry);
  static bool AskLibzmq(const Entry& entry);
  bool PollOnce(int timeout_ms, bool* ready);
  bool IsReady(const ZmqSocket* socket, bool monitor, int fd) const;

  // Two parallel arrays: what an item stands for, and the item as the kernel wants it.
  std::vector<Entry> entries_;
  std::vector<pollfd> items_;
};

}  // namespace millrace

#endif  // FEED_WIRE_POLLER_H_
