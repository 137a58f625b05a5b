#include "feed/feeder/feeder_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "feed/wire/curve.h"
#include "feed/wire/local_name.h"
#include "feed/wire/login.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Replies that are handled before other work gets a turn.
constexpr int kRepliesPerTurn = 1000;
// Until a node that does not know this feeder's key is tried again.
constexpr absl::Duration kRefusedPause = absl::Milliseconds(50);

std::string NodePrincipal(const FeedTarget& target) { return absl::StrCat("node/", target.nonce); }

}  // namespace

const std::string& FeederLoop::EndpointOf(const Connection& connection) {
  switch (connection.route) {
    case Route::kIpc:
      break;
    case Route::kTcp:
      return connection.target.tcp_endpoint;
    case Route::kCurve:
      return connection.target.curve_endpoint;
  }
  return connection.target.ipc_endpoint;
}

std::string FeederLoop::PlaceOf(const Connection& connection) {
  return absl::StrCat(connection.target.node, " at ", EndpointOf(connection));
}

absl::StatusOr<std::unique_ptr<FeederLoop>> FeederLoop::Create(
    const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox) {
  MILLRACE_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create(options.io_threads));
  MILLRACE_ASSIGN_OR_RETURN(CurveKeys curve_keys, MakeCurveKeys());
  std::unique_ptr<FeederLoop> loop(
      new FeederLoop(options, std::move(outbox), std::move(context), std::move(curve_keys)));
  MILLRACE_RETURN_IF_ERROR(loop->Bind());
  return loop;
}

FeederLoop::FeederLoop(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
                       ZmqContext context, CurveKeys curve_keys)
    : options_(options),
      outbox_(std::move(outbox)),
      principal_(absl::StrCat("feeder/", RandomHex(8))),
      challenge_(MakeChallenge()),
      curve_keys_(std::move(curve_keys)),
      context_(std::move(context)) {}

absl::Status FeederLoop::Bind() {
  MILLRACE_ASSIGN_OR_RETURN(
      ZapServer zap,
      ZapServer::Create(context_, [this](const ZapRequest& request) { return Admit(request); }));
  zap_.emplace(std::move(zap));
  MILLRACE_ASSIGN_OR_RETURN(
      reply_, ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::PlainServer()));
  MILLRACE_RETURN_IF_ERROR(reply_.StartMonitor());
  MILLRACE_ASSIGN_OR_RETURN(reply_tcp_, reply_.Bind("tcp://127.0.0.1:*"));
  MILLRACE_ASSIGN_OR_RETURN(reply_ipc_, reply_.Bind(MakeLocalName()));
  MILLRACE_ASSIGN_OR_RETURN(
      curve_reply_,
      ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::CurveServer(curve_keys_)));
  MILLRACE_RETURN_IF_ERROR(curve_reply_.StartMonitor());
  poller_.Add(outbox_->wake());
  poller_.Add(zap_->socket());
  poller_.Add(reply_);
  poller_.Add(curve_reply_);
  return absl::OkStatus();
}

bool FeederLoop::IsProof(const ZapRequest& request) const {
  const auto node = plain_nodes_.find(request.user);
  return node != plain_nodes_.end() &&
         SecureEquals(request.password,
                      NodePassword(node->second, challenge_, principal_, request.user));
}

std::optional<std::string> FeederLoop::Admit(const ZapRequest& request) {
  if (request.mechanism == "CURVE") {
    const auto node = curve_nodes_.find(request.curve_key);
    if (node != curve_nodes_.end() && !poisoned_.contains(node->second)) return node->second;
    MILLRACE_LOG(WARNING) << "refused a reply connection with "
                          << (node == curve_nodes_.end() ? "the CURVE key of no node that is fed"
                                                         : "the CURVE key of a poisoned node")
                          << " from " << request.address;
    return std::nullopt;
  }
  if (request.mechanism != "PLAIN" || !IsProof(request) || poisoned_.contains(request.user)) {
    MILLRACE_LOG(WARNING) << "refused a reply connection of '"
                          << Ellipsize(EscapeControls(request.user), 64) << "' from "
                          << request.address;
    return std::nullopt;
  }
  for (const auto& [key, connection] : connections_) {
    if (NodePrincipal(connection->target) == request.user) Proven(*connection);
  }
  return request.user;
}

