#include "feed/receiver/receiver_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/net/loopback.h"
#include "core/net/socket_address.h"
#include "feed/wire/curve.h"
#include "feed/wire/local_name.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
// Messages taken before frames that are due go out.
constexpr int kMessagesPerTurn = 64;
// Messages taken to catch up with a connection that is lost.
constexpr int kMessagesAtLoss = 100'000;
constexpr int kMaxLinksPerPrincipal = 8;
constexpr size_t kMaxAnnounced = 65'536;
// Beyond this number the principal that was poisoned first is forgotten. There is a limit because a
// peer that has the key can invent any number of names.
constexpr size_t kMaxPoisoned = 4096;

// PLAIN encrypts nothing: to this host only.
bool IsLocalEndpoint(absl::string_view endpoint) {
  if (absl::StartsWith(endpoint, "ipc://@")) return true;
  if (!absl::ConsumePrefix(&endpoint, "tcp://")) return false;
  const absl::StatusOr<HostPort> address = ParseHostPort(endpoint);
  return address.ok() && IsLoopbackHost(address->host);
}

bool IsCurveReply(const ReplyEndpoint& reply) {
  return absl::StartsWith(reply.endpoint, "tcp://") && DecodeCurveKey(reply.curve_key).ok();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReceiverLoop>> ReceiverLoop::Create(
    const Options& options, std::shared_ptr<ReceiverCore> core,
    std::shared_ptr<ReceiverWaker> waker) {
  if (options.nonce.empty() || !IsPrincipal(absl::StrCat("node/", options.nonce))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a nonce is 1 to 59 letters, digits or any of _.:-, found \"",
                     Ellipsize(EscapeControls(options.nonce), 80), "\""));
  }
  MILLRACE_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create());
  std::unique_ptr<ReceiverLoop> loop(
      new ReceiverLoop(options, std::move(context), std::move(core), std::move(waker)));
  MILLRACE_RETURN_IF_ERROR(loop->Bind());
  return loop;
}

absl::Status ReceiverLoop::Bind() {
  endpoints_.key = RandomHex(32);
  logins_.emplace(endpoints_.key);
  MILLRACE_ASSIGN_OR_RETURN(
      zap_, ZapServer::Create(*context_, [this](const ZapRequest& r) { return Admit(r); }));
  MILLRACE_ASSIGN_OR_RETURN(
      local_.socket, ZmqSocket::Create(*context_, SocketType::kPull, SocketOptions::PlainServer()));
  MILLRACE_RETURN_IF_ERROR(local_.socket.StartMonitor());
  MILLRACE_ASSIGN_OR_RETURN(const int port,
                            BindTcp(&local_.socket, "127.0.0.1", options_.tcp_ports));
  endpoints_.tcp = TcpEndpoint("127.0.0.1", port);
  MILLRACE_ASSIGN_OR_RETURN(endpoints_.ipc, local_.socket.Bind(MakeLocalName()));
  if (!options_.advertise_host.empty()) MILLRACE_RETURN_IF_ERROR(BindCurve());
  poller_.Add(local_.socket);
  if (curve_.socket.open()) poller_.Add(curve_.socket);
  poller_.Add(zap_->socket());
  poller_.Add(waker_->fd());
  return absl::OkStatus();
}

absl::Status ReceiverLoop::BindCurve() {
  MILLRACE_ASSIGN_OR_RETURN(curve_keys_, MakeCurveKeys());
  curve_.curve = true;
  MILLRACE_ASSIGN_OR_RETURN(
      curve_.socket,
      ZmqSocket::Create(*context_, SocketType::kPull, SocketOptions::CurveServer(curve_keys_)));
  MILLRACE_RETURN_IF_ERROR(curve_.socket.StartMonitor());
  MILLRACE_ASSIGN_OR_RETURN(
      const int port,
      BindTcp(&curve_.socket, BindHostFor(options_.advertise_host), options_.tcp_ports));
  endpoints_.curve = TcpEndpoint(options_.advertise_host, port);
  endpoints_.curve_key = curve_keys_.public_key;
  return absl::OkStatus();
}

absl::Status ReceiverLoop::AnnounceFeeder(absl::string_view principal,
                                          absl::string_view curve_key) {
  if (!IsPrincipal(principal) || !absl::StartsWith(principal, "feeder/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("no principal of a feeder: \"",
                     Ellipsize(EscapeControls(std::string(principal)), 80), "\""));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string key, DecodeCurveKey(curve_key));
  MutexLock lock(&announced_mu_);
  const auto known = announced_keys_.find(principal);
  if (known != announced_keys_.end()) {
    if (known->second == key) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(principal, " was announced with another key"));
  }
  const auto taken = announced_.find(key);
  if (taken != announced_.end()) {
    return absl::AlreadyExistsError(
        absl::StrCat("the key of ", principal, " is that of ", taken->second));
  }
  if (announced_.size() >= kMaxAnnounced) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxAnnounced, " feeders are announced to this node: no more are taken"));
  }
  announced_keys_.emplace(principal, key);
  announced_.emplace(std::move(key), principal);
  return absl::OkStatus();
}

