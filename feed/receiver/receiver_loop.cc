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

bool IsFromFeeder(FrameType type) {
  return type == FrameType::kOpen || type == FrameType::kSchema || type == FrameType::kBatch ||
         type == FrameType::kEndPartition || type == FrameType::kAbort ||
         type == FrameType::kBlocked || type == FrameType::kResultCredit ||
         type == FrameType::kRevoke || type == FrameType::kMapped || type == FrameType::kPlaced;
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
      zap_, ZapServer::Create(context_, [this](const ZapRequest& r) { return Admit(r); }));
  MILLRACE_ASSIGN_OR_RETURN(
      local_.socket, ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::PlainServer()));
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
      ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::CurveServer(curve_keys_)));
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
}

// ------------------------------------------------------------------------------------- Messages

void ReceiverLoop::HandleMessage(DataSocket* data, std::vector<ZmqMessage> parts) {
  const std::string principal(parts[0].user_id());
  if (principal.empty() || poisoned_.contains(principal)) {
    core_->CountDroppedFrame();
    return;
  }
  const absl::StatusOr<FrameHeader> header = DecodeHeader(parts[0].view());
  absl::Status status = header.status();
  if (absl::IsUnimplemented(status)) return HandleForeign(data, principal, parts);
  if (status.ok()) {
    status = CheckFrameParts(*header, parts.size(), parts.size() > 1 ? parts[1].size() : 0);
  }
  if (status.ok()) status = HandleFrame(data, principal, *header, &parts);
  if (!status.ok()) Poison(principal, status);
}

void ReceiverLoop::HandleForeign(DataSocket* data, const std::string& principal,
                                 const std::vector<ZmqMessage>& parts) {
  const std::optional<FrameHeader> header = DecodeForeignHeader(parts[0].view());
  if (!header.has_value()) return core_->CountDroppedFrame();
  const absl::Status status = DecodeHeader(parts[0].view()).status();
  const auto it = sessions_.find(SessionKey(principal, header->session));
  if (it != sessions_.end()) {
    FailSession(it, status);
    return;
  }
  if (header->type != FrameType::kOpen || parts.size() < 2) return core_->CountDroppedFrame();
  // An OPEN of a later version can be answered if it still says where.
  const absl::Status opened =
      HandleOpen(data, principal, *header, parts[1].view(), parts[0].source_fd(), status);
  if (!opened.ok()) core_->CountDroppedFrame();
}

