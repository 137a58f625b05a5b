// File: core/node/fake_agent_channel.h
//
// The agent's side of the control channel (docs/control_protocol.md, section 2), scripted. Test
// only.
//
// Defines: FakeAgentChannel.
//
//   FakeAgentChannel agent;
//   agent.Answer("kv.get", [](const Json&) { return Json{{"value", "aGk="}}; });
//   auto context = NodeContext::Create(config, agent.TakeNodeEnd(), on_agent_gone);
//   EXPECT_EQ(agent.WaitFor("hello").params["protocol"], 1);
//   agent.Push(Json{{"push", "stop"}, {"reason", "test"}});

#ifndef CORE_NODE_FAKE_AGENT_CHANNEL_H_
#define CORE_NODE_FAKE_AGENT_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Records every request and answers it: as Answer() says, otherwise with {}.
// Thread safety: thread-safe. Blocking: WaitFor() and WaitForEnd(); they end the process after a
// minute, so that a test fails instead of hanging.
class FakeAgentChannel {
 public:
  struct Request {
    std::optional<uint64_t> id;  // unset: wants no reply
    std::string method;
    Json params;
  };
  // The reply; nullopt for none, now: Reply() may give it later. Runs on the fake's thread.
  using AnswerFn = std::function<std::optional<absl::StatusOr<Json>>(const Json& params)>;

  FakeAgentChannel();
  // Closes the channel.
  ~FakeAgentChannel();
  FakeAgentChannel(const FakeAgentChannel&) = delete;
  FakeAgentChannel& operator=(const FakeAgentChannel&) = delete;

  // The node's end, once.
  [[nodiscard]] UniqueFd TakeNodeEnd() { return std::move(node_end_); }

  void Answer(const std::string& method, AnswerFn answer);
  void Reply(uint64_t id, const absl::StatusOr<Json>& outcome);
  void Push(const Json& push) { SendFrame(push); }
  void SendFrame(const Json& frame);
  void SendBytes(absl::string_view bytes);
  // Nothing more is sent or read; the node sees EOF. Idempotent.
  void Close();

  // The `count`-th request of this method.
  [[nodiscard]] Request WaitFor(const std::string& method, size_t count = 1);
  // Returns when the node has closed its end.
  void WaitForEnd();
  // All so far.
  [[nodiscard]] std::vector<Request> requests() const;

 private:
  void Run();
  [[nodiscard]] bool ReadFully(char* data, size_t size);
  void Handle(const Json& frame);

  UniqueFd fd_;
  UniqueFd node_end_;
  Mutex write_mu_;  // held while a frame is written; taken alone
  mutable Mutex mu_;
  CondVar changed_;
  std::map<std::string, AnswerFn> answers_ ABSL_GUARDED_BY(mu_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;  // last: it uses all of the above
};

// `text` as it goes over the channel: u32 little-endian length, then the bytes.
[[nodiscard]] std::string ControlFrame(absl::string_view text);

}  // namespace millrace

#endif  // CORE_NODE_FAKE_AGENT_CHANNEL_H_
