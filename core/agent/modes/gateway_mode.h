// File: core/agent/modes/gateway_mode.h
//
// `millrace-agent gateway`: the way to the coordinator for a process that feeds where no node is;
// docs/control_protocol.md, section 6.

#ifndef CORE_AGENT_MODES_GATEWAY_MODE_H_
#define CORE_AGENT_MODES_GATEWAY_MODE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/agent/link/coordinator_channel.h"
#include "core/agent/link/gateway_calls.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/parent_link.h"
#include "core/base/json.h"

namespace millrace {

// Ownership: the loop must outlive it. Thread safety: the loop's thread only. Blocking: Cleanup().
class GatewayMode {
 public:
  struct Options {
    int in_fd = 0;   // from the parent
    int out_fd = 1;  // to the parent
    std::string version;
  };

  GatewayMode(EventLoop* loop, Options options);
  GatewayMode(const GatewayMode&) = delete;
  GatewayMode& operator=(const GatewayMode&) = delete;

  // Says ready and serves the parent until that is gone.
  void Start();
  void OnSignal(int signal);
  int Cleanup();

 private:
  void OnRequest(const Json& id, const std::string& method, const Json& params);
  absl::StatusOr<Json> Connect(const Json& params);
  void OnParentGone(const absl::Status& status);

  EventLoop* const loop_;
  const Options options_;
  ParentLink parent_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GatewayCalls> calls_;  // null before `start`
  int exit_code_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_GATEWAY_MODE_H_