FeederStats FeederLoop::stats() const {
  MutexLock lock(&stats_mu_);
  FeederStats stats = stats_;
  stats.batches_sent = outbox_->batches_sent();
  stats.bytes_sent = outbox_->bytes_sent();
  stats.batches_placed = outbox_->batches_placed();
  return stats;
}

void FeederLoop::Run() {
  while (!outbox_->closed()) {
    turns_.TakeAsSocketThread();
    ClaimSockets();
    while (!outbox_->closed() && !turns_.wanted() && failure_.ok()) {
      RunTurn(absl::InfiniteDuration());
    }
    if (!failure_.ok()) outbox_->Close();
    turns_.Give();
  }
  turns_.Stop();
  outbox_->Close();             // if another thread serves: it wakes and leaves
  turns_.TakeAsSocketThread();  // for good
  ClaimSockets();
  if (!failure_.ok()) MILLRACE_LOG(ERROR) << "the feeder's socket thread ends: " << failure_;
  EndAll(failure_.ok() ? absl::CancelledError("the feeder was stopped") : failure_);
}

void FeederLoop::Serve(absl::FunctionRef<AfterTurn()> after_turn, absl::Duration timeout) {
  if (!turns_.TryLead([this] { outbox_->WakeThread(); })) return;
  ClaimSockets();
  const absl::Duration until = RealClock()->SteadyNow() + timeout;
  absl::Duration left = timeout;
  AfterTurn next = after_turn();  // it may have come meanwhile
  while (next == AfterTurn::kGoOn && left > absl::ZeroDuration() && !turns_.stopped() &&
         !outbox_->closed() && failure_.ok()) {
    RunTurn(left);
    next = after_turn();
    left = until - RealClock()->SteadyNow();
  }
  turns_.StopLeading(/*yield=*/next != AfterTurn::kLeave);
}

void FeederLoop::ClaimSockets() {
  const std::thread::id self = std::this_thread::get_id();
  if (std::exchange(claimed_by_, self) == self) return;
  zap_->socket().DetachFromThread();
  reply_.DetachFromThread();
  curve_reply_.DetachFromThread();
  for (const auto& [socket, connection] : by_socket_) {
    connection->link->socket().DetachEventsFromThread();
  }
}

void FeederLoop::RunTurn(absl::Duration timeout) {
  failure_ = poller_.Wait(std::min(timeout, PollTimeout()));
  if (failure_.ok() && poller_.HasInput(zap_->socket())) failure_ = zap_->Poll();
  if (!failure_.ok()) return;
  if (poller_.IsWoken(outbox_->wake())) {
    for (FeederCommand& command : outbox_->Take()) Execute(std::move(command));
  }
  // What happened to connections is read before the replies and acted on after them: what a node
  // said before it went is heard.
  const std::vector<const ZmqSocket*> changed = poller_.WithEvents();
  const std::vector<int> closed = ReadClosed(reply_);
  const std::vector<int> curve_closed = ReadClosed(curve_reply_);
  if (poller_.HasInput(reply_) || !changed.empty()) DrainReplies(reply_);
  if (poller_.HasInput(curve_reply_) || !changed.empty()) DrainReplies(curve_reply_);
  for (const ZmqSocket* socket : changed) {
    const auto it = by_socket_.find(socket);
    if (it != by_socket_.end()) HandleEvents(*it->second);
  }
  HandleReplyEvents(reply_, closed);
  HandleReplyEvents(curve_reply_, curve_closed);
  ConnectAgain();
  GiveUpUnproven();
  EndBroken();
}

// A last message is still written by the I/O threads, as far as the sockets' Close() lets them.
void FeederLoop::EndAll(const absl::Status& status) {
  std::vector<std::shared_ptr<FeedSession>> open;
  for (FeederCommand& command : outbox_->Take()) open.push_back(std::move(command.session));
  for (auto& [id, entry] : sessions_) open.push_back(entry.session);
  for (const std::shared_ptr<FeedSession>& session : open) {
    session->OnUnlink();  // no ABORT: what a node has whole it may still use
    session->Abort(status);
  }
  for (const auto& [key, connection] : connections_) Disconnect(*connection);
  sessions_.clear();
  connections_.clear();
  reply_.Close();
  curve_reply_.Close();
  zap_.reset();
}

