#include "feed/wire/zmq_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "feed/wire/large_blocks.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kHeartbeatIntervalMs = 1000;
constexpr int kHeartbeatTimeoutMs = 4000;
// A server's limit, from the connection on: a peer that has not logged in holds a descriptor no
// longer.
constexpr int kHandshakeMs = 2000;
// The limit of what a PUSH receives, which is only commands: its server may be an impostor.
constexpr int64_t kMaxCommandBytes = 4096;
constexpr size_t kMaxPrincipalBytes = 64;
constexpr int kMaxSockets = 65536;  // of a context; libzmq's default of 1023 is 300 nodes

// libzmq's errno as a Status. `error` is what zmq_errno() returned.
absl::Status ZmqError(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", zmq_strerror(error));
  switch (error) {
    case EINVAL:
    case EPROTONOSUPPORT:
    case ENOCOMPATPROTO:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ENODEV:
    case ECONNREFUSED:
      return absl::UnavailableError(message);
    case ETERM:
      return absl::CancelledError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status SetOption(void* socket, int option, int value, absl::string_view name) {
  if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0) return absl::OkStatus();
  return ZmqError(zmq_errno(), absl::StrCat("cannot set the socket option ", name));
}

absl::Status SetOption(void* socket, int option, const std::string& value, absl::string_view name) {
  if (zmq_setsockopt(socket, option, value.data(), value.size()) == 0) return absl::OkStatus();
  // The value may be a secret and stays out of the message.
  return ZmqError(zmq_errno(), absl::StrCat("cannot set the socket option ", name, " to a text of ",
                                            value.size(), " bytes"));
}

absl::Status SetCommonOptions(void* socket, int64_t max_message_bytes) {
  MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_LINGER, 0, "LINGER"));
  MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_RECONNECT_IVL, -1, "RECONNECT_IVL"));
  MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_SNDHWM, 0, "SNDHWM"));
  MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_RCVHWM, 0, "RCVHWM"));
  MILLRACE_RETURN_IF_ERROR(
      SetOption(socket, ZMQ_HEARTBEAT_IVL, kHeartbeatIntervalMs, "HEARTBEAT_IVL"));
  MILLRACE_RETURN_IF_ERROR(
      SetOption(socket, ZMQ_HEARTBEAT_TIMEOUT, kHeartbeatTimeoutMs, "HEARTBEAT_TIMEOUT"));
  if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_message_bytes, sizeof(max_message_bytes)) != 0) {
    return ZmqError(zmq_errno(), "cannot set the socket option MAXMSGSIZE");
  }
  return absl::OkStatus();
}

absl::Status SetServerOptions(void* socket) {
  MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_HANDSHAKE_IVL, kHandshakeMs, "HANDSHAKE_IVL"));
  MILLRACE_RETURN_IF_ERROR(
      SetOption(socket, ZMQ_ZAP_DOMAIN, std::string(kZapDomain), "ZAP_DOMAIN"));
  // A draft option in the headers of 4.3 but not behind a macro in every build: without it a
  // missing ZAP handler would let everybody in.
#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif
  return SetOption(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1, "ZAP_ENFORCE_DOMAIN");
}