std::optional<std::string> ReceiverLoop::FindAnnounced(const std::string& curve_key) const {
  MutexLock lock(&announced_mu_);
  const auto it = announced_.find(curve_key);
  return it == announced_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::string> ReceiverLoop::Admit(const ZapRequest& request) {
  if (request.mechanism == "CURVE") {
    std::optional<std::string> principal = FindAnnounced(request.curve_key);
    if (principal.has_value() && poisoned_.contains(*principal)) principal.reset();
    return principal;
  }
  if (request.mechanism != "PLAIN" || !IsPrincipal(request.user) ||
      !logins_->Accept(request.user, request.password) || poisoned_.contains(request.user)) {
    return std::nullopt;
  }
  return request.user;
}

// ---------------------------------------------------------------------------------------- Turns

void ReceiverLoop::Stop(absl::Duration flush) {
  flush_ms_ = absl::ToInt64Milliseconds(flush);
  turns_.Stop();
  waker_->Wake();
}

void ReceiverLoop::Run() {
  bool failed = false;
  while (!turns_.stopped() && !failed) {
    turns_.TakeAsSocketThread();
    ClaimSockets();
    while (!turns_.stopped() && !turns_.wanted() && failure_.ok()) RunTurn();
    failed = !failure_.ok();
    turns_.Give();
  }
  turns_.Stop();
  waker_->Wake();               // if a program serves: it leaves
  turns_.TakeAsSocketThread();  // for good
  ClaimSockets();
  // A peer that has gone is heard first: nothing is left to be sent to it.
  if (failure_.ok()) failure_ = WaitAndRead(absl::ZeroDuration());
  if (failure_.ok()) {
    static_cast<void>(Transmit());
  } else {
    MILLRACE_LOG(ERROR) << "the feed receiver stops: " << failure_;
    core_->Break(Annotate(failure_, "feed receiver"));
  }
  CloseAll();
}

void ReceiverLoop::Serve(absl::FunctionRef<AfterTurn()> after_turn) {
  if (!turns_.TryLead([this] { waker_->Wake(); })) return;
  ClaimSockets();
  AfterTurn next = after_turn();  // it may have come meanwhile
  while (next == AfterTurn::kGoOn && !turns_.stopped() && failure_.ok()) {
    RunTurn();
    next = after_turn();
  }
  turns_.StopLeading(/*yield=*/next != AfterTurn::kLeave);
}

void ReceiverLoop::Flush() {
  if (turns_.stopped() || !turns_.TryTake()) return waker_->Wake();
  ClaimSockets();
  static_cast<void>(Transmit());  // an error is found again by the next caller
  turns_.Give();
}

void ReceiverLoop::ClaimSockets() {
  const std::thread::id self = std::this_thread::get_id();
  if (std::exchange(claimed_by_, self) == self) return;
  zap_->socket().DetachFromThread();
  local_.socket.DetachFromThread();
  curve_.socket.DetachFromThread();
  for (const auto& [id, link] : links_) link->socket.DetachFromThread();
}

void ReceiverLoop::RunTurn() {
  const absl::Duration next = Transmit();
  failure_ = WaitAndRead(next);
}

absl::Status ReceiverLoop::WaitAndRead(absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(poller_.Wait(timeout));
  if (poller_.IsWoken(waker_->fd())) waker_->Clear();
  if (poller_.HasInput(zap_->socket())) MILLRACE_RETURN_IF_ERROR(zap_->Poll());
  MILLRACE_RETURN_IF_ERROR(ReadData(&local_));
  if (curve_.socket.open()) MILLRACE_RETURN_IF_ERROR(ReadData(&curve_));
  return ReadLinks();
}

absl::Duration ReceiverLoop::Transmit() {
  ReceiverCore::Turn turn = core_->Collect();
  for (OutgoingFrame& frame : turn.frames) Send(std::move(frame));
  for (const std::string& warning : turn.warnings) MILLRACE_LOG(WARNING) << warning;
  for (const ReceiverCore::SessionPtr& ended : turn.ended) {
    const auto it = sessions_.find(SessionKey(ended->principal, ended->id));
    if (it != sessions_.end() && it->second.core == ended) sessions_.erase(it);
  }
  absl::Duration next = turn.next;
  const absl::Duration now = options_.clock->SteadyNow();
  for (const auto& [id, link] : links_) {
    if (!link->up) next = std::min(next, std::max(absl::ZeroDuration(), link->deadline - now));
  }
  return next;
}

void ReceiverLoop::Send(OutgoingFrame frame) {
  const auto it = links_.find(frame.link);
  if (it == links_.end()) return;
  frame.header.metadata_length = static_cast<uint32_t>(frame.metadata.size());
  std::vector<ZmqMessage> parts;
  parts.reserve(2 + frame.body.size());
  parts.push_back(ZmqMessage::Copy(EncodeHeader(frame.header)));
  if (!frame.metadata.empty()) parts.push_back(ZmqMessage::Copy(frame.metadata));
  for (BodyPart& part : frame.body) {
    parts.push_back(ZmqMessage::FromBuffer(part.data, part.size, std::move(part.owner)));
  }
  const absl::StatusOr<bool> sent = it->second->socket.Send(std::move(parts));
  if (!sent.ok())
    MILLRACE_LOG(WARNING) << "reply to " << it->second->principal << ": " << sent.status();
  // Without a connection the monitor's event ends the link.
}

absl::Status ReceiverLoop::ReadData(DataSocket* data) {
  std::vector<uint64_t> lost;
  if (poller_.HasEvent(data->socket)) MILLRACE_RETURN_IF_ERROR(ReadDataEvents(data, &lost));
  // What a feeder sent before it went still counts: an END_PARTITION may be among it.
  if (poller_.HasInput(data->socket) || !lost.empty()) {
    MILLRACE_RETURN_IF_ERROR(ReadMessages(data, lost.empty() ? kMessagesPerTurn : kMessagesAtLoss));
  }
  for (uint64_t connection : lost) ConnectionLost(connection);
  return absl::OkStatus();
}

absl::Status ReceiverLoop::ReadDataEvents(DataSocket* data, std::vector<uint64_t>* lost) {
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<ZmqEvent> event, data->socket.NextEvent());
    if (!event.has_value()) return absl::OkStatus();
    if (event->kind == ZmqEvent::Kind::kAccepted) {
      data->connections[event->fd] = next_id_++;
    } else if (event->kind == ZmqEvent::Kind::kDisconnected) {
      const auto it = data->connections.find(event->fd);
      if (it == data->connections.end()) continue;
      lost->push_back(it->second);
      data->connections.erase(it);
    }
  }
}

