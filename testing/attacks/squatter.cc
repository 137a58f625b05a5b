// Another user's process at a node's address: it takes every login, plays the node as well as it
// can without the node's key, and tells what it got.
//
//   squatter ENDPOINT
//
// It binds ENDPOINT, again and again until it is free. On stdout: "ready ENDPOINT", and then a line
// for whatever comes: "login MECHANISM USER PASSWORD", "open METADATA", "abort METADATA", "rows
// NUMBER" for each batch. It answers an OPEN as a node does: connects to the reply endpoint, with a
// password made of what OPEN says, and sends CREDIT, RECEIVED and ACK.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;
constexpr absl::Duration kBindPatience = absl::Seconds(20);

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  MILLRACE_CHECK(result.ok()) << result.status();
  return *std::move(result);
}

void Tell(absl::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

class Squatter {
 public:
  explicit Squatter(const std::string& endpoint)
      : context_(OrDie(ZmqContext::Create())),
        zap_(OrDie(ZapServer::Create(context_,
                                     [](const ZapRequest& request) {
                                       Tell(absl::StrCat("login ", request.mechanism, " ",
                                                         request.user, " ", request.password));
                                       return std::optional(request.user);
                                     }))),
        pull_(OrDie(ZmqSocket::Create(context_, SocketType::kPull, SocketOptions::PlainServer()))) {
    Tell(absl::StrCat("ready ", Bind(endpoint)));
  }

  [[noreturn]] void Run() {
    Poller poller;
    poller.Add(pull_);
    poller.Add(zap_.socket());
    while (true) {
      MILLRACE_CHECK(poller.Wait(absl::InfiniteDuration()).ok());
      MILLRACE_CHECK(zap_.Poll().ok());
      while (auto parts = OrDie(pull_.Receive())) Handle(*parts);
    }
  }

 private:
  struct Session {
    std::string reply;
    uint64_t seq = 0;
  };

  std::string Bind(const std::string& endpoint) {
    const absl::Time deadline = absl::Now() + kBindPatience;
    while (true) {
      const absl::StatusOr<std::string> bound = pull_.Bind(endpoint);
      if (bound.ok() || absl::Now() > deadline) return OrDie(bound);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void Handle(const std::vector<ZmqMessage>& parts) {
    const FrameHeader header = OrDie(DecodeHeader(parts[0].view()));
    const absl::string_view metadata = parts.size() > 1 ? parts[1].view() : absl::string_view();
    Session& session = sessions_[header.session];
    if (header.type == FrameType::kOpen) {
      Tell(absl::StrCat("open ", metadata));
      Answer(metadata, parts[0].user_id(), &session);
      Send(header.session, FrameType::kCredit, EncodeCredit({.limit = kPlenty, .released = 0}));
    } else if (header.type == FrameType::kAbort) {
      Tell(absl::StrCat("abort ", metadata));
    } else if (header.type == FrameType::kBatch) {
      const BatchPrefix prefix = OrDie(DecodeBatchPrefix(metadata));
      Tell(absl::StrCat("rows ", prefix.rows));
      const int64_t row = prefix.first_row + prefix.rows;
      Send(header.session, FrameType::kReceived, EncodeRow({.row = row}));
      Send(header.session, FrameType::kAck, EncodeRow({.row = row}));
    }
  }

  // The password that a node's login had before it was a proof was the reply's "key".
  void Answer(absl::string_view metadata, absl::string_view feeder, Session* session) {
    const Json open = OrDie(ParseJson(metadata));
    const Json& reply = open.at("reply");
    session->reply = reply.at("endpoint").get<std::string>();
    if (replies_.contains(session->reply)) return;
    const std::string node = absl::StrCat("node/", open.at("node_nonce").get<std::string>());
    const std::string challenge = reply.value("challenge", "");
    const std::string password =
        reply.contains("key") ? reply.at("key").get<std::string>()
                              : NodePassword(challenge, challenge, std::string(feeder), node);
    ZmqSocket push =
        OrDie(ZmqSocket::Create(context_, SocketType::kPush, SocketOptions::Plain(node, password)));
    MILLRACE_CHECK(push.Connect(session->reply).ok());
    replies_.emplace(session->reply, std::move(push));
  }

  void Send(uint64_t id, FrameType type, const std::string& metadata) {
    Session& session = sessions_[id];
    const auto reply = replies_.find(session.reply);
    if (reply == replies_.end()) return;
    const FrameHeader header{.type = type,
                             .session = id,
                             .seq = session.seq++,
                             .metadata_length = static_cast<uint32_t>(metadata.size())};
    std::vector<ZmqMessage> parts;
    parts.push_back(ZmqMessage::Copy(EncodeHeader(header)));
    parts.push_back(ZmqMessage::Copy(metadata));
    MILLRACE_CHECK(reply->second.Send(std::move(parts)).ok());
  }

  ZmqContext context_;
  ZapServer zap_;
  ZmqSocket pull_;
  std::map<std::string, ZmqSocket> replies_;  // by endpoint
  std::map<uint64_t, Session> sessions_;
};

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s ENDPOINT\n", argv[0]);
    return 2;
  }
  millrace::Squatter(argv[1]).Run();
}