absl::Status SetSecurity(void* socket, const SocketOptions& options) {
  using Security = SocketOptions::Security;
  switch (options.security) {
    case Security::kNone:
      return absl::OkStatus();
    case Security::kPlainServer:
      MILLRACE_RETURN_IF_ERROR(SetServerOptions(socket));
      return SetOption(socket, ZMQ_PLAIN_SERVER, 1, "PLAIN_SERVER");
    case Security::kPlainClient:
      MILLRACE_RETURN_IF_ERROR(
          SetOption(socket, ZMQ_PLAIN_USERNAME, options.user, "PLAIN_USERNAME"));
      return SetOption(socket, ZMQ_PLAIN_PASSWORD, options.password, "PLAIN_PASSWORD");
    case Security::kCurveServer:
      MILLRACE_RETURN_IF_ERROR(SetServerOptions(socket));
      MILLRACE_RETURN_IF_ERROR(SetOption(socket, ZMQ_CURVE_SERVER, 1, "CURVE_SERVER"));
      return SetOption(socket, ZMQ_CURVE_SECRETKEY, options.curve_secret_key, "CURVE_SECRETKEY");
    case Security::kCurveClient:
      MILLRACE_RETURN_IF_ERROR(
          SetOption(socket, ZMQ_CURVE_SERVERKEY, options.curve_server_key, "CURVE_SERVERKEY"));
      MILLRACE_RETURN_IF_ERROR(
          SetOption(socket, ZMQ_CURVE_PUBLICKEY, options.curve_public_key, "CURVE_PUBLICKEY"));
      return SetOption(socket, ZMQ_CURVE_SECRETKEY, options.curve_secret_key, "CURVE_SECRETKEY");
  }
  return absl::InternalError("unknown kind of socket security");
}

int ZmqType(SocketType type) {
  switch (type) {
    case SocketType::kPush:
      return ZMQ_PUSH;
    case SocketType::kPull:
      return ZMQ_PULL;
    case SocketType::kRep:
      return ZMQ_REP;
    case SocketType::kPair:
      return ZMQ_PAIR;
  }
  return ZMQ_PAIR;
}

// Lets the owner of a zero-copy buffer go. Runs on an I/O thread.
void ReleaseOwner(void* /*data*/, void* hint) {
  delete static_cast<std::shared_ptr<const void>*>(hint);
}

// Receives one part without blocking; false if there is none.
absl::StatusOr<bool> ReceivePart(void* socket, zmq_msg_t* msg) {
  while (zmq_msg_recv(msg, socket, ZMQ_DONTWAIT) < 0) {
    const int error = zmq_errno();
    if (error == EINTR) continue;
    if (error == EAGAIN) return false;
    return ZmqError(error, "cannot receive");
  }
  return true;
}

// libzmq's ZMQ_SNDBUF does not reach ipc connections.
void RaiseSendBuffer(int fd) {
  int domain = 0;
  socklen_t size_bytes = sizeof(domain);
  // An I/O thread may have closed the connection since, and its number be another socket's: of this
  // domain it may have as much.
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size_bytes) != 0 || domain != AF_UNIX) return;
  const int bytes = ZmqSocket::kIpcSendBufferBytes;
  static_cast<void>(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));  // or as it was
}

constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CLOSED |
                        ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_ACCEPT_FAILED;

// A listener stands still for a moment: peers wait to be taken. Told once by a process.
void TellShortage(int error) {
  static std::atomic<bool> told{false};
  const bool too_many = error == ENOBUFS;
  if ((!too_many && error != EMFILE && error != ENFILE) || told.exchange(true)) return;
  MILLRACE_LOG(WARNING) << "feed: "
                        << (too_many ? "too many peers have connected and not logged in"
                                     : "no file descriptor is left for a peer")
                        << "; others wait until there is room (ulimit -n; who connects?)";
}

std::optional<ZmqEvent::Kind> EventKind(uint16_t event) {
  switch (event) {
    case ZMQ_EVENT_CONNECTED:
      return ZmqEvent::Kind::kConnected;
    case ZMQ_EVENT_ACCEPTED:
      return ZmqEvent::Kind::kAccepted;
    case ZMQ_EVENT_CLOSED:  // with RECONNECT_IVL -1: the connecter gave up (or a listener was
                            // closed)
      return ZmqEvent::Kind::kConnectFailed;
    case ZMQ_EVENT_DISCONNECTED:
      return ZmqEvent::Kind::kDisconnected;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return ZmqEvent::Kind::kHandshakeSucceeded;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return ZmqEvent::Kind::kHandshakeFailedAuth;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return ZmqEvent::Kind::kHandshakeFailedOther;
    default:
      return std::nullopt;
  }
}

