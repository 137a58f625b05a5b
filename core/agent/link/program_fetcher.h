// File: core/agent/link/program_fetcher.h
//
// Gets the shipped node program onto this host, so that what is run later by the path that comes
// out is what was hashed. It is used in place where the driver had it if nobody but this user and
// root can change it there; copied into the agent's own folder if others can; fetched from the
// coordinator if it is not there or another one.
//
//   ProgramFetcher fetcher(options, loop->mailbox(), [](absl::StatusOr<FetchedProgram> program)
//   {});

#ifndef CORE_AGENT_LINK_PROGRAM_FETCHER_H_
#define CORE_AGENT_LINK_PROGRAM_FETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/proto/coordinator.grpc.pb.h"

namespace millrace {

struct FetchedProgram {
  std::string path;  // absolute
  // Set where the agent's folder is mounted noexec: the program, sealed, in memory. `path`
  // (/proc/<pid>/fd/<n>) leads to it as long as this is open.
  std::shared_ptr<const UniqueFd> memory;
};

// Ownership: owns its thread "program-fetch". Thread safety: create and destroy on one thread.
// Blocking: the destructor cancels the call and waits for the thread (at most for a disk write).
class ProgramFetcher {
 public:
  struct Options {
    std::shared_ptr<v1::Coordinator::Stub> stub;
    std::string token;
    std::string sha256;  // 64 hexadecimal digits
    int64_t size_bytes = 0;
    // Where the driver had it. A relative one is that of this process's working folder: on YARN a
    // container's, with the files of its application.
    std::string local_path;
    // Of the copy (mode 0700), the caller's to remove, in a folder of this user's alone. One of an
    // attempt before is used again if it still has the digest.
    std::string target_path;
  };
  // Posted to the mailbox once, unless the fetcher is destroyed before. Errors: those of
  // FetchProgram (NOT_FOUND: the cluster ships no such program), DATA_LOSS if what came has another
  // size or digest, RESOURCE_EXHAUSTED if the disk is full. After an error target_path is gone.
  using Done = std::function<void(absl::StatusOr<FetchedProgram>)>;

  ProgramFetcher(Options options, std::shared_ptr<EventLoop::Mailbox> mailbox, Done done);
  ~ProgramFetcher();
  ProgramFetcher(const ProgramFetcher&) = delete;
  ProgramFetcher& operator=(const ProgramFetcher&) = delete;

 private:
  struct Shared;
  static absl::StatusOr<FetchedProgram> Get(Shared* shared);
  static absl::Status Fetch(Shared* shared);
  static absl::Status FetchOnce(Shared* shared);

  const std::shared_ptr<Shared> shared_;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_AGENT_LINK_PROGRAM_FETCHER_H_
