#include "feed/feeder/feeder_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "feed/arrow/buffer.h"
#include "feed/feeder/reply_dispatch.h"
#include "feed/wire/curve.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Replies that are handled before other work gets a turn.
constexpr int kRepliesPerTurn = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<FeederLoop>> FeederLoop::Create(const FeederOptions& options,
                                                               std::shared_ptr<FeederOutbox> outbox,
                                                               std::shared_ptr<const WakeFd> wake) {
  MILLRACE_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create());
  MILLRACE_ASSIGN_OR_RETURN(CurveKeys curve_keys, MakeCurveKeys());
  std::unique_ptr<FeederLoop> loop(new FeederLoop(options, std::move(outbox), std::move(wake),
                                                  std::move(context), std::move(curve_keys)));
  MILLRACE_RETURN_IF_ERROR(loop->Bind());
  return loop;
}

FeederLoop::FeederLoop(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
                       std::shared_ptr<const WakeFd> wake, ZmqContext context, CurveKeys curve_keys)
    : options_(options),
      outbox_(std::move(outbox)),
      wake_(std::move(wake)),
      principal_(absl::StrCat("feeder/", RandomHex(8))),
      curve_keys_(std::move(curve_keys)),
      context_(std::move(context)) {}

absl::Status FeederLoop::Bind() {
  ReplySockets::Options replies{
      .principal = principal_,
      .curve_keys = curve_keys_,
      .curve_ports = options_.reply_ports,
      .on_proof = [this](const std::string& node) { OnLogin(node); },
      .on_false_proof = [this](const std::string& node) { OnFalseLogin(node); },
      .on_refusal =
          [this](const std::string& what) {
            outbox_->NoteRefusal(what, RealClock()->SteadyNow());
          }};
  MILLRACE_ASSIGN_OR_RETURN(replies_, ReplySockets::Create(context_, std::move(replies)));
  poller_.Add(*wake_);
  poller_.Add(replies_->zap().socket());
  poller_.Add(replies_->plain());
  poller_.Add(replies_->curve());
  return absl::OkStatus();
}

void FeederLoop::OnLogin(const std::string& principal) {
  for (const auto& [key, connection] : connections_) {
    if (NodePrincipal(connection->target) == principal) Proven(*connection);
  }
}

void FeederLoop::OnFalseLogin(const std::string& principal) {
  for (const auto& [key, connection] : connections_) {
    if (NodePrincipal(connection->target) == principal) NotProven(*connection);
  }
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
  replies_->DetachFromThread();
  for (const auto& [socket, connection] : by_socket_) {
    connection->link->socket().DetachEventsFromThread();
  }
}

void FeederLoop::RunTurn(absl::Duration timeout) {
  failure_ = poller_.Wait(std::min(timeout, PollTimeout()));
  if (failure_.ok() && poller_.HasInput(replies_->zap().socket())) {
    failure_ = replies_->zap().Poll();
  }
  if (!failure_.ok()) return;
  if (poller_.IsWoken(*wake_)) {
    wake_->Clear();
    for (FeederCommand& command : outbox_->Take()) Execute(std::move(command));
  }
  // What happened to connections is read before the replies and acted on after them: what a node
  // said before it went is heard.
  const std::vector<const ZmqSocket*> changed = poller_.WithEvents();
  const std::vector<int> closed = ReadClosed(replies_->plain());
  const std::vector<int> curve_closed = ReadClosed(replies_->curve());
  for (ZmqSocket* const reply : {&replies_->plain(), &replies_->curve()}) {
    if (poller_.HasInput(*reply) || !changed.empty()) DrainReplies(*reply);
  }
  for (const ZmqSocket* socket : changed) {
    const auto it = by_socket_.find(socket);
    if (it != by_socket_.end()) HandleEvents(*it->second);
  }
  HandleReplyEvents(replies_->plain(), closed);
  HandleReplyEvents(replies_->curve(), curve_closed);
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
    session->socket_side().OnUnlink();  // no ABORT: what a node has whole it may still use
    session->Abort(status);
  }
  for (const auto& [key, connection] : connections_) Disconnect(*connection);
  sessions_.clear();
  connections_.clear();
  replies_->Close();
}

