// File: core/agent/loop/guard.h
//
// What remains of an agent that was killed (SIGKILL, out of memory): a small process that then
// kills the node's process group and whatever else bears the node's mark in its environment, and
// removes the agent's files. PR_SET_PDEATHSIG alone would spare the node's children, and the
// process group those of them that have a session of their own.
//
//   MILLRACE_ASSIGN_OR_RETURN(Guard guard, Guard::Start());   // first in main, before threads
//   guard.AddPath("/run/x/context.json");
//   guard.SetGroup(pid);
//   guard.SetMark("MILLRACE_CONTEXT_FILE=/run/x/context.json");
//   ...
//   guard.Dismiss();   // after the agent has cleaned up itself

#ifndef CORE_AGENT_LOOP_GUARD_H_
#define CORE_AGENT_LOOP_GUARD_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"

namespace millrace {

// The guard is a fork of the agent in a process group of its own (so that a signal for the agent's
// group spares it) with /dev/null as stdin, stdout and stderr. It ends when the agent does.
// Thread safety: not thread-safe. Blocking: never, but for Dismiss(), which reaps it.
class [[nodiscard]] Guard {
 public:
  // Without a process: every call does nothing.
  Guard() = default;
  // Forks; the process must have one thread. Returns RESOURCE_EXHAUSTED if it cannot.
  [[nodiscard]] static absl::StatusOr<Guard> Start();
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = default;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // The process group to kill; 0: none (any more).
  void SetGroup(pid_t group);
  // An environment entry ("NAME=value") that only the node and its descendants were started with.
  void SetMark(absl::string_view mark);
  // A file or an empty folder to remove; the last added goes first.
  void AddPath(absl::string_view path);
  // A folder to remove with whatever is in it.
  void AddTree(absl::string_view path);

  // The guard keeps copies of descriptors until Drop() with the same name, or until it has killed
  // what is left of the node: a claim that they hold is not free until then. At most 16 in a call.
  void Hold(absl::string_view name, const std::vector<int>& fds);
  void Drop(absl::string_view name);

  // Ends the guard without its doing anything.
  void Dismiss();

 private:
  Guard(UniqueFd orders, pid_t pid) : orders_(std::move(orders)), pid_(pid) {}
  void Order(const std::string& line);

  // Socket to the guard, a line each: "g 12", "m NAME=value", "p /file", "t /folder", "h NAME"
  // (with descriptors), "d NAME", "dismiss".
  UniqueFd orders_;
  pid_t pid_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_GUARD_H_
