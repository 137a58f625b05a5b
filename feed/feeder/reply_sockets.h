// File: feed/feeder/reply_sockets.h
//
// Where a feeder hears from the nodes that it feeds, and which of them it lets in. Internal to
// feed/feeder/feeder.h.
//
// Defines: NodePrincipal(), ReplySockets.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto replies, ReplySockets::Create(context, options));
//   MILLRACE_RETURN_IF_ERROR(replies->Expect(target));     // before the node is told where to
//   reply SendOpen(replies->ipc_reply());
//   ...
//   MILLRACE_RETURN_IF_ERROR(replies->zap().Poll());       // logins are answered here
//   auto parts = replies->plain().Receive();

#ifndef FEED_FEEDER_REPLY_SOCKETS_H_
#define FEED_FEEDER_REPLY_SOCKETS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/balance/feed_target.h"
#include "core/net/port_range.h"
#include "feed/wire/frame.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// The name under which the node that `target` names logs in.
[[nodiscard]] std::string NodePrincipal(const FeedTarget& target);

// Two PULL sockets: one for nodes of this host (PLAIN, over ipc or loopback), and one for nodes of
// other hosts (CURVE), which listens from the first ListenOn().
// Thread safety: one thread at a time; see DetachFromThread(). Blocking: never.
class ReplySockets {
 public:
  struct Options {
    std::string principal;  // of the feeder
    CurveKeys curve_keys;
    PortRange curve_ports;
    // A node of this host has logged in, and so proven that it is the node. Called in Poll() of
    // zap().
    std::function<void(const std::string& principal)> on_proof;
    // A login in the name of a node that was expected, with a password of another key. As on_proof.
    std::function<void(const std::string& principal)> on_false_proof;
    // A login was refused that may have been a node's: "... from 10.0.0.7". As on_proof.
    std::function<void(const std::string& what)> on_refusal;
  };

  // Binds the socket for nodes of this host. Returns errors as ZmqSocket and ZapServer.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ReplySockets>> Create(
      const ZmqContext& context, Options options);

  ReplySockets(const ReplySockets&) = delete;
  ReplySockets& operator=(const ReplySockets&) = delete;

  // Lets the node log in from now on. Returns INVALID_ARGUMENT for a CURVE key that is none.
  [[nodiscard]] absl::Status Expect(const FeedTarget& target);
  // Lets it log in no more. False if it was barred before.
  bool Bar(absl::string_view principal) { return barred_.emplace(principal).second; }
  [[nodiscard]] bool IsBarred(absl::string_view principal) const {
    return barred_.contains(principal);
  }

  // Listens for nodes of other hosts on `address`, one of this host's. Does nothing the second
  // time. Errors as BindTcp().
  [[nodiscard]] absl::Status ListenOn(const std::string& address);

  // What a node is told. curve_reply() requires ListenOn() of the same address.
  [[nodiscard]] ReplyEndpoint ipc_reply() const;
  [[nodiscard]] ReplyEndpoint tcp_reply() const;
  [[nodiscard]] ReplyEndpoint curve_reply(const std::string& address) const;

  // To be polled: for messages and for the events of their monitors.
  [[nodiscard]] ZmqSocket& plain() { return plain_; }
  [[nodiscard]] ZmqSocket& curve() { return curve_; }
  [[nodiscard]] ZapServer& zap() { return *zap_; }

  // As ZmqSocket::DetachFromThread(), for all of them.
  void DetachFromThread();
  // Nothing but the destructor may follow.
  void Close();

 private:
  explicit ReplySockets(Options options);
  absl::Status Bind(const ZmqContext& context);
  [[nodiscard]] std::optional<std::string> Admit(const ZapRequest& request) const;
  [[nodiscard]] bool IsProof(const ZapRequest& request) const;
  void Refuse(const std::string& what) const;

  const Options options_;
  const std::string challenge_;  // what logins to plain_ answer
  std::optional<ZapServer> zap_;
  ZmqSocket plain_;
  std::string ipc_endpoint_;
  std::string tcp_endpoint_;
  ZmqSocket curve_;
  std::map<std::string, std::string> curve_endpoints_;  // by address
  // Principals by CURVE key, as the 32 bytes that ZAP tells.
  absl::flat_hash_map<std::string, std::string> curve_nodes_;
  // Keys by principal. Bounded, as barred_ is, by the attempts of all nodes.
  absl::flat_hash_map<std::string, std::string> plain_nodes_;
  std::set<std::string, std::less<>> barred_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_REPLY_SOCKETS_H_
