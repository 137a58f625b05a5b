#include "testing/schedules/feed_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/thread_scheduler.h"
#include "feed/feeder/reply_dispatch.h"
#include "feed/wire/zmq_socket.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kOpenTimeout = absl::Seconds(5);

absl::Duration Now() { return RealClock()->SteadyNow(); }

// Mostly some microseconds, now and then many milliseconds.
absl::Duration Delay() {
  const uint64_t most = ThreadScheduler::Random(16) == 0 ? 20'000 : 50;
  return absl::Microseconds(static_cast<int64_t>(ThreadScheduler::Random(most)));
}

}  // namespace

// ---- WireQueue

void WireQueue::Push(WireItem item) {
  const absl::Duration delay = Delay();
  delays_ += delay;
  item.at = Now() + delay;
  if (!items_.empty()) item.at = std::max(item.at, items_.back().at);
  items_.push_back(std::move(item));
}

std::optional<WireItem> WireQueue::Take(absl::Duration now) {
  if (items_.empty() || items_.front().at > now) return std::nullopt;
  std::optional<WireItem> item(std::move(items_.front()));
  items_.pop_front();
  return item;
}

absl::Duration WireQueue::next() const {
  return items_.empty() ? absl::InfiniteDuration() : items_.front().at;
}

void WireQueue::Cut(uint64_t connection, absl::Duration now) {
  const size_t kept = ThreadScheduler::Random(items_.size() + 1);
  // An earlier loss is known whatever becomes of this one.
  while (items_.size() > kept && !items_.back().lost) items_.pop_back();
  Push({.connection = connection, .at = now, .lost = true});
}

// ---- WiredNode

WiredNode::WiredNode(FeedWire* wire, std::string name, int executor_id, uint32_t attempt,
                     int64_t budget_bytes, std::function<void(const ReceiverRows&)> tell_rows)
    : wire_(wire),
      target_{.node = name,
              .executor_id = executor_id,
              .attempt = attempt,
              .nonce = absl::StrCat(name, "/", attempt),
              .tcp_endpoint = "tcp://wire"},
      core_(std::make_shared<ReceiverCore>(ReceiverCore::Options{.node_name = std::move(name),
                                                                 .nonce = target_.nonce,
                                                                 .queues = {"input"},
                                                                 .budget_bytes = budget_bytes,
                                                                 .clock = RealClock(),
                                                                 .tell_rows = std::move(tell_rows)},
                                           [this] {
                                             MutexLock lock(&wire_->mu_);
                                             woken_ = true;
                                             changed_.Signal();
                                           })),
      thread_(absl::StrCat("node ", target_.nonce), [this] { Run(); }) {}

WiredNode::~WiredNode() {
  Leave();
  thread_.Join();
}

void WiredNode::Kill() {
  {
    MutexLock lock(&wire_->mu_);
    dead_ = true;
    wire_->BreakLocked(this);
    changed_.Signal();
  }
  core_->Break(absl::UnavailableError("killed"));
}

bool WiredNode::dead() {
  MutexLock lock(&wire_->mu_);
  return dead_;
}

void WiredNode::Leave() {
  MutexLock lock(&wire_->mu_);
  leaves_ = true;
  changed_.Signal();
}

// As ReceiverLoop::Run.
void WiredNode::Run() {
  absl::Duration next = absl::InfiniteDuration();  // when Collect() wants to be called
  while (true) {
    std::optional<WireItem> item;
    {
      MutexLock lock(&wire_->mu_);
      while (!dead_ && !leaves_ && !woken_) {
        const absl::Duration now = Now();
        item = to_node_.Take(now);
        if (item.has_value() || next <= now) break;
        const absl::Duration until = std::min(next, to_node_.next());
        changed_.WaitWithTimeout(&wire_->mu_, until - now);
      }
      if (dead_) return;
      if (leaves_ && !woken_) {
        wire_->BreakLocked(this);
        return;
      }
      woken_ = false;
    }
    if (item.has_value()) {
      if (item->lost) {
        Lose(item->connection);
      } else {
        Handle(*std::move(item));
      }
    }
    ReceiverCore::Turn turn = core_->Collect();
    next = turn.next == absl::InfiniteDuration() ? turn.next : Now() + turn.next;
    MutexLock lock(&wire_->mu_);
    if (dead_) return;
    for (OutgoingFrame& frame : turn.frames) {
      if (frame.link != connection_) continue;  // it is lost
      to_feeder_.Push({.connection = connection_,
                       .header = frame.header,
                       .metadata = std::move(frame.metadata),
                       .body = std::move(frame.body)});
      wire_->changed_.Signal();
    }
    for (const ReceiverCore::SessionPtr& ended : turn.ended) {
      std::erase_if(sessions_, [&](const auto& each) { return each.second.core == ended; });
    }
  }
}

void WiredNode::Lose(uint64_t connection) {
  core_->ConnectionLost(connection);
  core_->LinkLost(connection);
}