absl::Status ReceiverLoop::ReadMessages(DataSocket* data, int limit) {
  for (int i = 0; i < limit; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<std::vector<ZmqMessage>> parts, data->socket.Receive());
    if (!parts.has_value()) return absl::OkStatus();
    HandleMessage(data, *std::move(parts));
  }
  return absl::OkStatus();
}

absl::Status ReceiverLoop::ReadLinks() {
  const absl::Duration now = options_.clock->SteadyNow();
  std::vector<uint64_t> up;
  std::vector<uint64_t> lost;
  for (const auto& [id, link] : links_) {
    while (poller_.HasEvent(link->socket)) {
      MILLRACE_ASSIGN_OR_RETURN(std::optional<ZmqEvent> event, link->socket.NextEvent());
      if (!event.has_value()) break;
      if (event->kind == ZmqEvent::Kind::kHandshakeSucceeded) {
        up.push_back(id);
      } else if (event->kind != ZmqEvent::Kind::kConnected) {
        lost.push_back(id);
        break;
      }
    }
    if (!link->up && now >= link->deadline) lost.push_back(id);
  }
  for (uint64_t id : up) LinkUp(id);
  for (uint64_t id : lost) LinkLost(id);
  return absl::OkStatus();
}

void ReceiverLoop::CloseAll() {
  const absl::Duration flush = absl::Milliseconds(flush_ms_.load());
  for (const auto& [id, link] : links_) {
    poller_.Remove(link->socket);
    if (link->up) {
      link->socket.CloseAfterSending(flush);
    } else {
      link->socket.Close();
    }
  }
  links_.clear();
  sessions_.clear();
  segments_.Clear();
  poller_.Remove(local_.socket);
  poller_.Remove(curve_.socket);
  poller_.Remove(zap_->socket());
  local_.socket.Close();
  curve_.socket.Close();
  zap_.reset();
  // Waits for what is on its way out: the process may end at once when this thread has.
  context_.reset();
}

// ---------------------------------------------------------------------------------------- Links

