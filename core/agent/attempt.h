// File: core/agent/attempt.h
//
// One attempt of an agent's node.
//
// Defines: Attempt.

#ifndef CORE_AGENT_ATTEMPT_H_
#define CORE_AGENT_ATTEMPT_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/agent/node/node_runner.h"
#include "core/agent/node/sidecar_runner.h"
#include "core/base/json.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// From the moment at which the agent may start its node until another attempt takes its place, or
// the agent is over. It has at most one run of the program, and what goes with the run: frames
// pushed before it are kept for it, sidecars end with it. Nothing of it outlives the attempt but
// the log that is still to be written (Retire()). Thread safety: the loop's thread.
class Attempt {
 public:
  Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // ---- Before the launch ----

  // True for the first caller, who claims the GPUs and says when they are there.
  [[nodiscard]] bool BeginGpuClaim();
  void OnGpusClaimed() { gpus_ = Gpus::kClaimed; }
  [[nodiscard]] bool has_gpus() const { return gpus_ == Gpus::kClaimed; }

  // ---- The run ----

  // Once. Errors of NodeRunner::Launch(), after which the runner is there and not alive.
  [[nodiscard]] absl::Status Launch(std::unique_ptr<NodeRunner> runner,
                                    NodeRunner::Options options);
  // Null before Launch() and after Retire().
  [[nodiscard]] NodeRunner* runner() const { return runner_.get(); }
  // The program was started and something of it is left.
  [[nodiscard]] bool alive() const { return runner_ != nullptr && runner_->alive(); }
  // That of the launch.
  [[nodiscard]] const std::string& context_path() const { return context_path_; }
  // To the program, or kept for it until the launch. Beyond a bound those kept are dropped.
  void Push(const Json& frame);
  // Pushes that the queue has ended, once: the coordinator tells it again to an agent that attaches
  // again, and the program may have gone on to inference, which it would end.
  void EndFeed(const std::string& queue);

  // ---- What it publishes ----

  void OnEndpoints(v1::NodeEndpoints endpoints) { endpoints_ = std::move(endpoints); }
  void AddSidecar(std::unique_ptr<SidecarRunner> sidecar);
  void OnSidecarUrl(const std::string& name, const std::string& url);  // "": it is gone
  void StopSidecars();
  // Of the program and its sidecars; absent: nothing.
  [[nodiscard]] std::optional<v1::NodeEndpoints> Published() const;

  // ---- What the coordinator was told, and wants ----

  // The last one is sent again with every Register.
  void OnReported(v1::NodeUpdate update) { reported_ = std::move(update); }
  [[nodiscard]] const std::optional<v1::NodeUpdate>& reported() const { return reported_; }
  // The program is to end, and another attempt follows.
  void OnRestartAsked() { restart_asked_ = true; }
  [[nodiscard]] bool restart_asked() const { return restart_asked_; }

  // ---- Its end; the run is over ----

  // What became of the run that ended with `exit`, which is not OK, in words about `who`: why it
  // was killed here, what the program said, or how it exited.
  [[nodiscard]] absl::Status RunError(const ExitStatus& exit, absl::string_view who) const;
  // Whether RunError() knows more than how it exited.
  [[nodiscard]] bool knows_why() const;
  // The exit and the last lines of stderr.
  void AddEndTo(const ExitStatus& exit, v1::NodeUpdate* update) const;
  // The agent waits for another attempt, since this one ended with `error`. Returns the run, whose
  // log may not have reached the disk yet; null if there was none.
  [[nodiscard]] std::unique_ptr<NodeRunner> Retire(absl::Status error);
  // Once retired.
  [[nodiscard]] const absl::Status& error() const { return error_; }

 private:
  enum class Gpus { kNone, kClaiming, kClaimed };

  Gpus gpus_ = Gpus::kNone;
  std::vector<Json> early_pushes_;
  std::set<std::string> ended_queues_;
  std::unique_ptr<NodeRunner> runner_;
  std::string context_path_;
  std::vector<std::unique_ptr<SidecarRunner>> sidecars_;
  std::map<std::string, std::string> sidecar_urls_;  // by name
  std::optional<v1::NodeEndpoints> endpoints_;       // of the program
  std::optional<v1::NodeUpdate> reported_;
  bool restart_asked_ = false;
  absl::Status error_;
};

}  // namespace millrace

#endif  // CORE_AGENT_ATTEMPT_H_