// As ReceiverLoop::HandleFrame.
void WiredNode::Handle(WireItem item) {
  const FrameHeader header = item.header;
  if (header.type == FrameType::kOpen) {
    const absl::StatusOr<OpenFrame> open = DecodeOpen(item.metadata);
    if (!open.ok()) return wire_->AddFault(absl::StrCat("OPEN: ", open.status().message()));
    Session session{.connection = item.connection, .next_seq = 1};
    session.core =
        core_->Open("feeder/a", header.session, /*link=*/item.connection, item.connection, *open);
    if (session.core != nullptr) sessions_[header.session] = std::move(session);
    return;
  }
  const auto it = sessions_.find(header.session);
  if (it == sessions_.end()) return core_->CountDroppedFrame();
  Session& session = it->second;
  if (header.seq != session.next_seq++) {
    return wire_->AddFault(absl::StrCat(FrameTypeName(header.type), " ", header.seq, " came where ",
                                        session.next_seq - 1, " was due"));
  }
  if (header.type == FrameType::kAbort) return core_->Abort(session.core);
  const absl::Status status = HandleInSession(&session, std::move(item));
  if (!status.ok() && !absl::IsDataLoss(status)) {
    wire_->AddFault(
        absl::StrCat("the node refuses ", FrameTypeName(header.type), ": ", status.message()));
  }
}

absl::Status WiredNode::HandleInSession(Session* session, WireItem item) {
  switch (item.header.type) {
    case FrameType::kSchema: {
      MILLRACE_ASSIGN_OR_RETURN(const Schema schema, DecodeSchema(item.metadata));
      MILLRACE_ASSIGN_OR_RETURN(const Schema shared, core_->SetSchema(session->core, schema));
      session->decoder.emplace(shared);
      return absl::OkStatus();
    }
    case FrameType::kBatch: {
      if (!session->decoder.has_value()) return absl::InternalError("BATCH before SCHEMA");
      MILLRACE_ASSIGN_OR_RETURN(const BatchPrefix prefix, DecodeBatchPrefix(item.metadata));
      auto bytes = static_cast<int64_t>(item.metadata.size());
      for (const BodyPart& part : item.body) bytes += static_cast<int64_t>(part.size);
      MILLRACE_ASSIGN_OR_RETURN(
          RecordBatch rows,
          session->decoder->Decode(item.metadata.substr(kBatchPrefixSize),
                                   static_cast<uint32_t>(prefix.rows), std::move(item.body)));
      return core_->AddRows(
          session->core, {.rows = std::move(rows), .first_row = prefix.first_row, .bytes = bytes});
    }
    case FrameType::kBlocked: {
      MILLRACE_ASSIGN_OR_RETURN(const BlockedFrame blocked, DecodeBlocked(item.metadata));
      return core_->Block(session->core, blocked.needed);
    }
    case FrameType::kResultCredit: {
      MILLRACE_ASSIGN_OR_RETURN(const ResultCreditFrame credit, DecodeResultCredit(item.metadata));
      return core_->RaiseResultLimit(session->core, credit.limit);
    }
    case FrameType::kRevoke: {
      MILLRACE_ASSIGN_OR_RETURN(const RevokeFrame revoke, DecodeRevoke(item.metadata));
      return core_->Revoke(session->core, revoke.max_row);
    }
    case FrameType::kEndPartition: {
      MILLRACE_ASSIGN_OR_RETURN(const EndPartitionFrame end, DecodeEndPartition(item.metadata));
      return core_->EndPartition(session->core, end.end_row);
    }
    default:
      return absl::InternalError("a frame that this test does not know");
  }
}

// ---- FeedWire

class FeedWire::Link final : public SessionLink {
 public:
  Link(FeedWire* wire, std::shared_ptr<WiredNode> node, uint64_t connection)
      : wire_(wire), node_(std::move(node)), connection_(connection) {}

  absl::StatusOr<bool> Send(FrameHeader header, const std::string& metadata,
                            std::vector<BodyPart> body) override {
    MutexLock lock(&wire_->mu_);
    if (node_->dead_ || node_->connection_ != connection_) return false;
    node_->to_node_.Push({.connection = connection_,
                          .header = header,
                          .metadata = metadata,
                          .body = std::move(body)});
    node_->changed_.Signal();
    return true;
  }

 private:
  FeedWire* const wire_;
  const std::shared_ptr<WiredNode> node_;
  const uint64_t connection_;
};

FeedWire::FeedWire()
    : outbox_(std::make_shared<FeederOutbox>([this] {
        MutexLock lock(&mu_);
        woken_ = true;
        changed_.Signal();
      })),
      thread_("feeder", [this] { Run(); }) {}

void FeedWire::Add(const std::shared_ptr<WiredNode>& node) {
  MutexLock lock(&mu_);
  nodes_.push_back(node);
}

absl::StatusOr<std::shared_ptr<FeedSession>> FeedWire::OpenSession(const FeedTarget& target,
                                                                   const SessionOptions& options) {
  if (target.state != FeedTarget::State::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat(target.node, " is not running"));
  }
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    id = ++last_id_;
  }
  auto session = std::make_shared<FeedSession>(id, target, options, kOpenTimeout, outbox_);
  outbox_->Push({.kind = FeederCommand::Kind::kOpen, .session = session});
  return session;
}

