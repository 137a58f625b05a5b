// File: core/agent/loop/helper_process.h
//
// A small program that the agent runs for itself (millrace-gpu, nvidia-smi): its stdout is read,
// its stdin is a pipe that ends with the agent, its stderr goes nowhere.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto helper, HelperProcess::Start(
//       &loop, &reaper, {.program = path, .args = {"--once"}, .environment = environment},
//       {.on_output = [&](absl::string_view bytes) {...},
//        .on_end = [&](const ExitStatus&) {...}}));

#ifndef CORE_AGENT_LOOP_HELPER_PROCESS_H_
#define CORE_AGENT_LOOP_HELPER_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"

namespace millrace {

// Ownership: loop and reaper must outlive it. Thread safety: the loop's thread only, which must be
// the main thread. Blocking: never. Lifetime: the destructor kills the process and does not wait
// for it: one that hangs in a driver may live on until the driver lets it go. It dies with the
// agent in any case.
class HelperProcess {
 public:
  struct Options {
    std::string program;                   // a path
    std::vector<std::string> args;         // after argv[0]
    std::vector<std::string> environment;  // "NAME=value"
  };
  // Either callback may destroy the HelperProcess.
  struct Callbacks {
    std::function<void(absl::string_view bytes)> on_output;
    // Once, after all output. A program that cannot be run ends with exit code 127.
    std::function<void(const ExitStatus&)> on_end;
  };

  // Returns RESOURCE_EXHAUSTED or another error of the system if there is no process or descriptor.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HelperProcess>> Start(EventLoop* loop,
                                                                            ChildReaper* reaper,
                                                                            const Options& options,
                                                                            Callbacks callbacks);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  HelperProcess(EventLoop* loop, ChildReaper* reaper, Callbacks callbacks);
  // False if this object is gone, or the output has ended.
  bool ReadSome();
  void OnEnded(const ExitStatus& status);

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  const Callbacks callbacks_;
  UniqueFd in_;
  UniqueFd out_;
  pid_t pid_ = -1;  // -1: has ended
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_HELPER_PROCESS_H_