absl::Duration FeederLoop::PollTimeout() const {
  absl::Duration timeout = absl::InfiniteDuration();
  if (draining_ == 0 && waiting_ == 0 && unproven_ == 0) return timeout;
  const absl::Duration now = options_.clock->SteadyNow();
  for (const auto& [key, connection] : connections_) {
    if (connection->retry_at.has_value()) timeout = std::min(timeout, *connection->retry_at - now);
    if (connection->prove_by.has_value()) timeout = std::min(timeout, *connection->prove_by - now);
  }
  for (const auto& [id, entry] : sessions_) {
    if (entry.broken_by.has_value()) timeout = std::min(timeout, *entry.broken_by - now);
  }
  return timeout;
}

// ------------------------------------------------------------------------------------ commands

void FeederLoop::Execute(FeederCommand command) {
  const uint64_t id = command.session->id();
  switch (command.kind) {
    case FeederCommand::Kind::kOpen:
      Open(command.session);
      return;
    case FeederCommand::Kind::kClose:
      CloseSession(id);
      return;
    case FeederCommand::Kind::kPoison:
      Poison(NodePrincipal(command.session->target()), command.reason);
      return;
    case FeederCommand::Kind::kBreak: {
      const auto it = sessions_.find(id);
      if (it != sessions_.end()) Break(it->second, command.reason);
      return;
    }
  }
}

void FeederLoop::Open(const std::shared_ptr<FeedSession>& session) {
  if (poisoned_.contains(NodePrincipal(session->target()))) {
    session->OnEnd(SessionEnd::kBadPeer, absl::DataLossError(absl::StrCat(
                                             session->Place(), ": the node sent a bad frame ",
                                             "earlier and is not spoken to any more")));
    return;
  }
  absl::StatusOr<Connection*> connection = FindOrConnect(session->target());
  if (!connection.ok()) {
    session->OnEnd(SessionEnd::kBroken, connection.status());
    return;
  }
  Entry& entry = sessions_[session->id()];
  entry.session = session;
  entry.connection = *connection;
  (*connection)->sessions.insert(session->id());
  Count([](FeederStats& stats) { ++stats.sessions_opened; });
  if ((*connection)->route != Route::kCurve || (*connection)->handshaken) SendOpen(entry);
}

void FeederLoop::SendOpen(Entry& entry) {
  // A node that is reached by ipc reaches this process by ipc, and so on.
  const Connection& connection = *entry.connection;
  ReplyEndpoint reply{.endpoint = reply_ipc_, .challenge = challenge_, .curve_key = ""};
  if (connection.route == Route::kTcp) reply.endpoint = reply_tcp_;
  if (connection.route == Route::kCurve) {
    reply = {.endpoint = curve_replies_.at(connection.local_address),
             .challenge = "",
             .curve_key = curve_keys_.public_key};
  }
  entry.session->OnLink(connection.link, reply);
  if (connection.route != Route::kCurve && connection.handshaken && !connection.proven) {
    entry.session->OnUnproven(PlaceOf(connection));
  }
}

void FeederLoop::CloseSession(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Entry& entry = it->second;
  if (entry.connection != nullptr) entry.connection->sessions.erase(id);
  if (entry.broken_by.has_value()) --draining_;
  sessions_.erase(it);
}

// --------------------------------------------------------------------------------- connections

absl::StatusOr<FeederLoop::Connection*> FeederLoop::FindOrConnect(const FeedTarget& target) {
  const ConnectionKey key{
      absl::StrCat(target.ipc_endpoint, " ", target.tcp_endpoint, " ", target.curve_endpoint),
      absl::StrCat(target.key, " ", target.curve_key)};
  const auto it = connections_.find(key);
  if (it != connections_.end()) return it->second.get();
  if (!target.curve_key.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::string node_key, DecodeCurveKey(target.curve_key));
    curve_nodes_.emplace(std::move(node_key), NodePrincipal(target));
  }
  if (!target.key.empty()) plain_nodes_[NodePrincipal(target)] = target.key;
  auto connection = std::make_unique<Connection>();
  connection->target = target;
  connection->route = FirstRoute(target);
  connection->refused_until = options_.clock->SteadyNow() + options_.open_timeout / 2;
  if (connection->route == Route::kTcp &&
      WhereLocalName(target.ipc_endpoint) == LocalNamePlace::kElsewhere) {
    return absl::UnavailableError(absl::StrCat(
        target.node,
        " listens on another host, or in another network namespace, on loopback alone: ",
        "give its agent an address that other hosts reach it at"));
  }
  MILLRACE_RETURN_IF_ERROR(Connect(*connection));
  Connection* result = connection.get();
  connections_.emplace(key, std::move(connection));
  return result;
}

