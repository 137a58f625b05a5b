#include "feed/feeder/fake_feed_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "feed/wire/local_name.h"

namespace millrace {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  MILLRACE_CHECK(result.ok()) << result.status();
  return *std::move(result);
}

void OrDie(const absl::Status& status) { MILLRACE_CHECK(status.ok()) << status; }

}  // namespace

// ------------------------------------------------------------------------------------- Session

void FakeFeedNode::Session::Credit(int64_t limit, int64_t released) {
  Frame({.type = FrameType::kCredit}, EncodeCredit({.limit = limit, .released = released}));
}

void FakeFeedNode::Session::CreditAll() { Credit(received_bytes + kPlenty, received_bytes); }

void FakeFeedNode::Session::CreditNeeded() { Credit(needed, 0); }

void FakeFeedNode::Session::Wait(int64_t position, int64_t progress) {
  Frame({.type = FrameType::kWait}, EncodeWait({.position = position, .progress = progress}));
}

void FakeFeedNode::Session::Received(int64_t row) {
  Frame({.type = FrameType::kReceived}, EncodeRow({.row = row}));
}

void FakeFeedNode::Session::Ack(int64_t row) {
  Frame({.type = FrameType::kAck}, EncodeRow({.row = row}));
}

void FakeFeedNode::Session::Revoked(int64_t row) {
  Frame({.type = FrameType::kRevoked}, EncodeRow({.row = row}));
}

void FakeFeedNode::Session::Result(const RecordBatch& batch, int64_t first_row) {
  if (!schema_sent_) {
    schema_sent_ = true;
    Frame({.type = FrameType::kSchema}, OrDie(EncodeSchema(batch.schema())));
  }
  const EncodedBatch encoded = OrDie(EncodeBatch(batch));
  std::vector<std::string> body;
  for (const BodyPart& part : encoded.parts) {
    body.emplace_back(reinterpret_cast<const char*>(part.data), part.size);
  }
  Frame({.type = FrameType::kResult},
        EncodeBatchPrefix({.first_row = first_row, .rows = batch.num_rows()}) + encoded.metadata,
        body);
}

void FakeFeedNode::Session::Done(int64_t rows_in, int64_t rows_out) {
  Frame({.type = FrameType::kDone}, EncodeDone({.rows_in = rows_in, .rows_out = rows_out}));
  ended = true;
}

void FakeFeedNode::Session::Terminated(int64_t row) {
  Frame({.type = FrameType::kTerminated}, EncodeTerminated({.message = "enough", .row = row}));
  ended = true;
}

void FakeFeedNode::Session::Error(const absl::Status& status, bool program_ended) {
  Frame({.type = FrameType::kError}, EncodeError({.code = status.code(),
                                                  .message = std::string(status.message()),
                                                  .program_ended = program_ended}));
  ended = true;
}

void FakeFeedNode::Session::Frame(FrameHeader header, const std::string& metadata,
                                  const std::vector<std::string>& body) {
  header.session = id;
  header.seq = seq_++;
  header.metadata_length = static_cast<uint32_t>(metadata.size());
  std::vector<std::string> parts = {EncodeHeader(header)};
  if (!metadata.empty()) parts.push_back(metadata);
  parts.insert(parts.end(), body.begin(), body.end());
  Raw(parts);
}

void FakeFeedNode::Session::Raw(const std::vector<std::string>& parts) {
  node_->SendTo(*this, parts);
}

// ------------------------------------------------------------------------------------- scripts

FakeFeedNode::Script FakeFeedNode::ReadAll() {
  return [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(kPlenty, 0);
    if (type == FrameType::kBatch) {
      session.Received(session.row);
      session.Ack(session.row);
      session.CreditAll();
    }
    if (type == FrameType::kEndPartition) {
      session.Received(session.row);
      session.Done(*session.end_row - session.open.first_row, 0);
    }
  };
}

FakeFeedNode::Script FakeFeedNode::Echo() {
  return [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(kPlenty, 0);
    if (type == FrameType::kBatch) {
      session.Received(session.row);
      const RecordBatch& batch = session.batches.back();
      session.Result(batch, session.row - batch.num_rows());
      session.CreditAll();
    }
    if (type == FrameType::kEndPartition) session.Done(*session.end_row, *session.end_row);
  };
}

