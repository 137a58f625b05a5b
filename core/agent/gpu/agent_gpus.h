// File: core/agent/gpu/agent_gpus.h
//
// The GPUs of an agent's node: watches the host's (GpuMonitor) and holds those that are claimed for
// the node, so that nobody else on the host gets them while anything of it is left.
//
//   AgentGpus gpus(&loop, &reaper, &guard, {.owner = {...}, .environment = environment});
//   gpus.Claim({.count = 2}, [&](const absl::StatusOr<std::vector<std::string>>& ids) {...});
//   ...
//   gpus.ReleaseAll();

#ifndef CORE_AGENT_GPU_AGENT_GPUS_H_
#define CORE_AGENT_GPU_AGENT_GPUS_H_

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/gpu/gpu_monitor.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/guard.h"
#include "core/gpu/gpu_claims.h"
#include "core/gpu/gpu_snapshot.h"

namespace millrace {

// Ownership: loop, reaper and guard must outlive it. Thread safety: the loop's thread only, the
// main thread. Blocking: never. Lifetime: the destructor releases, and drops what is being claimed.
class AgentGpus {
 public:
  struct Options {
    GpuOwner owner;
    std::optional<std::string>
        visible_devices;  // CUDA_VISIBLE_DEVICES as the node would inherit it
    GpuMonitor::Options monitor;
    // How long a claim waits for what the driver says, and for GPUs of nodes that are just ending.
    absl::Duration driver_patience = absl::Seconds(60);
    absl::Duration release_patience = absl::Seconds(3);
    std::function<void(const GpuSnapshot&)> on_update;  // may be null
  };
  using Done = std::function<void(const absl::StatusOr<std::vector<std::string>>&)>;

  AgentGpus(EventLoop* loop, ChildReaper* reaper, Guard* guard, Options options);
  ~AgentGpus();
  AgentGpus(const AgentGpus&) = delete;
  AgentGpus& operator=(const AgentGpus&) = delete;

  // Starts the monitor, if it does not run yet.
  void Watch() { monitor_.Start(); }
  // The host's GPUs; see GpuMonitor.
  [[nodiscard]] const GpuSnapshot& snapshot() const { return monitor_.snapshot(); }
  [[nodiscard]] bool settled() const { return monitor_.settled(); }

  // How the GPUs that this agent may use are claimed now; unset until it knows them.
  [[nodiscard]] std::optional<GpuUse> CountUse() const;

  // Claims, and calls `done` later: with the UUIDs, or the errors of ClaimGpus() (never ABORTED)
  // and UNAVAILABLE if the driver does not answer. Claims are served in their order.
  void Claim(GpuRequest request, Done done);
  // Drops claims that wait: their `done` is not called.
  void CancelClaims();

  // What the node holds, in the order of the claims.
  [[nodiscard]] const std::vector<std::string>& ids() const { return held_.ids(); }
  // Returns NOT_FOUND, and releases nothing, if one of them is not held.
  [[nodiscard]] absl::Status Release(const std::vector<std::string>& ids);
  void ReleaseAll();

 private:
  struct Waiting {
    GpuRequest request;
    Done done;
    // By the steady clock.
    absl::Duration driver_deadline;
    absl::Duration release_deadline = absl::InfiniteDuration();
    absl::Duration turn_deadline = absl::InfiniteDuration();
  };

  void Serve();
  // False: not yet.
  bool Try(Waiting* waiting, absl::StatusOr<std::vector<std::string>>* outcome);
  void ServeIn(absl::Duration delay);

  EventLoop* const loop_;
  Guard* const guard_;
  const Options options_;
  GpuMonitor monitor_;
  GpuClaim held_;
  std::list<Waiting> waiting_;
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_GPU_AGENT_GPUS_H_