FeederLoop::Route FeederLoop::FirstRoute(const FeedTarget& target) const {
  if (options_.curve_only) return Route::kCurve;
  if (WhereLocalName(target.ipc_endpoint) == LocalNamePlace::kHere) return Route::kIpc;
  return target.curve_endpoint.empty() ? Route::kTcp : Route::kCurve;
}

absl::Status FeederLoop::Connect(Connection& connection) {
  const FeedTarget& target = connection.target;
  MILLRACE_ASSIGN_OR_RETURN(
      ZmqSocket push,
      ZmqSocket::Create(context_, SocketType::kPush,
                        connection.route == Route::kCurve
                            ? SocketOptions::Curve(curve_keys_, target.curve_key)
                            : SocketOptions::Plain(
                                  principal_, FeederPassword(target.key, principal_, ++logins_))));
  MILLRACE_RETURN_IF_ERROR(push.StartMonitor());
  MILLRACE_RETURN_IF_ERROR(push.Connect(EndpointOf(connection)));
  connection.link = std::make_shared<FeederLink>(std::move(push));
  poller_.AddMonitor(connection.link->socket());
  by_socket_[&connection.link->socket()] = &connection;
  return absl::OkStatus();
}

void FeederLoop::Disconnect(Connection& connection) {
  if (connection.link == nullptr) return;
  poller_.Remove(connection.link->socket());
  by_socket_.erase(&connection.link->socket());
  connection.link->Close();
  connection.link.reset();
}

bool FeederLoop::HasOtherRoute(const Connection& connection) {
  const FeedTarget& target = connection.target;
  return connection.route == Route::kIpc &&
         !(target.curve_endpoint.empty() && target.tcp_endpoint.empty());
}

// Whoever has the ipc endpoint, or nobody, has not shown that it is the node: nothing but OPENs was
// sent.
bool FeederLoop::TakeOtherRoute(Connection& connection, const absl::Status& why) {
  if (connection.proven || !HasOtherRoute(connection)) return false;
  if (absl::IsUnauthenticated(why)) MILLRACE_LOG(WARNING) << why.message();
  connection.earlier = why;
  Disconnect(connection);
  ExpectProof(connection, std::nullopt);
  connection.handshaken = false;
  connection.route = connection.target.curve_endpoint.empty() ? Route::kTcp : Route::kCurve;
  connection.refused_until = options_.clock->SteadyNow() + options_.open_timeout / 2;
  const absl::Status status = Connect(connection);
  if (!status.ok()) {
    Lose(connection, SessionEnd::kBroken, status);
    return true;
  }
  for (const uint64_t id : connection.sessions) {
    Entry& entry = sessions_.at(id);
    if (connection.route == Route::kTcp) {
      SendOpen(entry);
    } else {
      entry.session->OnConnecting();
    }
  }
  return true;
}

bool FeederLoop::TryAgainLater(Connection& connection) {
  const absl::Duration now = options_.clock->SteadyNow();
  if (connection.route != Route::kCurve || now >= connection.refused_until) return false;
  // The announcement of this feeder's key may be on its way to the node.
  Disconnect(connection);
  connection.retry_at = now + kRefusedPause;
  ++waiting_;
  return true;
}

void FeederLoop::ExpectProof(Connection& connection, std::optional<absl::Duration> by) {
  if (connection.prove_by.has_value()) --unproven_;
  connection.prove_by = by;
  if (by.has_value()) ++unproven_;
}

void FeederLoop::Proven(Connection& connection) {
  if (std::exchange(connection.proven, true)) return;
  ExpectProof(connection, std::nullopt);
  for (const uint64_t id : connection.sessions) sessions_.at(id).session->OnProof();
}

