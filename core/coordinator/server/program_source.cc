#include "core/coordinator/server/program_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/net/sha256.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<ProgramSource::Stamp> ProgramSource::StampOf(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("program ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "program ", path, " is ", S_ISDIR(info.st_mode) ? "a folder" : "no regular file",
        "; name the executable file to be shipped"));
  }
  if (info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat("program ", path, " is an empty file"));
  }
  return Stamp{info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

absl::StatusOr<std::unique_ptr<ProgramSource>> ProgramSource::Open(const std::string& path) {
  // O_NONBLOCK: a FIFO must not hold us up.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot read the program to be shipped from this host, ", path));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Stamp stamp, StampOf(fd.get(), path));
  // Through the descriptor: the name may mean another file by now.
  MILLRACE_ASSIGN_OR_RETURN(std::string sha256,
                            Sha256HexOfFile(absl::StrCat("/proc/self/fd/", fd.get())));
  MILLRACE_ASSIGN_OR_RETURN(const Stamp after, StampOf(fd.get(), path));
  if (!(stamp == after)) {
    return absl::FailedPreconditionError(
        absl::StrCat("program ", path, " is being written to; wait until that is done"));
  }
  return std::unique_ptr<ProgramSource>(
      new ProgramSource(path, std::move(fd), stamp, std::move(sha256)));
}

ProgramSource::ProgramSource(std::string path, UniqueFd fd, Stamp stamp, std::string sha256)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      stamp_(stamp),
      sha256_(std::move(sha256)),
      size_(stamp.size),
      thread_("coord-program", [this] { Run(); }) {}

ProgramSource::~ProgramSource() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    arrived_.SignalAll();
  }
  thread_.Join();
}

void ProgramSource::Read(int64_t offset, Callback done) {
  MutexLock lock(&mu_);
  reads_.emplace_back(offset, std::move(done));
  arrived_.Signal();
}

absl::StatusOr<std::string> ProgramSource::ReadNow(int64_t offset) const {
  MILLRACE_ASSIGN_OR_RETURN(const Stamp stamp, StampOf(fd_.get(), path_));
  const absl::Status changed = absl::DataLossError(
      absl::StrCat("program ", path_, " has changed since the coordinator started"));
  if (!(stamp == stamp_)) return changed;
  const int64_t left = std::max<int64_t>(0, size_ - offset);
  std::string chunk(std::min<int64_t>(left, kChunkBytes), '\0');
  size_t done = 0;
  while (done < chunk.size()) {
    const ssize_t count = pread(fd_.get(), chunk.data() + done, chunk.size() - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat("program ", path_));
    if (count == 0) return changed;
    done += count;
  }
  return chunk;
}

void ProgramSource::Run() {
  for (;;) {
    std::pair<int64_t, Callback> read;
    bool stopping = false;
    {
      MutexLock lock(&mu_);
      while (reads_.empty()) {
        if (stopping_) return;
        arrived_.WaitWithTimeout(&mu_, absl::Seconds(60));
      }
      read = std::move(reads_.front());
      reads_.pop_front();
      stopping = stopping_;
    }
    if (stopping) {
      read.second(absl::CancelledError("the coordinator shuts down"));
    } else {
      read.second(ReadNow(read.first));
    }
  }
}

}  // namespace millrace
