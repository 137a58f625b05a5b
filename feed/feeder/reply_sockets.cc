#include "feed/feeder/reply_sockets.h"

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "feed/wire/curve.h"
#include "feed/wire/local_name.h"
#include "feed/wire/login.h"
#include "millrace/status_macros.h"

namespace millrace {

std::string NodePrincipal(const FeedTarget& target) { return absl::StrCat("node/", target.nonce); }

absl::StatusOr<std::unique_ptr<ReplySockets>> ReplySockets::Create(const ZmqContext& context,
                                                                   Options options) {
  std::unique_ptr<ReplySockets> sockets(new ReplySockets(std::move(options)));
  MILLRACE_RETURN_IF_ERROR(sockets->Bind(context));
  return sockets;
}

ReplySockets::ReplySockets(Options options)
    : options_(std::move(options)), challenge_(MakeChallenge()) {}

absl::Status ReplySockets::Bind(const ZmqContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(
      ZapServer zap,
      ZapServer::Create(context, [this](const ZapRequest& request) { return Admit(request); }));
  zap_.emplace(std::move(zap));
  MILLRACE_ASSIGN_OR_RETURN(
      plain_, ZmqSocket::Create(context, SocketType::kPull, SocketOptions::PlainServer()));
  MILLRACE_RETURN_IF_ERROR(plain_.StartMonitor());
  MILLRACE_ASSIGN_OR_RETURN(tcp_endpoint_, plain_.Bind("tcp://127.0.0.1:*"));
  MILLRACE_ASSIGN_OR_RETURN(ipc_endpoint_, plain_.Bind(MakeLocalName()));
  MILLRACE_ASSIGN_OR_RETURN(curve_,
                            ZmqSocket::Create(context, SocketType::kPull,
                                              SocketOptions::CurveServer(options_.curve_keys)));
  return curve_.StartMonitor();
}

absl::Status ReplySockets::Expect(const FeedTarget& target) {
  if (!target.curve_key.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::string node_key, DecodeCurveKey(target.curve_key));
    curve_nodes_.emplace(std::move(node_key), NodePrincipal(target));
  }
  if (!target.key.empty()) plain_nodes_[NodePrincipal(target)] = target.key;
  return absl::OkStatus();
}

bool ReplySockets::IsProof(const ZapRequest& request) const {
  const auto node = plain_nodes_.find(request.user);
  return node != plain_nodes_.end() &&
         SecureEquals(request.password,
                      NodePassword(node->second, challenge_, options_.principal, request.user));
}

void ReplySockets::Refuse(const std::string& what) const {
  MILLRACE_LOG(WARNING) << "refused a reply connection " << what;
  options_.on_refusal(what);
}

std::optional<std::string> ReplySockets::Admit(const ZapRequest& request) const {
  if (request.mechanism == "CURVE") {
    const auto node = curve_nodes_.find(request.curve_key);
    if (node != curve_nodes_.end() && !IsBarred(node->second)) return node->second;
    Refuse(absl::StrCat("with the CURVE key of ",
                        node == curve_nodes_.end() ? "no node that is fed" : "a poisoned node",
                        " from ", request.address));
    return std::nullopt;
  }
  const bool plain = request.mechanism == "PLAIN";
  if (!plain || !IsProof(request) || IsBarred(request.user)) {
    Refuse(absl::StrCat("of '", Ellipsize(EscapeControls(request.user), 64), "' from ",
                        request.address));
    if (plain && plain_nodes_.contains(request.user) && !IsProof(request)) {
      options_.on_false_proof(request.user);
    }
    return std::nullopt;
  }
  options_.on_proof(request.user);
  return request.user;
}

absl::Status ReplySockets::ListenOn(const std::string& address) {
  if (curve_endpoints_.contains(address)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int port, BindTcp(&curve_, address, options_.curve_ports));
  curve_endpoints_[address] = TcpEndpoint(address, port);
  return absl::OkStatus();
}

ReplyEndpoint ReplySockets::ipc_reply() const {
  return {.endpoint = ipc_endpoint_, .challenge = challenge_, .curve_key = ""};
}

ReplyEndpoint ReplySockets::tcp_reply() const {
  return {.endpoint = tcp_endpoint_, .challenge = challenge_, .curve_key = ""};
}

ReplyEndpoint ReplySockets::curve_reply(const std::string& address) const {
  return {.endpoint = curve_endpoints_.at(address),
          .challenge = "",
          .curve_key = options_.curve_keys.public_key};
}

void ReplySockets::DetachFromThread() {
  zap_->socket().DetachFromThread();
  plain_.DetachFromThread();
  curve_.DetachFromThread();
}

void ReplySockets::Close() {
  plain_.Close();
  curve_.Close();
  zap_.reset();
}

}  // namespace millrace
