#include "core/agent/node/log_file_writer.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/safe_open.h"
#include "core/base/unique_fd.h"

namespace millrace {
namespace {

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  return OpenForAppend(path, 0640);
}

// Leaves in `bytes` what could not be written.
absl::Status WriteAll(int fd, absl::string_view* bytes, const std::string& path) {
  while (!bytes->empty()) {
    const ssize_t written = write(fd, bytes->data(), bytes->size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write to ", path));
    bytes->remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

struct LogFileWriter::Shared {
  std::string path;
  std::shared_ptr<EventLoop::Mailbox> mailbox;
  Callbacks callbacks;
  std::shared_ptr<LogCounts> counts;

  Mutex mu;
  CondVar changed;
  std::string queue ABSL_GUARDED_BY(mu);
  size_t in_flight_bytes ABSL_GUARDED_BY(mu) = 0;  // taken from the queue, not written yet
  bool stop ABSL_GUARDED_BY(mu) = false;

  void Count(size_t written, size_t lost) const {
    if (counts == nullptr) return;
    counts->written_bytes.fetch_add(written);
    counts->lost_bytes.fetch_add(lost);
  }

  void Warn(const absl::Status& status) {
    mailbox->Post([warn = callbacks.on_warning,
                   text = absl::StrCat(status.message(),
                                       "; the node goes on, its output is kept "
                                       "only as far as it is relayed")] { warn(text); });
  }
};

LogFileWriter::LogFileWriter(std::string path, std::shared_ptr<EventLoop::Mailbox> mailbox,
                             Callbacks callbacks, std::shared_ptr<LogCounts> counts)
    : shared_(std::make_shared<Shared>()) {
  shared_->path = std::move(path);
  shared_->mailbox = std::move(mailbox);
  shared_->callbacks = std::move(callbacks);
  shared_->counts = std::move(counts);
  thread_ = Thread("log-writer", [shared = shared_] { Run(shared); });
}

LogFileWriter::~LogFileWriter() {
  MutexLock lock(&shared_->mu);
  shared_->stop = true;
  shared_->changed.SignalAll();
}

size_t LogFileWriter::Append(absl::string_view bytes) {
  MutexLock lock(&shared_->mu);
  shared_->queue.append(bytes.data(), bytes.size());
  shared_->changed.SignalAll();
  return shared_->queue.size() + shared_->in_flight_bytes;
}

bool LogFileWriter::Flush(absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(&shared_->mu);
  while (!shared_->queue.empty() || shared_->in_flight_bytes > 0) {
    if (shared_->changed.WaitWithTimeout(&shared_->mu, deadline.Left())) return false;
  }
  return true;
}

void LogFileWriter::Run(const std::shared_ptr<Shared>& shared) {
  absl::StatusOr<UniqueFd> file = OpenLog(shared->path);
  bool warned = !file.ok();
  if (!file.ok()) shared->Warn(file.status());
  std::string bytes;
  for (;;) {
    {
      MutexLock lock(&shared->mu);
      const bool was_high = bytes.size() >= kLowBytes;
      shared->in_flight_bytes = 0;
      bytes.clear();
      shared->changed.SignalAll();
      if (was_high && shared->queue.size() < kLowBytes) {
        shared->mailbox->Post(shared->callbacks.on_drained);
      }
      while (shared->queue.empty() && !shared->stop) {
        shared->changed.WaitWithTimeout(&shared->mu, absl::Minutes(1));
      }
      if (shared->stop) {
        shared->Count(/*written=*/0, shared->queue.size());
        return;
      }
      bytes.swap(shared->queue);
      shared->in_flight_bytes = bytes.size();
    }
    if (!file.ok()) {
      shared->Count(/*written=*/0, bytes.size());
      continue;
    }
    absl::string_view left = bytes;
    const absl::Status status = WriteAll(file->get(), &left, shared->path);
    shared->Count(bytes.size() - left.size(), left.size());
    if (!status.ok() && !std::exchange(warned, true)) shared->Warn(status);
  }
}

}  // namespace millrace
