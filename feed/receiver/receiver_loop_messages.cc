// What a ReceiverLoop does with the messages of feeders.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "feed/receiver/receiver_loop.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

bool IsFromFeeder(FrameType type) {
  return type == FrameType::kOpen || type == FrameType::kSchema || type == FrameType::kBatch ||
         type == FrameType::kEndPartition || type == FrameType::kAbort ||
         type == FrameType::kBlocked || type == FrameType::kResultCredit ||
         type == FrameType::kRevoke || type == FrameType::kMapped || type == FrameType::kPlaced;
}

}  // namespace

void ReceiverLoop::HandleMessage(DataSocket* data, std::vector<ZmqMessage> parts) {
  const std::string principal(parts[0].user_id());
  if (principal.empty() || poisoned_.contains(principal)) {
    core_->CountDroppedFrame();
    return;
  }
  const absl::StatusOr<FrameHeader> header = DecodeHeader(parts[0].view());
  absl::Status status = header.status();
  if (absl::IsUnimplemented(status)) return HandleForeign(data, principal, parts, status);
  if (status.ok()) {
    status = CheckFrameParts(*header, parts.size(), parts.size() > 1 ? parts[1].size() : 0);
  }
  if (status.ok()) status = HandleFrame(data, principal, *header, &parts);
  if (!status.ok()) Poison(principal, status);
}

void ReceiverLoop::HandleForeign(DataSocket* data, const std::string& principal,
                                 const std::vector<ZmqMessage>& parts, const absl::Status& status) {
  const std::optional<FrameHeader> header = DecodeForeignHeader(parts[0].view());
  if (!header.has_value()) return core_->CountDroppedFrame();
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
  if (header.type == FrameType::kAbort) return HandleAbort(it, metadata);
  if (session.core == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(FrameTypeName(header.type), " before CREDIT"));
  }
  if (session.failed) {
    if (header.type == FrameType::kEndPartition) {
      segments_.Vacate(session.connection, header.session);
    }
    return absl::OkStatus();
  }
  return HandleInSession(it, header.type, parts);
}

absl::Status ReceiverLoop::HandleAbort(Sessions::iterator it, absl::string_view metadata) {
  MILLRACE_RETURN_IF_ERROR(DecodeError(metadata).status());
  const Session& session = it->second;
  const uint64_t id = it->first.second;
  const uint64_t connection = session.connection;
  if (session.core != nullptr) {
    core_->Abort(session.core);
  } else if (const auto link = links_.find(session.link); link != links_.end()) {
    std::erase_if(link->second->pending,
                  [&](const PendingOpen& open) { return open.session == id; });
  }
  if (session.core == nullptr) sessions_.erase(it);
  segments_.Leave(connection, id);
  return absl::OkStatus();
}

absl::Status ReceiverLoop::HandleInSession(Sessions::iterator it, FrameType type,
                                           std::vector<ZmqMessage>* parts) {
  Session& session = it->second;
  const absl::string_view metadata = parts->size() > 1 ? (*parts)[1].view() : absl::string_view();
  if (type == FrameType::kSchema) {
    const absl::Status status = HandleSchema(&session, metadata);
    if (!absl::IsUnimplemented(status)) return status;
    // A schema in order, of something that feeds do not carry: a mistake of this session alone.
    session.failed = true;
    FailSession(it, absl::InvalidArgumentError(status.message()));
    return absl::OkStatus();
  }
  if (type == FrameType::kBatch) return HandleBatch(&session, parts);
  if (type == FrameType::kPlaced) return HandlePlaced(&session, metadata);
  if (type == FrameType::kMapped) {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFrame mapped, DecodeMapped(metadata));
    MILLRACE_RETURN_IF_ERROR(core_->Mapped(session.core, mapped));
    segments_.OnMapped(session.connection, mapped);
    return absl::OkStatus();
  }
  if (type == FrameType::kBlocked) {
    MILLRACE_ASSIGN_OR_RETURN(const BlockedFrame blocked, DecodeBlocked(metadata));
    return core_->Block(session.core, blocked.needed);
  }
  if (type == FrameType::kResultCredit) {
    MILLRACE_ASSIGN_OR_RETURN(const ResultCreditFrame credit, DecodeResultCredit(metadata));
    return core_->RaiseResultLimit(session.core, credit.limit);
  }
  if (type == FrameType::kRevoke) {
    MILLRACE_ASSIGN_OR_RETURN(const RevokeFrame revoke, DecodeRevoke(metadata));
    return core_->Revoke(session.core, revoke.max_row);
  }
  MILLRACE_ASSIGN_OR_RETURN(EndPartitionFrame end, DecodeEndPartition(metadata));
  const absl::Status status = core_->EndPartition(session.core, end.end_row);
  segments_.Vacate(session.connection, it->first.second);
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

// Frames that were under way when their session ended. What they say of the segment holds for their
// connection.
absl::Status ReceiverLoop::HandleOfEnded(uint64_t connection, const FrameHeader& header,
                                         absl::string_view metadata) {
  bool dropped = true;
  if (header.type == FrameType::kEndPartition) {
    dropped = !segments_.Vacate(connection, header.session);  // now it writes no more
  } else if (header.type == FrameType::kAbort) {
    dropped = !segments_.Leave(connection, header.session);  // nor does it read
  } else if (header.type == FrameType::kMapped) {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFrame mapped, DecodeMapped(metadata));
    dropped = !segments_.OnMapped(connection, mapped);
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
  return AddBatch(session, metadata, bytes, std::move(body), /*placed=*/false);
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
  return AddBatch(session, metadata, static_cast<int64_t>(metadata.size()) + placed.length,
                  std::move(body), /*placed=*/true);
}

absl::Status ReceiverLoop::AddBatch(Session* session, absl::string_view metadata, int64_t bytes,
                                    std::vector<BodyPart> body, bool placed) {
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
                                     .decode_time = options_.clock->SteadyNow() - before,
                                     .placed = placed});
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

}  // namespace millrace
