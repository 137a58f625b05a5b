// File: core/agent/loop/child_reaper.h
//
// Every child of the agent: those it started, whose changes of state are reported, and orphaned
// grandchildren, which the kernel hands to the agent because it is a child subreaper.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto reaper, ChildReaper::Create(&loop));
//   reaper->Register(pid, [&](const ExitStatus& status) { ... });

#ifndef CORE_AGENT_LOOP_CHILD_REAPER_H_
#define CORE_AGENT_LOOP_CHILD_REAPER_H_

#include <sys/types.h>

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"

namespace millrace {

// At most one per process: it waits for every child there is.
// Ownership: the loop must outlive it. Thread safety: the loop's thread only. Blocking:
// EndOrphans() only.
class ChildReaper {
 public:
  using Callback = absl::AnyInvocable<void(const ExitStatus&)>;

  // Blocks SIGCHLD in the calling thread, and thereby in every thread it starts later: call it
  // before there are others. Makes the process a child subreaper.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildReaper>> Create(EventLoop* loop);
  ~ChildReaper();
  ChildReaper(const ChildReaper&) = delete;
  ChildReaper& operator=(const ChildReaper&) = delete;

  // Calls `callback` when the child stops, continues or ends. When it ended it is still a zombie
  // during the call, so that neither its pid nor its process group can belong to anybody else;
  // afterwards it is forgotten. Register a child before the loop runs again.
  void Register(pid_t pid, Callback callback);
  // Forgets the callback; the child will still be reaped.
  void Unregister(pid_t pid) { children_.erase(pid); }

  // Kills (SIGKILL) every child that is not registered: orphans of the node that left its process
  // group. Returns how many there were; each may leave orphans of its own, so call it until 0.
  int KillOrphans();
  // Does that, and reaps them, until there are none or `timeout` has passed. Blocking.
  void EndOrphans(absl::Duration timeout);

 private:
  ChildReaper(EventLoop* loop, UniqueFd signals);
  void Reap();

  EventLoop* const loop_;
  const UniqueFd signals_;  // signalfd for SIGCHLD
  absl::flat_hash_map<pid_t, std::shared_ptr<Callback>> children_;
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_CHILD_REAPER_H_
