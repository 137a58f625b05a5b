// File: core/agent/node/process_sampler.h
//
// What a process and its descendants use, as procfs counts it.
//
// Defines: SampleProcess().

#ifndef CORE_AGENT_NODE_PROCESS_SAMPLER_H_
#define CORE_AGENT_NODE_PROCESS_SAMPLER_H_

#include <sys/types.h>

#include <string>

#include "core/proto/sample.pb.h"

namespace millrace {

// The sums over `pid` and at most 63 of its descendants; memory that they share counts in each.
// Values that cannot be read are unset, all of them for a process that is gone. `proc` is for
// tests.
//
// Blocking: never (procfs).
[[nodiscard]] v1::ProcessSample SampleProcess(pid_t pid, const std::string& proc = "/proc");

}  // namespace millrace

#endif  // CORE_AGENT_NODE_PROCESS_SAMPLER_H_
