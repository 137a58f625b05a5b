#include "core/agent/link/program_fetcher.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/safe_open.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/client/client_channel.h"
#include "core/net/sha256.h"
#include "core/proto/grpc_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kTries = 5;
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(200);
constexpr absl::Duration kTryTimeout = absl::Minutes(10);

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> MakeTarget(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  return file;
}

bool HasDigest(const std::string& path, int64_t size_bytes, const std::string& sha256) {
  const absl::StatusOr<UniqueFd> file = OpenForRead(path);
  struct stat info = {};
  if (!file.ok() || fstat(file->get(), &info) != 0 || info.st_size != size_bytes) return false;
  const auto digest = Sha256HexOfFile(absl::StrCat("/proc/self/fd/", file->get()));
  return digest.ok() && *digest == sha256;
}

// Whether what is hashed at `path` is what exec finds there later, and can run there.
bool IsSafeInPlace(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0) return false;
  const absl::Status safe = CheckOnlyOwnerCanChange(path);
  if (!safe.ok()) {
    MILLRACE_LOG(INFO) << "the node program " << path
                       << " is copied before it is run: " << safe.message();
  }
  return safe.ok();
}

// `bytes` of `from`, which others may be writing to: the copy is what is hashed.
absl::Status CopyBytes(int from, int to, int64_t bytes) {
  while (bytes > 0) {
    // Shares the blocks where the file system can, otherwise copies within the kernel.
    ssize_t copied = copy_file_range(from, nullptr, to, nullptr, static_cast<size_t>(bytes), 0);
    if (copied < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                       errno == EOPNOTSUPP || errno == EPERM)) {
      copied = sendfile(to, from, nullptr, static_cast<size_t>(bytes));
    }
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return absl::ErrnoToStatus(errno, "cannot copy the node program");
    if (copied == 0) return absl::DataLossError("the node program has become shorter");
    bytes -= copied;
  }
  return absl::OkStatus();
}

// Copies the file at `local` to options.target_path. Returns false if there is no such file, or if
// it is another program.
bool CopyLocal(const std::string& local, const ProgramFetcher::Options& options) {
  const absl::StatusOr<UniqueFd> from = OpenForRead(local);
  struct stat info = {};
  if (!from.ok() || fstat(from->get(), &info) != 0 || info.st_size != options.size_bytes) {
    return false;
  }
  absl::StatusOr<UniqueFd> to = MakeTarget(options.target_path);
  absl::Status status = to.status();
  if (status.ok()) status = CopyBytes(from->get(), to->get(), options.size_bytes);
  if (to.ok()) to->reset();
  if (status.ok() && HasDigest(options.target_path, options.size_bytes, options.sha256))
    return true;
  if (!status.ok()) MILLRACE_LOG(INFO) << "copying " << local << ": " << status.message();
  unlink(options.target_path.c_str());
  return false;
}

absl::StatusOr<FetchedProgram> MoveToMemory(const std::string& path) {
  constexpr unsigned kMfdExec = 0x10;  // asked for from Linux 6.3 on, unknown before
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd from, OpenForRead(path));
  UniqueFd memory(memfd_create("millrace-program", kFlags | kMfdExec));
  if (!memory.valid()) memory.reset(memfd_create("millrace-program", kFlags));
  struct stat info = {};
  if (!memory.valid() || fstat(from.get(), &info) != 0 || fchmod(memory.get(), 0700) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("the node program cannot be run from ", path,
                            ", whose file system is mounted noexec, nor from memory; set TMPDIR to "
                            "another folder"));
  }
  MILLRACE_RETURN_IF_ERROR(CopyBytes(from.get(), memory.get(), info.st_size));
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0) {
    return absl::ErrnoToStatus(errno, "cannot seal the node program in memory");
  }
  unlink(path.c_str());
  auto kept = std::make_shared<const UniqueFd>(std::move(memory));
  std::string found = absl::StrCat("/proc/", getpid(), "/fd/", kept->get());
  return FetchedProgram{.path = std::move(found), .memory = std::move(kept)};
}

}  // namespace

struct ProgramFetcher::Shared {
  Options options;
  Notification cancelled;
  Mutex mu;
  grpc::ClientContext* call ABSL_GUARDED_BY(mu) = nullptr;  // in progress
};

