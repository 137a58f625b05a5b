// File: core/node/node_exit.h
//
// How a node program ends: its exit codes, and the one line on stderr that says why.
//
// Defines: kNodeExitFailed, kNodeExitNoPlace, kNodeExitAgentGone, PrintNodeError().
#ifndef CORE_NODE_NODE_EXIT_H_
#define CORE_NODE_NODE_EXIT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr int kNodeExitFailed = 1;      // the program returned an error
inline constexpr int kNodeExitNoPlace = 2;     // it could not take its place in a cluster
inline constexpr int kNodeExitAgentGone = 70;  // EX_SOFTWARE: its agent is gone

// Writes "millrace: <who>: <CODE>: <message>" to stderr, in one write, so that lines of other
// threads cannot come between, and as one line: control characters are escaped, and a message over
// 16 KiB is cut. Takes no lock, hence usable on any way out. Thread safety: thread-safe.
void PrintNodeError(absl::string_view who, const absl::Status& status);

}  // namespace millrace

#endif  // CORE_NODE_NODE_EXIT_H_
