// What a node writes to its agent over the control channel, and what the coordinator answers.
//
//   byte 0   bit 0: the rest is JSON, one frame a line, to which lengths are put; otherwise it is
//   what
//              comes over the socket
//            bit 1: the coordinator is away from the beginning; bit 2: it comes back at the end

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/control_channel.h"
#include "core/agent/node/node_requests.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/unique_fd.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

std::string WithLengths(absl::string_view lines) {
  std::string bytes;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const auto size = static_cast<uint32_t>(line.size());
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(size >> shift));
    bytes.append(line.data(), line.size());
  }
  return bytes;
}

// An agent around a node, as far as frames are concerned.
class Agent {
 public:
  explicit Agent(bool connected)
      : connected_(connected),
        requests_(
            {.reply = [this](const Json& frame) { Reply(frame); },
             .send = [this](v1::AgentMessage message,
                            bool droppable) { return Send(std::move(message), droppable); },
             .on_hello = [] {},
             .on_ready = [](const v1::NodeEndpoints&) {},
             .on_log = [](absl::string_view, absl::string_view) {},
             .on_release_port = [] {},
             .on_gpu_claim = [this](const GpuRequest&,
                                    Claimed done) { claims_.push_back(std::move(done)); },
             .on_gpu_release = [](const std::vector<std::string>&) { return absl::OkStatus(); },
             .on_sample = [](const v1::NodeSample&) {},
             .on_step = [](int64_t) {},
             .on_exit = [](const absl::Status&) {}}) {}

  void Run(absl::string_view bytes) {
    auto loop = EventLoop::Create();
    FUZZ_CHECK(loop.ok());
    auto channel = ControlChannel::Create(
        loop->get(), {.on_frame = [this](const Json& frame) { requests_.HandleFrame(frame); },
                      .on_closed = [] {}});
    FUZZ_CHECK(channel.ok());
    channel_ = channel->get();
    {
      const UniqueFd node = (*channel)->TakeNodeEnd();
      FUZZ_CHECK(send(node.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                 static_cast<ssize_t>(bytes.size()));
    }
    (*channel)->Drain();
    channel_ = nullptr;
  }

  // All that was asked is answered: with a value, without, with an error.
  void Answer() {
    for (const uint64_t id : kv_) {
      v1::KvReply reply;
      reply.set_request_id(id);
      if (id % 3 == 0) reply.set_value("value");
      if (id % 3 == 1) reply.mutable_error()->set_code(static_cast<int>(id % 20));
      requests_.HandleKvReply(reply);
      requests_.HandleKvReply(reply);  // nobody waits any more
    }
    for (const uint64_t id : barriers_) {
      v1::BarrierReply reply;
      reply.set_request_id(id);
      requests_.HandleBarrierReply(reply);
    }
    for (const Claimed& done : claims_) done(std::vector<std::string>{"GPU-0"});
  }

  void ComeBack() {
    requests_.OnLost();
    connected_ = true;
    requests_.OnRegistered();
  }

  void Forget() { requests_.Forget(); }

 private:
  using Claimed = std::function<void(const absl::StatusOr<std::vector<std::string>>&)>;

  // A reply is a frame that the node can read.
  void Reply(const Json& frame) {
    const std::string bytes = EncodeFrame(frame);
    const absl::StatusOr<Json> read = ParseJson(absl::string_view(bytes).substr(4));
    FUZZ_CHECK(read.ok());
    FUZZ_CHECK(read->contains("id"));
    FUZZ_CHECK(read->contains("result") != read->contains("error"));
    if (channel_ != nullptr) channel_->Send(frame);
  }

  bool Send(v1::AgentMessage message, bool /*droppable*/) {
    if (!connected_) return false;
    FUZZ_CHECK(message.message_case() != v1::AgentMessage::MESSAGE_NOT_SET);
    if (message.has_kv()) kv_.push_back(message.kv().request_id());
    if (message.has_barrier()) barriers_.push_back(message.barrier().request_id());
    return true;
  }

  bool connected_;
  ControlChannel* channel_ = nullptr;  // while bytes are read
  std::vector<uint64_t> kv_;
  std::vector<uint64_t> barriers_;
  std::vector<Claimed> claims_;
  NodeRequests requests_;
};

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.empty() || input.size() > size_t{64} << 10) return;
  SetLogLevel(LogLevel::kError);
  const auto flags = static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  Agent agent(/*connected=*/(flags & 2) == 0);
  agent.Run((flags & 1) != 0 ? WithLengths(input) : std::string(input));
  if ((flags & 4) != 0) agent.ComeBack();
  agent.Answer();
  agent.Forget();
}

}  // namespace millrace