void FeederLoop::GiveUpUnproven() {
  if (unproven_ == 0) return;
  const absl::Duration now = options_.clock->SteadyNow();
  std::vector<Connection*> due;
  for (const auto& [key, connection] : connections_) {
    if (connection->prove_by.has_value() && *connection->prove_by <= now) {
      due.push_back(connection.get());
    }
  }
  for (Connection* connection : due) {
    TakeOtherRoute(*connection, UnprovenError(PlaceOf(*connection), options_.open_timeout / 2));
  }
}

void FeederLoop::ConnectAgain() {
  if (waiting_ == 0) return;
  const absl::Duration now = options_.clock->SteadyNow();
  std::vector<Connection*> due;
  for (const auto& [key, connection] : connections_) {
    if (connection->retry_at.has_value() && *connection->retry_at <= now) {
      due.push_back(connection.get());
    }
  }
  for (Connection* connection : due) {
    connection->retry_at.reset();
    --waiting_;
    const absl::Status status = Connect(*connection);
    if (!status.ok()) Lose(*connection, SessionEnd::kBroken, status);
  }
}

absl::Status FeederLoop::HandshakeDone(Connection& connection) {
  connection.handshaken = true;
  if (connection.route != Route::kCurve) {
    if (connection.proven) return absl::OkStatus();
    const std::string place = PlaceOf(connection);
    for (const uint64_t id : connection.sessions) {
      sessions_.at(id).session->OnUnproven(place);
    }
    if (HasOtherRoute(connection)) {
      ExpectProof(connection, options_.clock->SteadyNow() + options_.open_timeout / 2);
    }
    return absl::OkStatus();
  }
  const std::string& local = connection.local_address;
  if (local.empty()) {
    return absl::UnavailableError(
        absl::StrCat(connection.target.node, ": the connection was lost at once"));
  }
  if (curve_replies_.find(local) == curve_replies_.end()) {
    const absl::StatusOr<int> port = BindTcp(&curve_reply_, local, options_.reply_ports);
    if (!port.ok()) {
      return Annotate(port.status(),
                      absl::StrCat("listening for replies of ", connection.target.node));
    }
    curve_replies_[local] = TcpEndpoint(local, *port);
  }
  for (const uint64_t id : connection.sessions) SendOpen(sessions_.at(id));
  return absl::OkStatus();
}

void FeederLoop::HandleEvents(Connection& connection) {
  const std::string place = PlaceOf(connection);
  while (true) {
    absl::StatusOr<std::optional<ZmqEvent>> event = connection.link->socket().NextEvent();
    if (!event.ok()) return Lose(connection, SessionEnd::kBroken, event.status());
    if (!event->has_value()) return;
    const ZmqEvent::Kind kind = (*event)->kind;
    switch (kind) {
      case ZmqEvent::Kind::kHandshakeSucceeded:
        if (const absl::Status status = HandshakeDone(connection); !status.ok()) {
          return Lose(connection, SessionEnd::kBroken, status);
        }
        break;
      case ZmqEvent::Kind::kConnected:
        // None if the connection is closed again, refused: other events say so.
        if (connection.route == Route::kCurve) {
          connection.local_address = LocalAddressOf((*event)->fd).value_or("");
        }
        break;
      case ZmqEvent::Kind::kAccepted:
        break;
      case ZmqEvent::Kind::kConnectFailed:
        return Fail(connection, SessionEnd::kBroken,
                    absl::UnavailableError(absl::StrCat(place, ": nobody listens there")));
      case ZmqEvent::Kind::kHandshakeFailedAuth:
        if (TryAgainLater(connection)) return;
        return Fail(connection, SessionEnd::kRefused,
                    absl::UnauthenticatedError(absl::StrCat(
                        place, " refused the key of this feeder; the address belongs to another ",
                        "process, or this feeder is barred there after a bad frame",
                        connection.route == Route::kCurve
                            ? ", or the coordinator has not announced its CURVE key"
                            : "")));
      case ZmqEvent::Kind::kHandshakeFailedOther:
        return Fail(connection, SessionEnd::kBroken,
                    absl::UnavailableError(
                        absl::StrCat(place, " does not speak the feed protocol's ZMTP")));
      case ZmqEvent::Kind::kDisconnected:
        return Fail(connection, SessionEnd::kBroken,
                    absl::UnavailableError(absl::StrCat(
                        place, connection.handshaken
                                   ? ": the connection is lost"
                                   : ": the connection was closed before the handshake was done")));
    }
  }
}