bool HasDescriptor(ZmqEvent::Kind kind) {
  return kind == ZmqEvent::Kind::kConnected || kind == ZmqEvent::Kind::kAccepted ||
         kind == ZmqEvent::Kind::kDisconnected;
}

}  // namespace

bool IsPrincipal(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxPrincipalBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::string_view("/_.:-").find(c) != absl::string_view::npos;
         });
}

// ---------------------------------------------------------------------------------- ZmqContext

absl::StatusOr<ZmqContext> ZmqContext::Create() {
  KeepLargeBlocks();  // those of messages
  void* context = zmq_ctx_new();
  if (context == nullptr) return ZmqError(zmq_errno(), "cannot make a ZeroMQ context");
  std::shared_ptr<void> handle(context, [](void* ctx) {
    while (zmq_ctx_term(ctx) != 0 && zmq_errno() == EINTR) {
    }
  });
  if (zmq_ctx_set(context, ZMQ_MAX_SOCKETS, kMaxSockets) != 0) {
    return ZmqError(zmq_errno(), "cannot configure a ZeroMQ context");
  }
  return ZmqContext(std::move(handle));
}

// ---------------------------------------------------------------------------------- ZmqMessage

ZmqMessage::ZmqMessage() { zmq_msg_init(&msg_); }

ZmqMessage::ZmqMessage(ZmqMessage&& other) noexcept {
  zmq_msg_init(&msg_);
  zmq_msg_move(&msg_, &other.msg_);
}

ZmqMessage& ZmqMessage::operator=(ZmqMessage&& other) noexcept {
  if (this != &other) zmq_msg_move(&msg_, &other.msg_);
  return *this;
}

ZmqMessage::~ZmqMessage() { zmq_msg_close(&msg_); }

ZmqMessage ZmqMessage::Copy(absl::string_view bytes) {
  ZmqMessage message;
  MILLRACE_CHECK(zmq_msg_init_size(&message.msg_, bytes.size()) == 0) << "out of memory";
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&message.msg_), bytes.data(), bytes.size());
  return message;
}

ZmqMessage ZmqMessage::FromBuffer(const void* data, size_t size_bytes,
                                  std::shared_ptr<const void> owner) {
  ZmqMessage message;
  auto* hint = new std::shared_ptr<const void>(std::move(owner));
  MILLRACE_CHECK(zmq_msg_init_data(&message.msg_, const_cast<void*>(data), size_bytes,
                                   &ReleaseOwner, hint) == 0)
      << "out of memory";
  return message;
}

const uint8_t* ZmqMessage::data() const { return static_cast<const uint8_t*>(zmq_msg_data(&msg_)); }

size_t ZmqMessage::size() const { return zmq_msg_size(&msg_); }

absl::string_view ZmqMessage::view() const {
  return absl::string_view(static_cast<const char*>(zmq_msg_data(&msg_)), size());
}

absl::string_view ZmqMessage::user_id() const {
  const char* user_id = zmq_msg_gets(&msg_, "User-Id");
  return user_id == nullptr ? absl::string_view() : absl::string_view(user_id);
}

int ZmqMessage::source_fd() const {
  return zmq_msg_gets(&msg_, "__fd") == nullptr ? -1 : zmq_msg_get(&msg_, ZMQ_SRCFD);
}

// ----------------------------------------------------------------------------------- ZmqSocket

absl::StatusOr<ZmqSocket> ZmqSocket::Create(const ZmqContext& context, SocketType type,
                                            const SocketOptions& options) {
  ZmqSocket socket;
  socket.context_ = context.handle_;
  socket.handle_ = zmq_socket(context.handle_.get(), ZmqType(type));
  if (socket.handle_ == nullptr) return ZmqError(zmq_errno(), "cannot make a ZeroMQ socket");
  socket.receives_ = type != SocketType::kPush;
  MILLRACE_RETURN_IF_ERROR(SetCommonOptions(
      socket.handle_, type == SocketType::kPush ? kMaxCommandBytes : options.max_message_bytes));
  MILLRACE_RETURN_IF_ERROR(SetSecurity(socket.handle_, options));
  return socket;
}

