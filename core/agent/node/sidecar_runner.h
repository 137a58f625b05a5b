// File: core/agent/node/sidecar_runner.h
//
// One run of a sidecar, a program beside the node (Sidecar in core/proto): its reserved port, its
// process, its output, and the moment at which its port takes connections.
//
//   SidecarRunner board(&loop, &reaper, {.on_url = ..., .on_text = ...});
//   MILLRACE_RETURN_IF_ERROR(board.Start(options));
//   ...                                     // the destructor kills it

#ifndef CORE_AGENT_NODE_SIDECAR_RUNNER_H_
#define CORE_AGENT_NODE_SIDECAR_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/node_process.h"
#include "core/agent/node/output_capture.h"
#include "core/agent/node/port_reservation.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Ownership: loop and reaper must outlive it. Thread safety: the loop's thread, the main thread.
// Blocking: never. Lifetime: the destructor kills its process group.
class SidecarRunner {
 public:
  struct Hooks {
    // Its URL once its port takes connections; empty when it has ended after that.
    std::function<void(const std::string& url)> on_url;
    // Something a person may want to know: one line.
    std::function<void(const std::string& text)> on_text;
  };

  struct Options {
    v1::Sidecar sidecar;
    std::string bind_address;  // numeric: "{host}", and where the port is reserved
    std::string advertise;     // host of the URL
    PortRange ports;
    std::string log_dir;   // "{log_dir}"; its output goes to <log_dir>/<name>.<attempt>.log
    uint32_t attempt = 0;  // of the node
    std::string path;      // value of PATH
    std::string working_dir;
    std::vector<std::string> env;  // "NAME=value": the whole environment
  };

  SidecarRunner(EventLoop* loop, ChildReaper* reaper, Hooks hooks);
  ~SidecarRunner();
  SidecarRunner(const SidecarRunner&) = delete;
  SidecarRunner& operator=(const SidecarRunner&) = delete;

  // Returns an error if it cannot be started; failures of exec are reported by on_text.
  [[nodiscard]] absl::Status Start(Options options);

 private:
  std::string Fill(absl::string_view text) const;
  void Probe();
  void OnConnected(bool connected);
  void OnChange(const ExitStatus& status);

  EventLoop* const loop_;
  const Hooks hooks_;
  Options options_;
  uint16_t port_ = 0;
  NodeProcess process_;
  std::unique_ptr<OutputCapture> capture_;
  UniqueFd probe_;  // a connection attempt under way
  bool published_ = false;
  EventLoop::TimerId probe_timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_SIDECAR_RUNNER_H_