void FeederLoop::Fail(Connection& connection, SessionEnd end, const absl::Status& why) {
  if (!TakeOtherRoute(connection, why)) Lose(connection, end, why);
}

void FeederLoop::Lose(Connection& connection, SessionEnd end, const absl::Status& last) {
  // That another process has the node's address explains more than what came after it.
  const absl::Status why =
      connection.earlier.ok()
          ? last
          : absl::Status(absl::IsUnauthenticated(connection.earlier) ? connection.earlier.code()
                                                                     : last.code(),
                         absl::StrCat(connection.earlier.message(), "; then: ", last.message()));
  const std::set<uint64_t> ids = std::move(connection.sessions);
  for (const uint64_t id : ids) {
    Entry& entry = sessions_.at(id);
    entry.connection = nullptr;
    if (end == SessionEnd::kBroken) {
      Break(entry, why);
    } else {
      entry.session->OnEnd(end, why);
    }
  }
  if (connection.retry_at.has_value()) --waiting_;
  ExpectProof(connection, std::nullopt);
  Disconnect(connection);
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->second.get() == &connection) {
      connections_.erase(it);
      return;
    }
  }
}

// The session ends now if nothing more can come from the node, otherwise when its reply connection
// is closed too, or after drain_timeout.
void FeederLoop::Break(Entry& entry, const absl::Status& why) {
  if (entry.broken_by.has_value()) return;
  const absl::Duration now = options_.clock->SteadyNow();
  entry.broken_why = why;
  entry.broken_by = entry.reply_fd < 0 ? now : now + options_.drain_timeout;
  ++draining_;
}

std::vector<int> FeederLoop::ReadClosed(ZmqSocket& reply) {
  std::vector<int> closed;
  if (!poller_.HasEvent(reply)) return closed;
  while (true) {
    absl::StatusOr<std::optional<ZmqEvent>> event = reply.NextEvent();
    if (!event.ok() || !event->has_value()) return closed;
    if ((*event)->kind == ZmqEvent::Kind::kDisconnected) closed.push_back((*event)->fd);
    // The number belongs to another connection already; drain_timeout ends the sessions of the old.
    if ((*event)->kind == ZmqEvent::Kind::kAccepted) std::erase(closed, (*event)->fd);
  }
}

void FeederLoop::HandleReplyEvents(const ZmqSocket& reply, const std::vector<int>& closed_fds) {
  for (const int fd : closed_fds) {
    for (auto& [id, entry] : sessions_) {
      if (entry.reply_fd != fd || entry.reply_socket != &reply) continue;
      entry.reply_fd = -1;
      if (entry.broken_by.has_value()) {
        entry.broken_by = options_.clock->SteadyNow();
      } else {
        // The node cannot answer this session any more.
        Break(entry, absl::UnavailableError(absl::StrCat(entry.session->target().node,
                                                         ": its reply connection is lost")));
      }
    }
  }
}

void FeederLoop::EndBroken() {
  if (draining_ == 0) return;
  const absl::Duration now = options_.clock->SteadyNow();
  std::vector<std::pair<std::shared_ptr<FeedSession>, absl::Status>> broken;
  for (auto& [id, entry] : sessions_) {
    if (!entry.broken_by.has_value() || *entry.broken_by > now) continue;
    if (entry.connection != nullptr) {  // only the way back is lost: let the node drop its half
      entry.session->SendAbort(absl::UnavailableError("the reply connection is lost"));
    }
    broken.emplace_back(entry.session, entry.broken_why);
  }
  for (const auto& [session, why] : broken) {
    session->OnEnd(SessionEnd::kBroken, why);
    CloseSession(session->id());
  }
}

// ------------------------------------------------------------------------------------- replies

void FeederLoop::DrainReplies(ZmqSocket& reply) {
  for (int i = 0; i < kRepliesPerTurn; ++i) {
    absl::StatusOr<std::optional<std::vector<ZmqMessage>>> parts = reply.Receive();
    if (!parts.ok()) {
      MILLRACE_LOG(ERROR) << "cannot receive replies: " << parts.status();
      return;
    }
    if (!parts->has_value()) return;
    HandleReply(reply, **std::move(parts));
  }
}

