// File: testing/process_table.h
//
// The processes of this host and the sockets they hold, read from /proc: what a test looks at to
// see what a cluster is made of, and what is left of it.
//
// Defines: ProcessInfo, ReadProcess(), FindProcesses(), BoundSocket, FindBoundSockets().
//
//   for (const ProcessInfo& process : FindProcesses("MILLRACE_TEST_ID=4c1d", getpid())) {
//     for (const BoundSocket& socket : FindBoundSockets({process.pid})) { ... }
//   }
//
// Everything here is a picture of a moment: a process may be gone when its row is returned.
// Thread safety: thread-safe. Blocking: never (procfs).

#ifndef TESTING_PROCESS_TABLE_H_
#define TESTING_PROCESS_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  uint64_t start_time = 0;  // clock ticks since boot; with the pid it names one process for good
  char state = '?';         // 'Z': ended, and its parent has not asked how
  std::string command;      // argv joined by spaces; "[name]" for a zombie
};

// nullopt if there is no such process.
[[nodiscard]] std::optional<ProcessInfo> ReadProcess(pid_t pid);

// Processes that were started with the environment entry `marker` ("NAME=value"), those that
// descend from one of them, and the descendants of `ancestor`; never `ancestor` itself. By pid.
//
// A process that was started with another environment and whose parents are all gone is not found:
// nothing says where it came from.
[[nodiscard]] std::vector<ProcessInfo> FindProcesses(absl::string_view marker, pid_t ancestor);

struct BoundSocket {
  enum class Kind {
    kTcp,       // listening
    kAbstract,  // unix, with a name in the abstract namespace
  };
  Kind kind = Kind::kTcp;
  pid_t pid = 0;  // one of the processes that hold it
  uint64_t inode = 0;
  std::string address;  // "127.0.0.1:4242", "[::1]:4242", "@millrace-0c2d"
  int port = 0;         // kTcp
};

// Listening TCP sockets and named abstract unix sockets that one of `pids` holds, each once; a name
// of which only connections are left counts too. By address.
[[nodiscard]] std::vector<BoundSocket> FindBoundSockets(const std::vector<pid_t>& pids);

}  // namespace millrace

#endif  // TESTING_PROCESS_TABLE_H_
