#include "core/base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/unique_fd.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status Errno(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

absl::Status WriteAll(int fd, absl::string_view contents, absl::string_view path) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Errno("cannot write", path);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status FillAndSync(int fd, absl::string_view contents, mode_t mode, absl::string_view path) {
  if (fchmod(fd, mode) != 0) return Errno("cannot set the mode of", path);
  MILLRACE_RETURN_IF_ERROR(WriteAll(fd, contents, path));
  if (fsync(fd) != 0) return Errno("cannot sync", path);
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Errno("cannot open", path);
  std::string contents;
  struct stat info {};
  if (fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    contents.reserve(std::min(static_cast<size_t>(info.st_size), max_bytes) + 1);
  }
  constexpr size_t kChunkBytes = size_t{64} << 10;
  for (;;) {
    const size_t size = contents.size();
    // One byte more than allowed tells "too large" from "exactly full".
    const size_t want = std::min(kChunkBytes, max_bytes - size) + 1;
    contents.resize(size + want);
    const ssize_t got = read(fd.get(), contents.data() + size, want);
    const int error = errno;
    contents.resize(size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
    if (got == 0) return contents;
    if (contents.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is larger than the limit of ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view contents, mode_t mode) {
  std::string temporary = absl::StrCat(path, ".tmp.XXXXXX");
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return Errno("cannot create a temporary file for", path);
  absl::Status status = FillAndSync(fd.get(), contents, mode, path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = Errno("cannot replace", path);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  // The new name is durable once the folder is. A folder that cannot be synced (some network file
  // systems) is no reason to report a write that every reader already sees as failed.
  const UniqueFd folder(open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) (void)fsync(folder.get());
  return absl::OkStatus();
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (b.empty()) return std::string(a);
  if (a.empty() || b.front() == '/') return std::string(b);
  return a.back() == '/' ? absl::StrCat(a, b) : absl::StrCat(a, "/", b);
}

absl::StatusOr<TempDir> TempDir::Create(absl::string_view prefix) {
  if (prefix.find('/') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix of a temporary folder must hold no slash, found \"", prefix, "\""));
  }
  const char* folder = getenv("TMPDIR");
  std::string path = JoinPath(folder == nullptr || *folder == '\0' ? "/tmp" : folder,
                              absl::StrCat(prefix, ".XXXXXX"));
  if (mkdtemp(path.data()) == nullptr) return Errno("cannot create a temporary folder", path);
  return TempDir(std::move(path));
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, "")) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this != &other) {
    Remove();
    path_ = std::exchange(other.path_, "");
  }
  return *this;
}

TempDir::~TempDir() { Remove(); }

std::string TempDir::Release() { return std::exchange(path_, ""); }

void TempDir::Remove() {
  if (path_.empty()) return;
  std::error_code ignored;  // nobody could act on it
  std::filesystem::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace millrace