void FeederLoop::HandleReply(const ZmqSocket& reply, std::vector<ZmqMessage> parts) {
  const std::string principal(parts[0].user_id());
  if (poisoned_.contains(principal)) {
    Count([](FeederStats& stats) { ++stats.dropped_frames; });
    return;
  }
  const absl::Status status = HandleFrame(reply, principal, parts);
  if (!status.ok()) Poison(principal, status);
}

absl::Status FeederLoop::HandleFrame(const ZmqSocket& reply, absl::string_view principal,
                                     std::vector<ZmqMessage>& parts) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(parts[0].view());
  if (absl::IsUnimplemented(header.status())) {
    AnswerForeign(principal, parts[0].view(), header.status());
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(header.status());
  MILLRACE_RETURN_IF_ERROR(
      CheckFrameParts(*header, parts.size(), parts.size() > 1 ? parts[1].size() : 0));
  const bool known = IsKnownFrameType(header->type);
  if (!known && !header->optional()) {
    return absl::InvalidArgumentError(absl::StrCat("unknown frame ", FrameTypeName(header->type)));
  }

  const auto it = sessions_.find(header->session);
  if (it == sessions_.end()) return absl::OkStatus();  // it has ended; these were under way
  Entry& entry = it->second;
  if (NodePrincipal(entry.session->target()) != principal) {
    // A later attempt of the node, reached under what was known of the one before, says that it is
    // not the one meant. It is no bad peer: sessions with it will follow.
    const bool refusal = header->type == FrameType::kError && entry.in_seq == 0;
    if (!refusal) return absl::InvalidArgumentError("a frame for a session of another node");
  } else if (entry.connection != nullptr) {
    Proven(*entry.connection);
  }
  entry.reply_fd = parts[0].source_fd();
  entry.reply_socket = &reply;
  if (header->seq != entry.in_seq) {
    entry.session->OnEnd(SessionEnd::kBadPeer,
                         absl::DataLossError(absl::StrCat(
                             entry.session->Place(), ": frame ", header->seq, " came where ",
                             entry.in_seq, " was due; a reply was lost or repeated")));
    return absl::OkStatus();
  }
  ++entry.in_seq;
  if (!known) return absl::OkStatus();
  if (header->type == FrameType::kSegment) {
    MILLRACE_ASSIGN_OR_RETURN(const SegmentFrame frame, DecodeSegment(parts[1].view()));
    return OpenSegment(entry, frame);
  }
  if (header->type == FrameType::kRoom) {
    if (entry.connection == nullptr) return absl::OkStatus();  // it is lost
    MILLRACE_ASSIGN_OR_RETURN(const RoomFrame frame, DecodeRoom(parts[1].view()));
    return entry.session->OnRoom({.offset = frame.offset, .length = frame.length},
                                 entry.connection->segment);
  }
  return Dispatch(*entry.session, *header, parts);
}