ProgramFetcher::ProgramFetcher(Options options, std::shared_ptr<EventLoop::Mailbox> mailbox,
                               Done done)
    : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
  thread_ = Thread("program-fetch",
                   [shared = shared_, mailbox = std::move(mailbox), done = std::move(done)] {
                     absl::StatusOr<FetchedProgram> program = Get(shared.get());
                     mailbox->Post([shared, done, program = std::move(program)]() mutable {
                       if (!shared->cancelled.HasBeenNotified()) done(std::move(program));
                     });
                   });
}

ProgramFetcher::~ProgramFetcher() {
  shared_->cancelled.Notify();
  MutexLock lock(&shared_->mu);
  if (shared_->call != nullptr) shared_->call->TryCancel();
}

absl::StatusOr<FetchedProgram> ProgramFetcher::Get(Shared* shared) {
  const Options& options = shared->options;
  if (!HasDigest(options.target_path, options.size_bytes, options.sha256)) {
    unlink(options.target_path.c_str());
    if (!options.local_path.empty()) {
      std::error_code error;
      // Absolute: the node's working folder is another one than this process's.
      const std::string local = std::filesystem::absolute(options.local_path, error);
      if (!error && IsSafeInPlace(local) && HasDigest(local, options.size_bytes, options.sha256)) {
        return FetchedProgram{.path = local, .memory = nullptr};
      }
      if (error || !CopyLocal(local, options)) MILLRACE_RETURN_IF_ERROR(Fetch(shared));
    } else {
      MILLRACE_RETURN_IF_ERROR(Fetch(shared));
    }
  }
  struct statvfs system = {};
  const bool noexec =
      statvfs(options.target_path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0;
  if (noexec) return MoveToMemory(options.target_path);
  return FetchedProgram{.path = options.target_path, .memory = nullptr};
}

absl::Status ProgramFetcher::Fetch(Shared* shared) {
  const std::string& path = shared->options.target_path;
  absl::Duration backoff = kFirstBackoff;
  for (int tries = 1;; ++tries) {
    const absl::Status status = FetchOnce(shared);
    if (status.ok()) return status;
    unlink(path.c_str());
    if (!absl::IsUnavailable(status) || tries == kTries || shared->cancelled.HasBeenNotified()) {
      return Annotate(status, "cannot fetch the node program from the coordinator");
    }
    MILLRACE_LOG(INFO) << "fetching the program again: " << status.message();
    shared->cancelled.WaitForNotificationWithTimeout(backoff);
    backoff *= 2;
  }
}

absl::Status ProgramFetcher::FetchOnce(Shared* shared) {
  const Options& options = shared->options;
  const std::string& path = options.target_path;
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd file, MakeTarget(path));

  grpc::ClientContext context;
  PrepareCall(options.token, kTryTimeout, &context);
  {
    MutexLock lock(&shared->mu);
    if (shared->cancelled.HasBeenNotified()) return absl::CancelledError("the agent ends");
    shared->call = &context;
  }
  v1::FetchProgramRequest request;
  request.set_sha256(options.sha256);
  const auto reader = options.stub->FetchProgram(&context, request);
  v1::ProgramChunk chunk;
  int64_t got_bytes = 0;
  absl::Status status;
  while (status.ok() && reader->Read(&chunk)) {
    got_bytes += static_cast<int64_t>(chunk.data().size());
    if (got_bytes > options.size_bytes) {
      status = absl::DataLossError(
          absl::StrCat("more than the ", options.size_bytes, " bytes announced"));
    } else {
      status = WriteAll(file.get(), chunk.data(), path);
    }
  }
  if (!status.ok()) context.TryCancel();
  const absl::Status call = FromGrpcStatus(reader->Finish());
  {
    MutexLock lock(&shared->mu);
    shared->call = nullptr;
  }
  MILLRACE_RETURN_IF_ERROR(status);
  MILLRACE_RETURN_IF_ERROR(call);
  if (fchmod(file.get(), 0700) != 0) return absl::ErrnoToStatus(errno, path);
  file.reset();
  MILLRACE_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(path));
  if (got_bytes != options.size_bytes || digest != options.sha256) {
    return absl::DataLossError(absl::StrCat("the program that came (", got_bytes, " bytes, sha256 ",
                                            digest, ") is not the one announced (",
                                            options.size_bytes, " bytes, sha256 ", options.sha256,
                                            ")"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
