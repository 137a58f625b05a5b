// File: core/launch/piped_child.h
//
// A child process whose three standard streams are pipes of this one.
//
// Defines: PipedChild, ReadAvailable().
#ifndef CORE_LAUNCH_PIPED_CHILD_H_
#define CORE_LAUNCH_PIPED_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/line_reader.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"

namespace millrace {

// An ordinary value: its end closes the pipes, and neither ends nor reaps the child. Thread safety:
// single-threaded. Blocking: never, but for Reap().
struct PipedChild {
  pid_t pid = 0;
  UniqueFd pid_fd;  // readable once it has ended
  UniqueFd in;
  UniqueFd out;  // these two do not block
  UniqueFd err;

  // Starts the program at `path` in a process group of its own, with default signal dispositions
  // and an empty mask, whatever this process's are. Its environment is this process's, or
  // `environment` ("NAME=value"). `more`, if it is not -1, is a descriptor of this process that the
  // child gets as its descriptor 3. Returns the system's error.
  [[nodiscard]] static absl::StatusOr<PipedChild> Spawn(
      const std::string& path, const std::vector<std::string>& args,
      const std::vector<std::string>* environment = nullptr, int more = -1);

  void Signal(int signal) const;
  // Waits for its end. Unknown if this process ignores SIGCHLD, or somebody else reaps its
  // children.
  [[nodiscard]] ExitStatus Reap() const;
};

// Appends what `fd` has to `lines`. Returns false at its end.
[[nodiscard]] bool ReadAvailable(int fd, LineReader* lines);

}  // namespace millrace

#endif  // CORE_LAUNCH_PIPED_CHILD_H_
