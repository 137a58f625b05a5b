#include "core/agent/program_fetcher.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/sha256.h"
#include "core/base/status.h"
#include "core/base/status_macros.h"
#include "core/base/unique_fd.h"
#include "core/proto/grpc_status.h"

namespace millrace {
namespace {

constexpr int kTries = 5;
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(200);
constexpr std::chrono::minutes kTryTimeout(10);

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
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
  thread_ = Thread("program-fetch", [shared = shared_, mailbox = std::move(mailbox),
                                     done = std::move(done)] {
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
  if (!options.local_path.empty() && access(options.local_path.c_str(), X_OK) == 0) {
    const auto digest = Sha256HexOfFile(options.local_path);
    // Absolute: the node's working folder is another one than this process's.
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(options.local_path, error);
    if (!error && digest.ok() && *digest == options.sha256) return FetchedProgram{path, false};
  }
  absl::Duration backoff = kFirstBackoff;
  for (int tries = 1;; ++tries) {
    const absl::Status status = FetchOnce(shared);
    if (status.ok()) return FetchedProgram{options.target_path, true};
    unlink(options.target_path.c_str());
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
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));

  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", options.token));
  context.set_deadline(std::chrono::system_clock::now() + kTryTimeout);
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
      status = absl::DataLossError(absl::StrCat("more than the ", options.size_bytes,
                                                " bytes announced"));
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
