// The connections of a FeederLoop: by which route a node is reached, what happens to a connection,
// and when it is given up.

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "feed/feeder/feeder_loop.h"
#include "feed/wire/curve.h"
#include "feed/wire/local_name.h"
#include "feed/wire/login.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Until a node that does not know this feeder's key is tried again.
constexpr absl::Duration kRefusedPause = absl::Milliseconds(50);
// So much of open_timeout is a node's to prove itself in once a login in its name was false.
constexpr int kFalseProofFraction = 10;

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

absl::StatusOr<FeederLoop::Connection*> FeederLoop::FindOrConnect(const FeedTarget& target) {
  const ConnectionKey key{
      absl::StrCat(target.ipc_endpoint, " ", target.tcp_endpoint, " ", target.curve_endpoint),
      absl::StrCat(target.key, " ", target.curve_key)};
  const auto it = connections_.find(key);
  if (it != connections_.end()) return it->second.get();
  MILLRACE_RETURN_IF_ERROR(replies_->Expect(target));
  auto connection = std::make_unique<Connection>();
  connection->target = target;
  connection->route = FirstRoute(target);
  connection->refused_until = RealClock()->SteadyNow() + options_.open_timeout / 2;
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
  connection.falsely_proven = false;
  connection.route = connection.target.curve_endpoint.empty() ? Route::kTcp : Route::kCurve;
  connection.refused_until = RealClock()->SteadyNow() + options_.open_timeout / 2;
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
      entry.session->socket_side().OnConnecting();
    }
  }
  return true;
}

bool FeederLoop::TryAgainLater(Connection& connection) {
  const absl::Duration now = RealClock()->SteadyNow();
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
  for (const uint64_t id : connection.sessions) sessions_.at(id).session->socket_side().OnProof();
}

// A stranger must not end a session: the node's own login may be under way. But the node's is not
// waited for as long as if nobody had logged in.
void FeederLoop::NotProven(Connection& connection) {
  if (connection.proven || connection.route == Route::kCurve) return;
  if (std::exchange(connection.falsely_proven, true) || !connection.handshaken) return;
  const absl::Duration by = RealClock()->SteadyNow() + options_.open_timeout / kFalseProofFraction;
  ExpectProof(connection, std::min(by, connection.prove_by.value_or(by)));
}

absl::Status FeederLoop::FalseProofError(const Connection& connection) const {
  const ReplyEndpoint reply =
      connection.route == Route::kTcp ? replies_->tcp_reply() : replies_->ipc_reply();
  return absl::UnauthenticatedError(absl::StrCat(
      PlaceOf(connection), ": a process logged in to this feeder's reply endpoint ", reply.endpoint,
      " as ", NodePrincipal(connection.target), " with a password that is not of that node's key",
      absl::IsUnauthenticated(connection.earlier)  // said so already
          ? ""
          : "; it was sent no row. Another process has the node's address, or the node's feed "
            "library makes the password of something else than its key and this feeder's "
            "challenge (docs/feed_protocol.md, section 9)"));
}

std::vector<FeederLoop::Connection*> FeederLoop::Due(
    std::optional<absl::Duration> Connection::*time) const {
  const absl::Duration now = RealClock()->SteadyNow();
  std::vector<Connection*> due;
  for (const auto& [key, connection] : connections_) {
    const std::optional<absl::Duration>& at = (*connection).*time;
    if (at.has_value() && *at <= now) due.push_back(connection.get());
  }
  return due;
}

void FeederLoop::GiveUpUnproven() {
  if (unproven_ == 0) return;
  for (Connection* connection : Due(&Connection::prove_by)) {
    if (connection->falsely_proven) {
      Fail(*connection, SessionEnd::kUnanswered, FalseProofError(*connection));
    } else {
      TakeOtherRoute(*connection, UnprovenError(PlaceOf(*connection), options_.open_timeout / 2));
    }
  }
}

void FeederLoop::ConnectAgain() {
  if (waiting_ == 0) return;
  for (Connection* connection : Due(&Connection::retry_at)) {
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
      sessions_.at(id).session->socket_side().OnUnproven(place);
    }
    const absl::Duration now = RealClock()->SteadyNow();
    if (connection.falsely_proven) {
      ExpectProof(connection, now + options_.open_timeout / kFalseProofFraction);
    } else if (HasOtherRoute(connection)) {
      ExpectProof(connection, now + options_.open_timeout / 2);
    }
    return absl::OkStatus();
  }
  const std::string& local = connection.local_address;
  if (local.empty()) {
    return absl::UnavailableError(
        absl::StrCat(connection.target.node, ": the connection was lost at once"));
  }
  MILLRACE_RETURN_IF_ERROR(
      Annotate(replies_->ListenOn(local),
               absl::StrCat("listening for replies of ", connection.target.node)));
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
        Count([](FeederStats& stats) { ++stats.refused_handshakes; });
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
      entry.session->socket_side().OnEnd(end, why);
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
  const absl::Duration now = RealClock()->SteadyNow();
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
        entry.broken_by = RealClock()->SteadyNow();
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
  const absl::Duration now = RealClock()->SteadyNow();
  std::vector<std::pair<std::shared_ptr<FeedSession>, absl::Status>> broken;
  for (auto& [id, entry] : sessions_) {
    if (!entry.broken_by.has_value() || *entry.broken_by > now) continue;
    if (entry.connection != nullptr) {  // only the way back is lost: let the node drop its half
      entry.session->socket_side().SendAbort(
          absl::UnavailableError("the reply connection is lost"));
    }
    broken.emplace_back(entry.session, entry.broken_why);
  }
  for (const auto& [session, why] : broken) {
    session->socket_side().OnEnd(SessionEnd::kBroken, why);
    CloseSession(session->id());
  }
}

}  // namespace millrace