absl::Status ReceiverLoop::HandleFrame(DataSocket* data, const std::string& principal,
                                       const FrameHeader& header, std::vector<ZmqMessage>* parts) {
  const bool known = IsKnownFrameType(header.type);
  if (known ? !IsFromFeeder(header.type) : !header.optional()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a feeder does not send ", FrameTypeName(header.type)));
  }
  const absl::string_view metadata = parts->size() > 1 ? (*parts)[1].view() : absl::string_view();
  const auto it = sessions_.find(SessionKey(principal, header.session));
  if (header.type == FrameType::kOpen) {
    if (it == sessions_.end()) {
      return HandleOpen(data, principal, header, metadata, (*parts)[0].source_fd(),
                        absl::OkStatus());
    }
    MILLRACE_RETURN_IF_ERROR(DecodeOpenReply(metadata));
    FailSession(it, absl::AlreadyExistsError("the session is open already"));
    return absl::OkStatus();
  }
  if (it == sessions_.end()) {
    const auto connection = data->connections.find((*parts)[0].source_fd());
    if (connection != data->connections.end()) {
      return HandleOfEnded(connection->second, header, metadata);
    }
    core_->CountDroppedFrame();
    return absl::OkStatus();
  }
  Session& session = it->second;
  if (header.seq != session.next_seq) {
    FailSession(
        it, absl::DataLossError(absl::StrCat("frame ", header.seq, " of the session came where ",
                                             session.next_seq, " was expected")));
    return absl::OkStatus();
  }
  ++session.next_seq;
  if (!known) return absl::OkStatus();
  if (header.type == FrameType::kAbort) {
    MILLRACE_ASSIGN_OR_RETURN(ErrorFrame abort, DecodeError(metadata));
    const uint64_t connection = session.connection;
    if (session.core != nullptr) {
      core_->Abort(session.core);
    } else if (const auto link = links_.find(session.link); link != links_.end()) {
      std::erase_if(link->second->pending,
                    [&](const PendingOpen& open) { return open.session == header.session; });
    }
    if (session.core == nullptr) sessions_.erase(it);
    segments_.Vacate(connection, header.session);
    return absl::OkStatus();
  }
  if (session.core == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(FrameTypeName(header.type), " before CREDIT"));
  }
  if (session.failed) return absl::OkStatus();
  if (header.type == FrameType::kSchema) {
    const absl::Status status = HandleSchema(&session, metadata);
    if (!absl::IsUnimplemented(status)) return status;
    // A schema in order, of something that feeds do not carry: a mistake of this session alone.
    session.failed = true;
    FailSession(it, absl::InvalidArgumentError(status.message()));
    return absl::OkStatus();
  }
  if (header.type == FrameType::kBatch) return HandleBatch(&session, parts);
  if (header.type == FrameType::kPlaced) return HandlePlaced(&session, metadata);
  if (header.type == FrameType::kMapped) {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFrame mapped, DecodeMapped(metadata));
    MILLRACE_RETURN_IF_ERROR(core_->Mapped(session.core, mapped));
    segments_.OnMapped(session.connection, mapped.reason.empty());
    return absl::OkStatus();
  }
  if (header.type == FrameType::kBlocked) {
    MILLRACE_ASSIGN_OR_RETURN(const BlockedFrame blocked, DecodeBlocked(metadata));
    return core_->Block(session.core, blocked.needed);
  }
  if (header.type == FrameType::kResultCredit) {
    MILLRACE_ASSIGN_OR_RETURN(const ResultCreditFrame credit, DecodeResultCredit(metadata));
    return core_->RaiseResultLimit(session.core, credit.limit);
  }
  if (header.type == FrameType::kRevoke) {
    MILLRACE_ASSIGN_OR_RETURN(const RevokeFrame revoke, DecodeRevoke(metadata));
    return core_->Revoke(session.core, revoke.max_row);
  }
  MILLRACE_ASSIGN_OR_RETURN(EndPartitionFrame end, DecodeEndPartition(metadata));
  const absl::Status status = core_->EndPartition(session.core, end.end_row);
  segments_.Vacate(session.connection, header.session);
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

// Frames that were under way when their session ended. What they say of the segment holds for their
// connection.
absl::Status ReceiverLoop::HandleOfEnded(uint64_t connection, const FrameHeader& header,
                                         absl::string_view metadata) {
  bool dropped = true;
  if (header.type == FrameType::kAbort) {
    dropped = !segments_.Vacate(connection, header.session);  // now it writes no more
  } else if (header.type == FrameType::kMapped) {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFrame mapped, DecodeMapped(metadata));
    dropped = !segments_.OnMapped(connection, mapped.reason.empty());
  }
  if (dropped) core_->CountDroppedFrame();
  return absl::OkStatus();
}

absl::Status ReceiverLoop::HandleSchema(Session* session, absl::string_view metadata) {
  if (session->decoder.has_value()) return absl::InvalidArgumentError("SCHEMA twice");
  MILLRACE_ASSIGN_OR_RETURN(Schema schema, DecodeSchema(metadata));
  MILLRACE_ASSIGN_OR_RETURN(const Schema shared, core_->SetSchema(session->core, schema));
  session->decoder.emplace(shared);
  return absl::OkStatus();
}

absl::Status ReceiverLoop::HandleBatch(Session* session, std::vector<ZmqMessage>* parts) {
  const absl::string_view metadata = (*parts)[1].view();
  int64_t bytes = static_cast<int64_t>(metadata.size());
  std::vector<BodyPart> body;
  body.reserve(parts->size() - 2);
  for (size_t i = 2; i < parts->size(); ++i) {
    auto part = std::make_shared<ZmqMessage>(std::move((*parts)[i]));
    bytes += static_cast<int64_t>(part->size());
    const uint8_t* data = part->data();  // a short message holds its bytes itself: only now
    const size_t size = part->size();
    body.push_back({.data = data, .size = size, .owner = std::move(part)});
  }
  return AddBatch(session, metadata, bytes, std::move(body));
}

