// File: core/agent/program_fetcher.h
//
// Gets the shipped node program onto this host: uses the file where the driver had it if it is the
// same, fetches it from the coordinator otherwise.
//
//   ProgramFetcher fetcher(options, loop->mailbox(), [](absl::StatusOr<FetchedProgram> program) {});

#ifndef CORE_AGENT_PROGRAM_FETCHER_H_
#define CORE_AGENT_PROGRAM_FETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/agent/event_loop.h"
#include "core/base/thread.h"
#include "core/proto/coordinator.grpc.pb.h"

namespace millrace {

struct FetchedProgram {
  std::string path;      // absolute
  bool fetched = false;  // the file was made here, and is the caller's to remove
};

// Ownership: owns its thread "program-fetch". Thread safety: create and destroy on one thread.
// Blocking: the destructor cancels the call and waits for the thread (at most for a disk write).
class ProgramFetcher {
 public:
  struct Options {
    std::shared_ptr<v1::Coordinator::Stub> stub;
    std::string token;
    std::string sha256;        // 64 hexadecimal digits
    int64_t size_bytes = 0;
    // Used as it is where it is executable and has the digest. A relative one is that of this
    // process's working folder: on YARN a container's, with the files of its application.
    std::string local_path;
    std::string target_path;   // made (mode 0700) otherwise; must not exist
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
  static absl::Status FetchOnce(Shared* shared);

  const std::shared_ptr<Shared> shared_;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_AGENT_PROGRAM_FETCHER_H_
