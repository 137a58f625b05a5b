// File: millrace/agent_exit.h
//
// How the agent of a slot ended: what launchers report and coordinators act on.
//
// Defines: AgentExit.
//
// Thread safety: an ordinary value.

#ifndef MILLRACE_AGENT_EXIT_H_
#define MILLRACE_AGENT_EXIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/exit_status.h"

namespace millrace {

// The proven end of the agent of a slot.
struct AgentExit {
  int executor_id = 0;
  // Which process it was; 0: whichever agent the slot had, if any. A report about an agent that no
  // longer has the slot is ignored.
  int64_t pid = 0;
  // The same, where pids of several hosts may be equal: the id with which the agent registered.
  // Empty: not known.
  std::string agent_id;
  ExitStatus exit;      // how the process ended; kUnknown if it never started
  absl::Status status;  // why, if the agent or its launcher said so; its code is the failure's
  std::vector<std::string> stderr_tail;  // at most 50 lines, oldest first
};

}  // namespace millrace

#endif  // MILLRACE_AGENT_EXIT_H_