ZmqSocket::ZmqSocket(ZmqSocket&& other) noexcept
    : context_(std::move(other.context_)),
      handle_(std::exchange(other.handle_, nullptr)),
      monitor_(std::exchange(other.monitor_, nullptr)),
      receives_(other.receives_) {}

ZmqSocket& ZmqSocket::operator=(ZmqSocket&& other) noexcept {
  if (this == &other) return *this;
  Close();
  context_ = std::move(other.context_);
  handle_ = std::exchange(other.handle_, nullptr);
  monitor_ = std::exchange(other.monitor_, nullptr);
  receives_ = other.receives_;
  drained_ = monitor_drained_ = false;
  DetachFromThread();
  return *this;
}

void ZmqSocket::CheckThread() const {
  MILLRACE_CHECK(handle_ != nullptr) << "the socket is closed";
  MILLRACE_CHECK(thread_.IsOnSameThread()) << "a ZeroMQ socket is used from two threads";
}

void ZmqSocket::CheckMonitorThread() const {
  MILLRACE_CHECK(monitor_ != nullptr) << "StartMonitor() was not called, or the socket is closed";
  MILLRACE_CHECK(monitor_thread_.IsOnSameThread())
      << "the events of a ZeroMQ socket are read by two threads";
}

absl::StatusOr<std::string> ZmqSocket::Bind(const std::string& endpoint) {
  CheckThread();
  drained_ = false;
  if (absl::StartsWith(endpoint, "tcp://[")) {
    MILLRACE_RETURN_IF_ERROR(SetOption(handle_, ZMQ_IPV6, 1, "IPV6"));
  }
  if (zmq_bind(handle_, endpoint.c_str()) != 0) {
    return ZmqError(zmq_errno(), absl::StrCat("cannot bind to ", endpoint));
  }
  char bound[512];
  size_t size_bytes = sizeof(bound);
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, bound, &size_bytes) != 0) {
    return ZmqError(zmq_errno(), absl::StrCat("cannot tell what was bound for ", endpoint));
  }
  return std::string(bound, size_bytes == 0 ? 0 : size_bytes - 1);  // without the final NUL
}

absl::Status ZmqSocket::Connect(const std::string& endpoint) {
  CheckThread();
  drained_ = false;
  if (absl::StartsWith(endpoint, "tcp://[")) {
    MILLRACE_RETURN_IF_ERROR(SetOption(handle_, ZMQ_IPV6, 1, "IPV6"));
  }
  if (zmq_connect(handle_, endpoint.c_str()) == 0) return absl::OkStatus();
  return ZmqError(zmq_errno(), absl::StrCat("cannot connect to ", endpoint));
}

absl::StatusOr<bool> ZmqSocket::Send(std::vector<ZmqMessage>&& parts) {
  CheckThread();
  MILLRACE_CHECK(!parts.empty());
  drained_ = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
    while (zmq_msg_send(&parts[i].msg_, handle_, flags) < 0) {
      const int error = zmq_errno();
      if (error == EINTR) continue;
      if (error != EAGAIN) return ZmqError(error, "cannot send");
      if (i == 0) return false;
      // The connection goes away in the middle of the message, and the monitor tells. libzmq drops
      // the parts up to the last one, which it has to be given: it would drop what follows instead.
      break;
    }
  }
  parts.clear();
  return true;
}

