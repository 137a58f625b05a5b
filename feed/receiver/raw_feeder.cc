#include "feed/receiver/raw_feeder.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "feed/wire/local_name.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"

namespace millrace {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  MILLRACE_CHECK(value.ok()) << value.status();
  return *std::move(value);
}

void Must(const absl::Status& status) { MILLRACE_CHECK(status.ok()) << status; }

// Several raw feeders of a test may have one principal.
std::string NextPassword(const std::string& key, const std::string& principal) {
  static std::atomic<uint64_t> count{0};
  return FeederPassword(key, principal, ++count);
}

}  // namespace

RawFeeder::RawFeeder(const std::string& endpoint, const std::string& key, std::string principal)
    : challenge(MakeChallenge()),
      endpoint_(endpoint),
      key_(key),
      principal_(std::move(principal)),
      context_(Must(ZmqContext::Create())) {
  zap_ = Must(ZapServer::Create(context_, [this](const ZapRequest& request) {
    const bool proven = request.password == NodePassword(key_, challenge, principal_, request.user);
    return proven ? std::optional(request.user) : std::nullopt;
  }));
  push_ = Must(ZmqSocket::Create(context_, SocketType::kPush,
                                 SocketOptions::Plain(principal_, NextPassword(key, principal_))));
  pull_ = Must(ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::PlainServer()));
  Must(push_.StartMonitor());
  Must(pull_.StartMonitor());
  reply_endpoint_ = Must(pull_.Bind(MakeLocalName()));
}

RawFeeder::~RawFeeder() = default;

bool RawFeeder::Connect() {
  Must(push_.Connect(endpoint_));
  const absl::Time deadline = absl::Now() + patience;
  while (absl::Now() < deadline) {
    for (const ZmqEvent& event : push_events_) {
      if (event.kind == ZmqEvent::Kind::kHandshakeSucceeded) return true;
      if (event.kind != ZmqEvent::Kind::kConnected) return false;
    }
    Turn(absl::Milliseconds(100));
  }
  return false;
}

OpenFrame RawFeeder::Open(const std::string& nonce) const {
  return {.feed_id = "f1",
          .queue = "input",
          .node_nonce = nonce,
          .result_limit = int64_t{1} << 30,
          .reply = {.endpoint = reply_endpoint_, .challenge = challenge}};
}

void RawFeeder::Send(FrameHeader header, absl::string_view metadata,
                     const std::vector<BodyPart>& body) {
  header.metadata_length = static_cast<uint32_t>(metadata.size());
  std::vector<std::string> parts = {EncodeHeader(header)};
  if (!metadata.empty()) parts.emplace_back(metadata);
  for (const BodyPart& part : body) {
    parts.emplace_back(reinterpret_cast<const char*>(part.data), part.size);
  }
  SendParts(parts);
}

void RawFeeder::SendParts(const std::vector<std::string>& parts) {
  std::vector<ZmqMessage> messages;
  for (const std::string& part : parts) messages.push_back(ZmqMessage::Copy(part));
  static_cast<void>(Must(push_.Send(std::move(messages))));
}

void RawFeeder::SendSchema(uint64_t session, uint64_t seq, const Schema& schema) {
  Send({.type = FrameType::kSchema, .session = session, .seq = seq}, Must(EncodeSchema(schema)));
}

void RawFeeder::SendBatch(uint64_t session, uint64_t seq, int64_t first_row,
                          const RecordBatch& rows) {
  EncodedBatch encoded = Must(EncodeBatch(rows));
  Send({.type = FrameType::kBatch, .session = session, .seq = seq},
       EncodeBatchPrefix({.first_row = first_row, .rows = rows.num_rows()}) + encoded.metadata,
       encoded.parts);
}

void RawFeeder::Turn(absl::Duration timeout) {
  Poller poller;
  if (push_.open()) poller.Add(push_);
  poller.Add(pull_);
  poller.Add(zap_->socket());
  Must(poller.Wait(timeout));
  Must(zap_->Poll());
  while (push_.open()) {
    std::optional<ZmqEvent> event = Must(push_.NextEvent());
    if (!event.has_value()) break;
    push_events_.push_back(*std::move(event));
  }
  while (std::optional<ZmqEvent> event = Must(pull_.NextEvent())) {
    pull_events_.push_back(*std::move(event));
  }
  while (std::optional<std::vector<ZmqMessage>> parts = Must(pull_.Receive())) {
    Reply reply{.header = Must(DecodeHeader((*parts)[0].view()))};
    if (parts->size() > 1) reply.metadata = std::string((*parts)[1].view());
    for (size_t i = 2; i < parts->size(); ++i) reply.body.emplace_back((*parts)[i].view());
    replies_.push_back(std::move(reply));
  }
}

std::optional<RawFeeder::Reply> RawFeeder::Await(uint64_t session) {
  const absl::Time deadline = absl::Now() + patience;
  while (true) {
    const auto it = std::find_if(replies_.begin(), replies_.end(), [&](const Reply& reply) {
      return reply.header.session == session;
    });
    if (it != replies_.end()) {
      Reply reply = std::move(*it);
      replies_.erase(it);
      return reply;
    }
    if (absl::Now() >= deadline) return std::nullopt;
    Turn(absl::Milliseconds(100));
  }
}

std::optional<RawFeeder::Reply> RawFeeder::Await(uint64_t session, FrameType type) {
  while (true) {
    std::optional<Reply> reply = Await(session);
    if (!reply.has_value() || reply->header.type == type) return reply;
  }
}

ErrorFrame RawFeeder::AwaitError(uint64_t session) {
  const std::optional<Reply> reply = Await(session, FrameType::kError);
  if (!reply.has_value()) return {.code = absl::StatusCode::kOk};
  return Must(DecodeError(reply->metadata));
}

bool RawFeeder::HasReply(uint64_t session, absl::Duration wait) {
  const absl::Duration before = std::exchange(patience, wait);
  const bool has = Await(session).has_value();
  patience = before;
  return has;
}

bool RawFeeder::AwaitReplyLoss() {
  const absl::Time deadline = absl::Now() + patience;
  while (absl::Now() < deadline) {
    for (const ZmqEvent& event : pull_events_) {
      if (event.kind == ZmqEvent::Kind::kDisconnected) return true;
    }
    Turn(absl::Milliseconds(100));
  }
  return false;
}

}  // namespace millrace
