// File: feed/wire/zap_server.h
//
// Decides which clients may connect to the server sockets of a context, by ZeroMQ's authentication
// protocol (RFC 27).
//
// Defines: ZapRequest, ZapServer.
//
//   MILLRACE_ASSIGN_OR_RETURN(ZapServer zap, ZapServer::Create(context, [&](const ZapRequest& r) {
//     return logins.Accept(r.user, r.password) ? std::optional(r.user) : std::nullopt;
//   }));
//   poller.Add(zap.socket());
//   ...
//   if (poller.HasInput(zap.socket())) MILLRACE_RETURN_IF_ERROR(zap.Poll());

#ifndef FEED_WIRE_ZAP_SERVER_H_
#define FEED_WIRE_ZAP_SERVER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// What a client presents when it connects.
struct ZapRequest {
  std::string mechanism;  // "NULL", "PLAIN" or "CURVE"
  std::string domain;
  std::string address;    // of the peer; empty or "localhost"-like text for ipc
  std::string user;       // PLAIN only
  std::string password;   // PLAIN only
  std::string curve_key;  // CURVE only: the client's public key, 32 bytes
};

// Answers the authentication requests of all server sockets of one context (RFC 27).
// Thread safety: one thread, checked: the one that calls Poll().
class ZapServer {
 public:
  // Returns the principal to admit the client as (at most 255 bytes; it becomes user_id() of its
  // messages), or nullopt to refuse it with 400. Called inside Poll().
  using Decision = std::function<std::optional<std::string>(const ZapRequest&)>;

  // Returns UNAVAILABLE if the context has one already. A request for another domain than
  // kZapDomain is refused without asking `decide`.
  [[nodiscard]] static absl::StatusOr<ZapServer> Create(const ZmqContext& context, Decision decide);

  // Answers what is waiting.
  [[nodiscard]] absl::Status Poll();

  // To be polled for input.
  [[nodiscard]] ZmqSocket& socket() { return socket_; }

 private:
  ZapServer(ZmqSocket socket, Decision decide)
      : socket_(std::move(socket)), decide_(std::move(decide)) {}

  ZmqSocket socket_;
  Decision decide_;
};

}  // namespace millrace

#endif  // FEED_WIRE_ZAP_SERVER_H_
