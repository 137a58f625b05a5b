// File: feed/wire/zmq_socket.h
//
// ZeroMQ as the feed protocol uses it. Only this file, feed/wire/poller.h and feed/wire/curve.h
// (keys) call libzmq. Nothing here throws; every failure is an absl::Status.
//
// Defines: ZmqContext, ZmqMessage, CurveKeys, SocketOptions, ZmqSocket, ZmqEvent, IsPrincipal().
//
//   MILLRACE_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create());
//   MILLRACE_ASSIGN_OR_RETURN(ZmqSocket pull, ZmqSocket::Create(context, SocketType::kPull,
//                                                               SocketOptions::PlainServer()));
//   MILLRACE_ASSIGN_OR_RETURN(std::string endpoint, pull.Bind("tcp://127.0.0.1:*"));
//   ...                                                          // feed/wire/poller.h waits
//   MILLRACE_ASSIGN_OR_RETURN(auto parts, pull.Receive());
//
// Threads: a ZmqContext may be shared by threads. A ZmqSocket belongs to one thread, the first that
// uses it; every call checks it (also in optimised builds: a socket used from two threads corrupts
// libzmq).
//
// The options that section 1 of docs/feed_protocol.md fixes for every socket are not options here:
// LINGER 0 (kCloseLinger once it is closed), RECONNECT_IVL -1, HEARTBEAT_IVL 1 s, HEARTBEAT_TIMEOUT
// 4 s, SNDHWM and RCVHWM 0, and the ZAP domain "millrace", enforced.

#ifndef FEED_WIRE_ZMQ_SOCKET_H_
#define FEED_WIRE_ZMQ_SOCKET_H_

#include <zmq.h>  // for zmq_msg_t, held by value

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/thread_checker.h"

namespace millrace {

// The ZAP domain of every server socket.
inline constexpr char kZapDomain[] = "millrace";

// 1 GiB: the largest message part a data or reply socket accepts.
inline constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;

// True for 1 to 64 bytes of [A-Za-z0-9/_.:-], the form of a principal.
[[nodiscard]] bool IsPrincipal(absl::string_view text);

// A libzmq context: its I/O thread, which moves about 3 GB/s, and the name space of its inproc
// endpoints (so there is one ZapServer per context). Ownership: a handle; copies and all sockets
// made from it share the context. The last one to go ends the I/O thread and waits for it (short:
// see ZmqSocket::Close). Thread safety: thread-safe.
class ZmqContext {
 public:
  // From here on the process's allocator keeps large blocks (feed/wire/large_blocks.h). Returns
  // RESOURCE_EXHAUSTED if the system has no thread or descriptor left.
  [[nodiscard]] static absl::StatusOr<ZmqContext> Create();

 private:
  friend class ZmqSocket;
  explicit ZmqContext(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<void> handle_;
};

// One part of a message. Move-only; a moved-from message is empty and may be assigned or destroyed.
// Thread safety: as an int. May be made in one thread and sent from another.
class ZmqMessage {
 public:
  ZmqMessage();
  ZmqMessage(ZmqMessage&& other) noexcept;
  ZmqMessage& operator=(ZmqMessage&& other) noexcept;
  ~ZmqMessage();

  // Copies `bytes`.
  [[nodiscard]] static ZmqMessage Copy(absl::string_view bytes);

  // Refers to `data`; `owner` keeps it alive and is let go, on an I/O thread, once the bytes have
  // been sent or dropped. `owner`'s deleter must therefore be thread-safe and must not block.
  [[nodiscard]] static ZmqMessage FromBuffer(const void* data, size_t size_bytes,
                                             std::shared_ptr<const void> owner);

  [[nodiscard]] const uint8_t* data() const;
  [[nodiscard]] size_t size() const;
  [[nodiscard]] absl::string_view view() const;

  // The principal that ZAP gave to the connection this message came over; empty for a message that
  // was not received or came over a socket without ZAP. Valid as long as the message.
  [[nodiscard]] absl::string_view user_id() const;

  // The descriptor of the connection this message came over, the one that ZmqEvent::fd names; -1
  // for a message that was not received from a peer. Numbers are used again after a disconnection.
  [[nodiscard]] int source_fd() const;

 private:
  friend class ZmqSocket;
  mutable zmq_msg_t msg_;  // libzmq's getters take it by pointer to non-const
};

enum class SocketType { kPush, kPull, kRep, kPair };

// A CURVE key pair, in Z85 (feed/wire/curve.h makes them). The secret key stays in its process.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

// What differs between sockets. Made by the named functions.
struct SocketOptions {
  enum class Security { kNone, kPlainServer, kPlainClient, kCurveServer, kCurveClient };

  [[nodiscard]] static SocketOptions Plain(std::string user, std::string password) {
    return {.security = Security::kPlainClient,
            .user = std::move(user),
            .password = std::move(password)};
  }
  [[nodiscard]] static SocketOptions PlainServer() { return {.security = Security::kPlainServer}; }
  [[nodiscard]] static SocketOptions Curve(const CurveKeys& own, std::string server_key) {
    return {.security = Security::kCurveClient,
            .curve_secret_key = own.secret_key,
            .curve_public_key = own.public_key,
            .curve_server_key = std::move(server_key)};
  }
  [[nodiscard]] static SocketOptions CurveServer(const CurveKeys& own) {
    return {.security = Security::kCurveServer, .curve_secret_key = own.secret_key};
  }