absl::Duration FeederLoop::PollTimeout() const {
  absl::Duration timeout = absl::InfiniteDuration();
  if (draining_ == 0 && waiting_ == 0 && unproven_ == 0) return timeout;
  const absl::Duration now = RealClock()->SteadyNow();
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
  if (replies_->IsBarred(NodePrincipal(session->target()))) {
    session->socket_side().OnEnd(
        SessionEnd::kBadPeer,
        absl::DataLossError(absl::StrCat(session->Place(), ": the node sent a bad frame ",
                                         "earlier and is not spoken to any more")));
    return;
  }
  absl::StatusOr<Connection*> connection = FindOrConnect(session->target());
  if (!connection.ok()) {
    session->socket_side().OnEnd(SessionEnd::kBroken, connection.status());
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
  ReplyEndpoint reply = replies_->ipc_reply();
  if (connection.route == Route::kTcp) reply = replies_->tcp_reply();
  if (connection.route == Route::kCurve) reply = replies_->curve_reply(connection.local_address);
  entry.session->socket_side().OnLink(connection.link, reply);
  if (connection.route != Route::kCurve && connection.handshaken && !connection.proven) {
    entry.session->socket_side().OnUnproven(PlaceOf(connection));
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
  if (replies_->IsBarred(principal)) {
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
    entry.session->socket_side().OnEnd(
        SessionEnd::kBadPeer, absl::DataLossError(absl::StrCat(
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
    return entry.session->socket_side().OnRoom({.offset = frame.offset, .length = frame.length},
                                               entry.connection->segment);
  }
  if (header->type == FrameType::kPlacedResult) return ReadPlacedResult(entry, parts[1].view());
  if (header->type == FrameType::kResult)
    Count([](FeederStats& stats) { ++stats.results_received; });
  return DispatchReply(*entry.session, *header, parts);
}

absl::Status FeederLoop::OpenSegment(Entry& entry, const SegmentFrame& frame) {
  if (entry.connection == nullptr) return absl::OkStatus();  // it is lost
  if (entry.session->state().end != SessionEnd::kOpen) return absl::OkStatus();
  if (!entry.session->socket_side().AwaitsSegment()) {
    return absl::InvalidArgumentError("SEGMENT that was not asked for, or twice");
  }
  Connection& connection = *entry.connection;
  const SegmentName name{.pid = frame.pid, .fd = frame.fd, .bytes = frame.bytes, .id = frame.id};
  if (connection.segment == nullptr) {
    absl::StatusOr<std::shared_ptr<FeederSegment>> segment = FeederSegment::Open(name);
    if (!segment.ok()) {
      entry.session->socket_side().OnSegment(segment.status());
      return absl::OkStatus();
    }
    connection.segment_name = name;
    connection.segment = *std::move(segment);
  } else if (connection.segment_name != name) {
    return absl::InvalidArgumentError("a second SEGMENT for one connection");
  }
  entry.session->socket_side().OnSegment(absl::OkStatus());
  return absl::OkStatus();
}

// The body is copied now: nobody can change it once it is checked, the program may keep it, and its
// room is the node's again as soon as the session says so.
absl::Status FeederLoop::ReadPlacedResult(Entry& entry, absl::string_view metadata) {
  MILLRACE_ASSIGN_OR_RETURN(const PlacedPrefix placed, DecodePlacedPrefix(metadata));
  if (entry.segment == nullptr) {
    if (entry.connection == nullptr) {  // it is lost, and the node's memory with it
      entry.session->socket_side().OnEnd(SessionEnd::kBroken, entry.broken_why);
      return absl::OkStatus();
    }
    entry.segment = entry.connection->segment;
  }
  const bool fits = placed.length <= kMaxBatchBytes;
  const Room room{.offset = placed.offset, .length = fits ? AlignRoom(placed.length) : 0};
  if (entry.segment == nullptr || !entry.segment->Holds(room)) {
    return absl::InvalidArgumentError(absl::StrCat("a result of ", placed.length, " bytes at ",
                                                   placed.offset, ", which is in no segment"));
  }
  std::vector<std::shared_ptr<const void>> owner;
  uint8_t* const body = NewUnsetBuffer(placed.length, &owner);
  std::memcpy(body, entry.segment->data(room), static_cast<size_t>(placed.length));
  metadata.remove_prefix(kPlacedPrefixSize);
  MILLRACE_ASSIGN_OR_RETURN(const BatchPrefix prefix, DecodeBatchPrefix(metadata));
  Count([](FeederStats& stats) {
    ++stats.results_received;
    ++stats.results_placed;
  });
  SessionSocketSide& side = entry.session->socket_side();
  side.OnPlacedResult();
  return side.OnResult(
      prefix, std::string(metadata.substr(kBatchPrefixSize)),
      {{.data = body, .size = static_cast<size_t>(placed.length), .owner = std::move(owner[0])}});
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
  if (!replies_->Bar(principal)) return;
  MILLRACE_LOG(WARNING) << "a bad frame from " << principal
                        << ", nothing more is taken from it: " << reason.message();
  std::vector<std::shared_ptr<FeedSession>> sessions;
  for (const auto& [id, entry] : sessions_) {
    if (NodePrincipal(entry.session->target()) == principal) sessions.push_back(entry.session);
  }
  for (const std::shared_ptr<FeedSession>& session : sessions) {
    session->socket_side().OnEnd(
        SessionEnd::kBadPeer,
        absl::DataLossError(
            absl::StrCat(session->Place(), ": the node sent a bad frame: ", reason.message())));
  }
}

}  // namespace millrace
