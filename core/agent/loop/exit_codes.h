// File: core/agent/loop/exit_codes.h
//
// The exit codes of `millrace-agent` (docs/control_protocol.md).
#ifndef CORE_AGENT_LOOP_EXIT_CODES_H_
#define CORE_AGENT_LOOP_EXIT_CODES_H_

namespace millrace {

inline constexpr int kExitFinished = 0;
inline constexpr int kExitNodeFailed = 1;
inline constexpr int kExitCommandLine = 2;
inline constexpr int kExitAgentFailed = 3;

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_EXIT_CODES_H_