  Security security = Security::kNone;
  std::string user;      // PLAIN client: the principal of this side; at most 255 bytes
  std::string password;  // PLAIN client: at most 255 bytes (feed/wire/login.h makes them)
  // CURVE, 40 characters of Z85 each. A server needs its secret key; a client its own pair and the
  // server's public key.
  std::string curve_secret_key;
  std::string curve_public_key;
  std::string curve_server_key;
  int64_t max_message_bytes = kMaxMessageBytes;
};

// What happened to a connection of a monitored socket.
struct ZmqEvent {
  enum class Kind {
    kConnected,             // a connection that this side made is up; no handshake yet
    kAccepted,              // a connection that the peer made is up; no handshake yet
    kConnectFailed,         // nobody listens at the endpoint; no further attempt is made
    kHandshakeSucceeded,    // ZMTP and ZAP are done; fd is -1
    kHandshakeFailedAuth,   // the server side's ZAP handler refused this side; fd is -1
    kHandshakeFailedOther,  // the peer does not speak ZMTP, or another mechanism; fd is -1
    kDisconnected,          // the connection is lost, or was closed after a failed handshake
  };
  Kind kind;
  std::string endpoint;  // the remote one of a connecting socket, the local one of a bound socket
  int fd = -1;           // of the connection where known
};

// A socket. Movable; a moved-from socket is closed.
// Thread safety: one thread, checked; events may be read by another than sends and receives. It may
// be made in one thread and handed to another by DetachFromThread() before its first use there.
// Blocking: never.
class ZmqSocket {
 public:
  // Returns RESOURCE_EXHAUSTED if there are too many sockets or descriptors, INVALID_ARGUMENT for a
  // user name, password or key that libzmq does not take.
  [[nodiscard]] static absl::StatusOr<ZmqSocket> Create(const ZmqContext& context, SocketType type,
                                                        const SocketOptions& options);

  ZmqSocket() = default;  // closed
  ZmqSocket(ZmqSocket&& other) noexcept;
  ZmqSocket& operator=(ZmqSocket&& other) noexcept;
  ~ZmqSocket() { Close(); }

  // Binds and returns the endpoint bound, with the port chosen for "tcp://127.0.0.1:*". May be
  // called for several endpoints. Returns INVALID_ARGUMENT for what is no endpoint, UNAVAILABLE if
  // it is taken or does not belong to this host.
  [[nodiscard]] absl::StatusOr<std::string> Bind(const std::string& endpoint);

  // Begins to connect; success or failure is an event of the monitor. Returns INVALID_ARGUMENT for
  // what is no endpoint.
  [[nodiscard]] absl::Status Connect(const std::string& endpoint);

  // Queues one multipart message. Returns false, and leaves `parts` as they were, if there is no
  // connection (any more) to queue it for. Nothing that is queued for a connection that goes away
  // is sent. `parts` must not be empty.
  [[nodiscard]] absl::StatusOr<bool> Send(std::vector<ZmqMessage>&& parts);

  // Takes one whole multipart message, or nullopt if none has arrived.
  [[nodiscard]] absl::StatusOr<std::optional<std::vector<ZmqMessage>>> Receive();

  // From here on NextEvent() reports the connections of this socket. Call it before Connect or
  // Bind.
  [[nodiscard]] absl::Status StartMonitor();

  // The next event, or nullopt if there is none. Requires StartMonitor(). Events are not ordered
  // against messages: what a peer sent before it went is received after the event, if it came.
  // Raises the send buffer of an ipc connection that this side made.
  [[nodiscard]] absl::StatusOr<std::optional<ZmqEvent>> NextEvent();
  // As the system allows (net.core.wmem_max); it counts its own part too and takes twice as much.
  // With its default of 208 KiB, a message of a megabyte goes in five pieces, and the two I/O
  // threads wake one another for each.
  static constexpr int kIpcSendBufferBytes = 512 << 10;

  // Drops what was not sent within kCloseLinger: what was said last goes out to a peer that reads.
  // If the peer does not read, the thread that releases the context last waits that long.
  // Idempotent.
  void Close();
  static constexpr absl::Duration kCloseLinger = absl::Milliseconds(50);

  // As Close(), but what was queued may still go out within `linger`; whoever lets the context go
  // last waits until it has, or until then.
  void CloseAfterSending(absl::Duration linger);

  [[nodiscard]] bool open() const { return handle_ != nullptr; }

  // The next call binds the socket to its thread. The hand-over must synchronise.
  void DetachFromThread() {
    thread_.Detach();
    monitor_thread_.Detach();
  }
  // The same for its messages or its events alone, where each call is made under one lock.
  void DetachMessagesFromThread() { thread_.Detach(); }
  void DetachEventsFromThread() { monitor_thread_.Detach(); }

 private:
  friend class Poller;
  void CheckThread() const;
  void CheckMonitorThread() const;

  std::shared_ptr<void> context_;
  void* handle_ = nullptr;
  void* monitor_ = nullptr;  // a PAIR socket; nullptr without StartMonitor()
  bool receives_ = false;    // not a PUSH
  // Nothing is to be read, and libzmq's descriptor will tell when something is. Anything else than
  // an empty-handed read may have taken that word from the descriptor.
  mutable bool drained_ = false;
  mutable bool monitor_drained_ = false;
  ThreadChecker thread_;          // of messages
  ThreadChecker monitor_thread_;  // of events
};

}  // namespace millrace

#endif  // FEED_WIRE_ZMQ_SOCKET_H_