absl::Status ReceiverLoop::HandlePlaced(Session* session, absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(const PlacedPrefix placed, DecodePlacedPrefix(metadata));
  MILLRACE_ASSIGN_OR_RETURN(SharedBytes bytes,
                            segments_.Use(session->connection, session->core->id,
                                          {.offset = placed.offset, .length = placed.length}));
  metadata.remove_prefix(kPlacedPrefixSize);
  std::vector<BodyPart> body;
  body.push_back(
      {.data = bytes.data, .size = bytes.size, .owner = std::move(bytes.owner), .shared = true});
  core_->CountPlacedBatch();
  return AddBatch(session, metadata, static_cast<int64_t>(metadata.size()) + placed.length,
                  std::move(body));
}

absl::Status ReceiverLoop::AddBatch(Session* session, absl::string_view metadata, int64_t bytes,
                                    std::vector<BodyPart> body) {
  if (!session->decoder.has_value()) return absl::InvalidArgumentError("BATCH before SCHEMA");
  MILLRACE_ASSIGN_OR_RETURN(BatchPrefix prefix, DecodeBatchPrefix(metadata));
  if (bytes > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a BATCH of ", bytes, " bytes, at most ", kMaxBatchBytes, " are allowed"));
  }
  const absl::Duration before = options_.clock->SteadyNow();
  MILLRACE_ASSIGN_OR_RETURN(
      RecordBatch rows,
      session->decoder->Decode(metadata.substr(kBatchPrefixSize),
                               static_cast<uint32_t>(prefix.rows), std::move(body)));
  const absl::Status status =
      core_->AddRows(session->core, {.rows = std::move(rows),
                                     .first_row = prefix.first_row,
                                     .bytes = bytes,
                                     .decode_time = options_.clock->SteadyNow() - before});
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

absl::Status ReceiverLoop::HandleOpen(DataSocket* data, const std::string& principal,
                                      const FrameHeader& header, absl::string_view metadata, int fd,
                                      absl::Status refusal) {
  // Damage poisons the principal. A mistake is answered, if the peer can be reached.
  MILLRACE_ASSIGN_OR_RETURN(ReplyEndpoint reply, DecodeOpenReply(metadata));
  absl::StatusOr<OpenFrame> decoded = DecodeOpen(metadata);
  if (refusal.ok()) refusal = decoded.status();
  OpenFrame open = decoded.ok() ? *std::move(decoded) : OpenFrame{.reply = std::move(reply)};
  auto connection = data->connections.find(fd);
  if (connection == data->connections.end()) {
    // Its ACCEPTED event may have come since the events were read, and so may the loss of another
    // connection.
    std::vector<uint64_t> lost;
    MILLRACE_RETURN_IF_ERROR(ReadDataEvents(data, &lost));
    for (uint64_t id : lost) ConnectionLost(id);
    connection = data->connections.find(fd);
  }
  if (connection == data->connections.end()) {  // nobody is there any more
    core_->CountDroppedFrame();
    return absl::OkStatus();
  }
  if (refusal.ok() && header.seq != 0) {
    refusal = absl::DataLossError(absl::StrCat("OPEN is frame 0, found ", header.seq));
  }
  const uint64_t connection_id = connection->second;
  const std::optional<uint64_t> link_id = FindLink(principal, open.reply, data->curve);
  if (!link_id.has_value()) {
    MILLRACE_LOG(WARNING) << principal
                          << ": a session names a reply endpoint that this node does "
                             "not connect to: "
                          << Ellipsize(EscapeControls(open.reply.endpoint), 100);
    core_->CountDroppedFrame();
    return absl::OkStatus();
  }
  sessions_[SessionKey(principal, header.session)] = {.link = *link_id,
                                                      .connection = connection_id};
  PendingOpen pending{.session = header.session,
                      .connection = connection_id,
                      .open = std::move(open),
                      .refusal = std::move(refusal)};
  Link& link = *links_[*link_id];
  if (link.up) {
    OpenOnLink(*link_id, principal, std::move(pending));
  } else {
    link.pending.push_back(std::move(pending));
  }
  return absl::OkStatus();
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
      context_, SocketType::kPush,
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