FakeFeedNode::Script FakeFeedNode::ReceiveOnly() {
  return [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(kPlenty, 0);
    if (type == FrameType::kBatch || type == FrameType::kEndPartition) {
      session.Received(session.row);
    }
  };
}

FakeFeedNode::Script FakeFeedNode::Mute() {
  return [](Session&, FrameType) {};
}

// ---------------------------------------------------------------------------------------- node

FakeFeedNode::FakeFeedNode(std::string name, Script script, std::string nonce,
                           std::string reply_key)
    : name_(std::move(name)),
      nonce_(nonce.empty() ? RandomHex(8) : std::move(nonce)),
      key_(RandomHex(16)),
      reply_key_(reply_key.empty() ? key_ : std::move(reply_key)),
      logins_(key_),
      script_(std::move(script)),
      context_(OrDie(ZmqContext::Create())) {
  zap_.emplace(OrDie(ZapServer::Create(context_, [this](const ZapRequest& request) {
    return logins_.Accept(request.user, request.password) ? std::optional(request.user)
                                                          : std::nullopt;
  })));
  pull_ = OrDie(ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::PlainServer()));
  tcp_ = OrDie(pull_.Bind("tcp://127.0.0.1:*"));
  ipc_ = OrDie(pull_.Bind(MakeLocalName()));
  pull_.DetachFromThread();
  wake_.emplace(OrDie(WakeFd::Create()));
  thread_ = Thread("fake-node", [this] { Run(); });
}

FeedTarget FakeFeedNode::target() const {
  return {.node = name_,
          .executor_id = 0,
          .attempt = 0,
          .nonce = nonce_,
          .ipc_endpoint = ipc_,
          .tcp_endpoint = tcp_,
          .key = key_,
          .state = FeedTarget::State::kRunning};
}

void FakeFeedNode::Run() {
  Poller poller;
  poller.Add(pull_);
  poller.Add(zap_->socket());
  poller.Add(*wake_);
  while (true) {
    {
      MutexLock lock(&mu_);
      if (stop_) break;
      if (close_data_ && pull_.open()) {
        poller.Remove(pull_);
        pull_.Close();
        closed_data_ = true;
        changed_.SignalAll();
      }
    }
    OrDie(poller.Wait(absl::InfiniteDuration()));
    wake_->Clear();
    if (poller.HasInput(zap_->socket())) OrDie(zap_->Poll());
    if (pull_.open() && poller.HasInput(pull_)) Receive();
    RunPosted();
  }
  pull_.Close();
  replies_.clear();
  zap_.reset();
  MutexLock lock(&mu_);
  stopped_ = true;
  changed_.SignalAll();
}

void FakeFeedNode::Receive() {
  while (auto parts = OrDie(pull_.Receive())) Handle(*std::move(parts));
}