absl::Status FeederLoop::OpenSegment(Entry& entry, const SegmentFrame& frame) {
  if (entry.connection == nullptr) return absl::OkStatus();  // it is lost
  if (entry.session->state().end != SessionEnd::kOpen) return absl::OkStatus();
  if (!entry.session->AwaitsSegment()) {
    return absl::InvalidArgumentError("SEGMENT that was not asked for, or twice");
  }
  Connection& connection = *entry.connection;
  const SegmentName name{.pid = frame.pid, .fd = frame.fd, .bytes = frame.bytes, .id = frame.id};
  if (connection.segment == nullptr) {
    absl::StatusOr<std::shared_ptr<FeederSegment>> segment = FeederSegment::Open(name);
    if (!segment.ok()) {
      entry.session->OnSegment(segment.status());
      return absl::OkStatus();
    }
    connection.segment_name = name;
    connection.segment = *std::move(segment);
  } else if (connection.segment_name != name) {
    return absl::InvalidArgumentError("a second SEGMENT for one connection");
  }
  entry.session->OnSegment(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status FeederLoop::Dispatch(FeedSession& session, const FrameHeader& header,
                                  std::vector<ZmqMessage>& parts) {
  const absl::string_view metadata = parts.size() > 1 ? parts[1].view() : absl::string_view();
  switch (header.type) {
    case FrameType::kCredit: {
      MILLRACE_ASSIGN_OR_RETURN(const CreditFrame frame, DecodeCredit(metadata));
      return session.OnCredit(frame);
    }
    case FrameType::kReceived: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return session.OnReceived(frame.row);
    }
    case FrameType::kAck: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return session.OnAck(frame.row);
    }
    case FrameType::kRevoked: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return session.OnRevoked(frame.row);
    }
    case FrameType::kWait: {
      MILLRACE_ASSIGN_OR_RETURN(const WaitFrame frame, DecodeWait(metadata));
      return session.OnWait(frame);
    }
    case FrameType::kSchema:
      return session.OnSchema(metadata);
    case FrameType::kResult: {
      MILLRACE_ASSIGN_OR_RETURN(const BatchPrefix prefix, DecodeBatchPrefix(metadata));
      Count([](FeederStats& stats) { ++stats.results_received; });
      std::vector<BodyPart> body;
      for (size_t i = 2; i < parts.size(); ++i) {
        auto owner = std::make_shared<const ZmqMessage>(std::move(parts[i]));
        body.push_back({owner->data(), owner->size(), owner});
      }
      return session.OnResult(prefix, std::string(metadata.substr(kBatchPrefixSize)),
                              std::move(body));
    }
    case FrameType::kDone: {
      MILLRACE_ASSIGN_OR_RETURN(const DoneFrame frame, DecodeDone(metadata));
      session.OnDone(frame);
      return absl::OkStatus();
    }
    case FrameType::kTerminated: {
      MILLRACE_ASSIGN_OR_RETURN(const TerminatedFrame frame, DecodeTerminated(metadata));
      session.OnEnd(SessionEnd::kTerminated,
                    absl::FailedPreconditionError(
                        absl::StrCat(session.Place(), ": the program reads this queue no more: ",
                                     EscapeControls(frame.message))));
      return absl::OkStatus();
    }
    case FrameType::kError: {
      MILLRACE_ASSIGN_OR_RETURN(const ErrorFrame frame, DecodeError(metadata));
      session.OnEnd(SessionEnd::kError,
                    absl::Status(frame.code, absl::StrCat(session.Place(), ": ",
                                                          EscapeControls(frame.message))));
      return absl::OkStatus();
    }
    case FrameType::kOpen:
    case FrameType::kBatch:
    case FrameType::kEndPartition:
    case FrameType::kAbort:
    case FrameType::kBlocked:
    case FrameType::kResultCredit:
    case FrameType::kRevoke:
    case FrameType::kMapped:
    case FrameType::kPlaced:
    case FrameType::kSegment:
    case FrameType::kRoom:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a node does not send ", FrameTypeName(header.type)));
}

void FeederLoop::AnswerForeign(absl::string_view principal, absl::string_view header,
                               const absl::Status& status) {
  const std::optional<FrameHeader> foreign = DecodeForeignHeader(header);
  if (!foreign.has_value()) return;
  const auto it = sessions_.find(foreign->session);
  if (it == sessions_.end()) return;
  const std::shared_ptr<FeedSession> session = it->second.session;
  if (NodePrincipal(session->target()) != principal) return;
  session->Abort(absl::UnimplementedError(
      absl::StrCat(session->Place(), ": ", status.message(), "; the node's SDK is ",
                   foreign->version > kFrameVersion ? "newer" : "older")));
}

void FeederLoop::Poison(absl::string_view principal, const absl::Status& reason) {
  Count([](FeederStats& stats) { ++stats.bad_frames; });
  if (!poisoned_.emplace(principal).second) return;
  MILLRACE_LOG(WARNING) << "a bad frame from " << principal
                        << ", nothing more is taken from it: " << reason.message();
  std::vector<std::shared_ptr<FeedSession>> sessions;
  for (const auto& [id, entry] : sessions_) {
    if (NodePrincipal(entry.session->target()) == principal) sessions.push_back(entry.session);
  }
  for (const std::shared_ptr<FeedSession>& session : sessions) {
    session->OnEnd(SessionEnd::kBadPeer,
                   absl::DataLossError(absl::StrCat(
                       session->Place(), ": the node sent a bad frame: ", reason.message())));
  }
}

}  // namespace millrace