absl::StatusOr<std::optional<std::vector<ZmqMessage>>> ZmqSocket::Receive() {
  CheckThread();
  std::vector<ZmqMessage> parts;
  drained_ = false;
  while (true) {
    ZmqMessage part;
    MILLRACE_ASSIGN_OR_RETURN(const bool received, ReceivePart(handle_, &part.msg_));
    if (!received) {
      drained_ = true;
      // libzmq delivers whole messages: nothing can be missing after a first part.
      MILLRACE_CHECK(parts.empty());
      return std::optional<std::vector<ZmqMessage>>();
    }
    const bool more = zmq_msg_more(&part.msg_) != 0;
    parts.push_back(std::move(part));
    if (!more) return std::optional<std::vector<ZmqMessage>>(std::move(parts));
  }
}

absl::Status ZmqSocket::StartMonitor() {
  CheckThread();
  MILLRACE_CHECK(monitor_ == nullptr) << "the socket has a monitor already";
  const std::string endpoint =
      absl::StrCat("inproc://monitor-", absl::Hex(reinterpret_cast<uintptr_t>(handle_)));
  if (zmq_socket_monitor(handle_, endpoint.c_str(), kEvents) != 0) {
    return ZmqError(zmq_errno(), "cannot monitor a socket");
  }
  void* monitor = zmq_socket(context_.get(), ZMQ_PAIR);
  // Without RCVHWM 0, an I/O thread with a thousand unread events would block.
  if (monitor == nullptr || !SetOption(monitor, ZMQ_LINGER, 0, "LINGER").ok() ||
      !SetOption(monitor, ZMQ_RCVHWM, 0, "RCVHWM").ok() ||
      zmq_connect(monitor, endpoint.c_str()) != 0) {
    const int error = zmq_errno();
    zmq_socket_monitor(handle_, nullptr, 0);
    if (monitor != nullptr) zmq_close(monitor);
    return ZmqError(error, "cannot read the monitor of a socket");
  }
  monitor_ = monitor;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ZmqEvent>> ZmqSocket::NextEvent() {
  CheckMonitorThread();
  while (true) {
    ZmqMessage head;
    ZmqMessage endpoint;
    MILLRACE_ASSIGN_OR_RETURN(const bool received, ReceivePart(monitor_, &head.msg_));
    monitor_drained_ = !received;
    if (!received) return std::optional<ZmqEvent>();
    MILLRACE_ASSIGN_OR_RETURN(const bool complete, ReceivePart(monitor_, &endpoint.msg_));
    MILLRACE_CHECK(complete && head.size() >= 6) << "an event of libzmq has two parts";
    uint16_t number;  // in the byte order of this host
    uint32_t value;
    std::memcpy(&number, head.data(), sizeof(number));
    std::memcpy(&value, head.data() + sizeof(number), sizeof(value));
    if (number == ZMQ_EVENT_ACCEPT_FAILED) TellShortage(static_cast<int>(value));
    const std::optional<ZmqEvent::Kind> kind = EventKind(number);
    if (!kind.has_value()) continue;
    if (*kind == ZmqEvent::Kind::kConnected && absl::StartsWith(endpoint.view(), "ipc://")) {
      RaiseSendBuffer(static_cast<int>(value));
    }
    return std::optional<ZmqEvent>(
        ZmqEvent{.kind = *kind,
                 .endpoint = std::string(endpoint.view()),
                 .fd = HasDescriptor(*kind) ? static_cast<int>(value) : -1});
  }
}

void ZmqSocket::Close() { CloseAfterSending(kCloseLinger); }

void ZmqSocket::CloseAfterSending(absl::Duration linger) {
  if (handle_ == nullptr) return;
  CheckThread();
  // Fails for no value of this range.
  static_cast<void>(SetOption(handle_, ZMQ_LINGER,
                              static_cast<int>(absl::ToInt64Milliseconds(linger)), "LINGER"));
  if (monitor_ != nullptr) {
    // The monitor goes first: otherwise an I/O thread would block on an event that is no longer
    // read.
    zmq_socket_monitor(handle_, nullptr, 0);
    zmq_close(std::exchange(monitor_, nullptr));
  }
  zmq_close(std::exchange(handle_, nullptr));
  context_.reset();
}

}  // namespace millrace