void FakeFeedNode::Handle(std::vector<ZmqMessage> parts) {
  {
    MutexLock lock(&mu_);
    messages_.emplace_back();
    for (const ZmqMessage& part : parts) messages_.back().emplace_back(part.view());
  }
  const FrameHeader header = OrDie(DecodeHeader(parts[0].view()));
  const absl::string_view metadata = parts.size() > 1 ? parts[1].view() : absl::string_view();
  Session& session = sessions_[header.session];
  if (header.type == FrameType::kOpen) session = Session();  // again, by another way
  MILLRACE_CHECK(header.seq == session.in_seq_) << "seq " << header.seq;
  ++session.in_seq_;
  Event event{.type = header.type, .session = header.session, .seq = header.seq};
  std::vector<int64_t> values;
  if (header.type == FrameType::kOpen) {
    session.id = header.session;
    session.node_ = this;
    session.open = OrDie(DecodeOpen(metadata));
    session.row = session.open.first_row;
    session.reply_ = session.open.reply.endpoint;
    if (!replies_.contains(session.reply_)) {
      const std::string self = absl::StrCat("node/", nonce_);
      ZmqSocket push = OrDie(ZmqSocket::Create(
          context_, SocketType::kPush,
          SocketOptions::Plain(self, NodePassword(reply_key_, session.open.reply.challenge,
                                                  std::string(parts[0].user_id()), self))));
      OrDie(push.Connect(session.reply_));
      replies_.emplace(session.reply_, std::move(push));
    }
  } else if (header.type == FrameType::kSchema) {
    session.decoder_.emplace(OrDie(DecodeSchema(metadata)));
  } else if (header.type == FrameType::kBatch) {
    const BatchPrefix prefix = OrDie(DecodeBatchPrefix(metadata));
    MILLRACE_CHECK(prefix.first_row == session.row);
    event.bytes = static_cast<int64_t>(metadata.size());
    std::vector<BodyPart> body;
    for (size_t i = 2; i < parts.size(); ++i) {
      auto owner = std::make_shared<ZmqMessage>(std::move(parts[i]));
      event.bytes += static_cast<int64_t>(owner->size());
      body.push_back({owner->data(), owner->size(), owner});
    }
    session.batches.push_back(OrDie(session.decoder_->Decode(
        metadata.substr(kBatchPrefixSize), static_cast<uint32_t>(prefix.rows), std::move(body))));
    session.row += prefix.rows;
    session.received_bytes += event.bytes;
    event.first_row = prefix.first_row;
    event.rows = prefix.rows;
    const ColumnView column = session.batches.back().column(0);
    values.assign(column.values<int64_t>(), column.values<int64_t>() + column.length());
  } else if (header.type == FrameType::kEndPartition) {
    session.end_row = OrDie(DecodeEndPartition(metadata)).end_row;
    MILLRACE_CHECK(*session.end_row == session.row);
  } else if (header.type == FrameType::kBlocked) {
    event.bytes = session.needed = OrDie(DecodeBlocked(metadata)).needed;
  } else if (header.type == FrameType::kRevoke) {
    event.rows = OrDie(DecodeRevoke(metadata)).max_row;
  } else if (header.type == FrameType::kAbort) {
    session.abort = OrDie(DecodeError(metadata));
    event.abort = session.abort;
    session.ended = true;
  }
  if (header.type == FrameType::kResultCredit) return;  // its results are small
  event.open = session.open;
  {
    MutexLock lock(&mu_);
    events_.push_back(event);
    values_.insert(values_.end(), values.begin(), values.end());
    changed_.SignalAll();
  }
  if (!session.ended) script_(session, header.type);
}

void FakeFeedNode::RunPosted() {
  std::function<void(Session&)> posted;
  {
    MutexLock lock(&mu_);
    posted = posted_;
  }
  if (posted == nullptr) return;
  for (auto& [id, session] : sessions_) {
    if (!session.ended) posted(session);
  }
  MutexLock lock(&mu_);
  posted_ = nullptr;
  changed_.SignalAll();
}

void FakeFeedNode::Post(std::function<void(Session&)> f) {
  {
    MutexLock lock(&mu_);
    posted_ = std::move(f);
  }
  wake_->Wake();
  MutexLock lock(&mu_);
  while (posted_ != nullptr && !stopped_) {
    changed_.WaitWithTimeout(&mu_, absl::Seconds(10));
  }
}

void FakeFeedNode::CloseData() {
  {
    MutexLock lock(&mu_);
    close_data_ = true;
  }
  wake_->Wake();
  MutexLock lock(&mu_);
  while (!closed_data_ && !stopped_) changed_.WaitWithTimeout(&mu_, absl::Seconds(10));
}

void FakeFeedNode::SendTo(const Session& session, const std::vector<std::string>& parts) {
  std::vector<ZmqMessage> message;
  for (const std::string& part : parts) message.push_back(ZmqMessage::Copy(part));
  (void)OrDie(replies_.at(session.reply_).Send(std::move(message)));
}

void FakeFeedNode::Kill() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
  }
  wake_->Wake();
  thread_.Join();
}

std::vector<FakeFeedNode::Event> FakeFeedNode::events() const {
  MutexLock lock(&mu_);
  return events_;
}

std::vector<std::vector<std::string>> FakeFeedNode::messages() const {
  MutexLock lock(&mu_);
  return messages_;
}

std::vector<int64_t> FakeFeedNode::values() const {
  MutexLock lock(&mu_);
  return values_;
}

bool FakeFeedNode::WaitFor(const std::function<bool(const std::vector<Event>&)>& condition) const {
  MutexLock lock(&mu_);
  const absl::Time deadline = absl::Now() + absl::Seconds(40);
  while (!condition(events_)) {
    if (changed_.WaitWithDeadline(&mu_, deadline)) return condition(events_);
  }
  return true;
}

}  // namespace millrace