std::optional<uint64_t> ReceiverLoop::FindLink(const std::string& principal,
                                               const ReplyEndpoint& reply, bool curve) {
  // From afar no endpoint of this host may be named, and nothing goes afar in the clear.
  const bool encrypted = !reply.curve_key.empty();
  if (encrypted ? !curve_.socket.open() || !IsCurveReply(reply)
                : curve || !IsLocalEndpoint(reply.endpoint)) {
    return std::nullopt;
  }
  int links_of_principal = 0;
  for (const auto& [id, link] : links_) {
    if (link->principal != principal) continue;
    if (link->reply == reply) return id;
    ++links_of_principal;
  }
  if (links_of_principal >= kMaxLinksPerPrincipal) return std::nullopt;
  auto link = std::make_unique<Link>();
  const std::string self = absl::StrCat("node/", options_.nonce);
  absl::StatusOr<ZmqSocket> socket = ZmqSocket::Create(
      *context_, SocketType::kPush,
      encrypted ? SocketOptions::Curve(curve_keys_, reply.curve_key)
                : SocketOptions::Plain(
                      self, NodePassword(endpoints_.key, reply.challenge, principal, self)));
  if (!socket.ok() || !socket->StartMonitor().ok()) return std::nullopt;
  link->socket = *std::move(socket);
  if (!link->socket.Connect(reply.endpoint).ok()) return std::nullopt;
  link->principal = principal;
  link->reply = reply;
  link->deadline = options_.clock->SteadyNow() + kHandshakeTimeout;
  poller_.Add(link->socket);
  const uint64_t id = next_id_++;
  links_[id] = std::move(link);
  return id;
}

void ReceiverLoop::LinkUp(uint64_t id) {
  Link& link = *links_[id];
  link.up = true;
  for (PendingOpen& pending : std::exchange(link.pending, {})) {
    OpenOnLink(id, link.principal, std::move(pending));
  }
}

void ReceiverLoop::OpenOnLink(uint64_t link_id, const std::string& principal, PendingOpen pending) {
  const auto it = sessions_.find(SessionKey(principal, pending.session));
  if (it == sessions_.end()) return;
  if (!pending.refusal.ok()) {
    core_->Refuse(link_id, pending.session, pending.refusal);
  } else {
    SessionSegment shared = SegmentFor(principal, pending);
    it->second.core = core_->Open(principal, pending.session, link_id, pending.connection,
                                  std::move(pending.open), std::move(shared));
  }
  if (it->second.core == nullptr) sessions_.erase(it);
}

SessionSegment ReceiverLoop::SegmentFor(const std::string& principal, const PendingOpen& pending) {
  const bool local = pending.open.reply.curve_key.empty();
  if (!segments_.enabled() || !pending.open.shared_memory || !local) return {};
  absl::StatusOr<SessionSegment> shared = segments_.Get(pending.connection, principal);
  if (shared.ok()) return *std::move(shared);
  core_->NotShared(absl::StrCat(principal, ": ", shared.status().message()));
  return {};
}

void ReceiverLoop::LinkLost(uint64_t id) {
  const auto link = links_.find(id);
  if (link == links_.end()) return;
  poller_.Remove(link->second->socket);
  links_.erase(link);
  core_->LinkLost(id);
  absl::erase_if(sessions_, [id](const auto& entry) { return entry.second.link == id; });
}

void ReceiverLoop::ConnectionLost(uint64_t connection) {
  segments_.Drop(connection);
  core_->ConnectionLost(connection);
  for (const auto& [id, link] : links_) {
    std::erase_if(link->pending,
                  [&](const PendingOpen& open) { return open.connection == connection; });
  }
  absl::erase_if(sessions_, [&](const auto& e) { return e.second.connection == connection; });
}

void ReceiverLoop::FailSession(Sessions::iterator it, const absl::Status& status) {
  if (it->second.core != nullptr) return core_->Fail(it->second.core, status);
  // The OPEN waits for the reply link, so the answer has to wait with it.
  const auto link = links_.find(it->second.link);
  if (link == links_.end()) return;
  for (PendingOpen& pending : link->second->pending) {
    if (pending.session == it->first.second) pending.refusal = status;
  }
}

void ReceiverLoop::Poison(const std::string& principal, const absl::Status& status) {
  const absl::Status told = absl::InvalidArgumentError(
      absl::StrCat("bad frame from ", principal, ": ", status.message()));
  MILLRACE_LOG(WARNING) << told.message() << "; nothing more of it is read";
  if (poisoned_.insert(principal).second) poisoned_in_order_.push_back(principal);
  if (poisoned_in_order_.size() > kMaxPoisoned) {
    poisoned_.erase(poisoned_in_order_.front());
    poisoned_in_order_.pop_front();
  }
  core_->Poison(principal, told);
  segments_.DropAllOf(principal);
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->first.first == principal && it->second.core == nullptr) FailSession(it, told);
  }
  absl::erase_if(sessions_, [&](const auto& entry) {
    return entry.first.first == principal && entry.second.core != nullptr;
  });
}

}  // namespace millrace
