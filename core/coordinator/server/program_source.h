// File: core/coordinator/server/program_source.h
//
// The shipped node program, read in chunks for FetchProgram.
//
// Defines: ProgramSource.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto program, ProgramSource::Open("/home/u/train"));
//   program->Read(0, [](absl::StatusOr<std::string> chunk) { ... });

#ifndef CORE_COORDINATOR_SERVER_PROGRAM_SOURCE_H_
#define CORE_COORDINATOR_SERVER_PROGRAM_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Owns the thread "coord-program", the only one of the coordinator that reads from a disk.
// Thread safety: thread-safe. Blocking: Open() and the destructor.
class ProgramSource {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  using Callback = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;

  // Hashes the file and keeps it open. Returns NOT_FOUND, PERMISSION_DENIED, ... naming the path if
  // it cannot be read, INVALID_ARGUMENT if it is no regular file or empty.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ProgramSource>> Open(const std::string& path);
  // Reads that wait get CANCELLED.
  ~ProgramSource();

  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] int64_t size() const { return size_; }

  // Reads up to kChunkBytes at `offset` and calls `done` from the source's thread; an empty chunk
  // is the end. DATA_LOSS if the file has changed since Open().
  void Read(int64_t offset, Callback done);

 private:
  struct Stamp {  // what tells that a file was written to
    int64_t size = 0;
    int64_t mtime_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  ProgramSource(std::string path, UniqueFd fd, Stamp stamp, std::string sha256);
  static absl::StatusOr<Stamp> StampOf(int fd, const std::string& path);
  absl::StatusOr<std::string> ReadNow(int64_t offset) const;
  void Run();

  const std::string path_;
  const UniqueFd fd_;
  const Stamp stamp_;
  const std::string sha256_;
  const int64_t size_;
  Mutex mu_;
  CondVar arrived_;
  std::deque<std::pair<int64_t, Callback>> reads_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_PROGRAM_SOURCE_H_