void FeedWire::BreakLocked(WiredNode* node) {
  const absl::Duration now = Now();
  node->to_node_.Cut(node->connection_, now);
  node->to_feeder_.Cut(node->connection_, now);
  ++node->connection_;
  node->changed_.Signal();
  changed_.Signal();
}

void FeedWire::Break(WiredNode* node) {
  MutexLock lock(&mu_);
  if (!node->dead_) BreakLocked(node);
}

void FeedWire::Stop() {
  outbox_->Close();
  thread_.Join();
}

size_t FeedWire::num_sessions() { return sessions_.size(); }

absl::Duration FeedWire::delays() {
  MutexLock lock(&mu_);
  absl::Duration delays;
  for (const std::shared_ptr<WiredNode>& node : nodes_) {
    delays += node->to_node_.delays() + node->to_feeder_.delays();
  }
  return delays;
}

std::vector<std::string> FeedWire::faults() {
  MutexLock lock(&mu_);
  return faults_;
}

void FeedWire::AddFault(std::string what) {
  MutexLock lock(&mu_);
  faults_.push_back(std::move(what));
}

// As FeederLoop::RunTurn.
void FeedWire::Run() {
  while (!outbox_->closed()) {
    std::shared_ptr<WiredNode> from;
    std::optional<WireItem> item;
    {
      MutexLock lock(&mu_);
      while (!woken_) {
        const absl::Duration now = Now();
        absl::Duration next = absl::InfiniteDuration();
        const size_t first = nodes_.empty() ? 0 : ThreadScheduler::Random(nodes_.size());
        for (size_t i = 0; i < nodes_.size() && !item.has_value(); ++i) {
          from = nodes_[(first + i) % nodes_.size()];
          item = from->to_feeder_.Take(now);
          next = std::min(next, from->to_feeder_.next());
        }
        if (item.has_value()) break;
        changed_.WaitWithTimeout(&mu_, next - now);
      }
      woken_ = false;
    }
    for (const FeederCommand& command : outbox_->Take()) Execute(command);
    if (item.has_value()) Handle(from.get(), *std::move(item));
  }
  for (const FeederCommand& command : outbox_->Take()) Execute(command);
}

void FeedWire::Execute(const FeederCommand& command) {
  const std::shared_ptr<FeedSession>& session = command.session;
  switch (command.kind) {
    case FeederCommand::Kind::kOpen: {
      std::shared_ptr<WiredNode> node;
      uint64_t connection = 0;
      {
        MutexLock lock(&mu_);
        for (const std::shared_ptr<WiredNode>& each : nodes_) {
          if (each->target_.nonce != session->target().nonce || each->dead_ || each->leaves_)
            continue;
          node = each;
          connection = each->connection_;
        }
      }
      if (node == nullptr) {
        session->socket_side().OnEnd(SessionEnd::kBroken,
                                     absl::UnavailableError("nobody listens there"));
        return;
      }
      sessions_[session->id()] = {.session = session, .node = node, .connection = connection};
      session->socket_side().OnLink(
          std::make_shared<Link>(this, node, connection),
          {.endpoint = "tcp://127.0.0.1:1", .challenge = std::string(64, 'a')});
      return;
    }
    case FeederCommand::Kind::kClose:
      sessions_.erase(session->id());
      return;
    case FeederCommand::Kind::kPoison:
    case FeederCommand::Kind::kBreak:
      AddFault(absl::StrCat(session->Place(), ": ", command.reason.message()));
      return;
  }
}

void FeedWire::Handle(WiredNode* node, WireItem item) {
  if (item.lost) {
    std::vector<std::shared_ptr<FeedSession>> lost;
    for (const auto& [id, entry] : sessions_) {
      if (entry.node.get() == node && entry.connection == item.connection) {
        lost.push_back(entry.session);
      }
    }
    for (const std::shared_ptr<FeedSession>& session : lost) {
      session->socket_side().OnUnlink();
      session->socket_side().OnEnd(
          SessionEnd::kBroken,
          absl::UnavailableError(absl::StrCat(session->Place(), ": the connection is lost")));
    }
    return;
  }
  const auto it = sessions_.find(item.header.session);
  if (it == sessions_.end() || it->second.connection != item.connection) return;
  Entry& entry = it->second;
  const std::shared_ptr<FeedSession> session = entry.session;
  if (item.header.seq != entry.in_seq++) {
    return AddFault(absl::StrCat(session->Place(), ": reply ", item.header.seq, " came where ",
                                 entry.in_seq - 1, " was due"));
  }
  std::vector<ZmqMessage> parts;
  parts.push_back(ZmqMessage::Copy(EncodeHeader(item.header)));
  parts.push_back(ZmqMessage::Copy(item.metadata));
  for (const BodyPart& part : item.body) {
    parts.push_back(ZmqMessage::Copy({reinterpret_cast<const char*>(part.data), part.size}));
  }
  const absl::Status status = DispatchReply(*session, item.header, parts);
  if (!status.ok()) {
    AddFault(absl::StrCat("the feeder refuses ", FrameTypeName(item.header.type), ": ",
                          status.message()));
  }
}

}  // namespace millrace
