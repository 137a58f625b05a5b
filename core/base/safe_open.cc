#include "core/base/safe_open.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// The kernel's limit for the links of one path.
constexpr int kMaxLinks = 40;
// Others may remove or make the file between two attempts to open it.
constexpr int kMaxOpens = 10;

absl::Status Errno(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

absl::Status NoRegularFile(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(path, " is no regular file: it is not used"));
}

bool OfOurs(const struct stat& info) { return info.st_uid == geteuid() || info.st_uid == 0; }

bool OthersMayWrite(const struct stat& info) { return (info.st_mode & 022) != 0; }

absl::Status CheckThere(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return Errno("cannot look at", path);
  if (!S_ISREG(info.st_mode)) return NoRegularFile(path);
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " belongs to user ", info.st_uid, ", not to this process's (", geteuid(),
                     "): nothing is written to it; remove it, or name another folder"));
  }
  if (info.st_nlink > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " has a second name (a hard link): nothing is written to it; remove it"));
  }
  return absl::OkStatus();
}

// Follows a path part by part. At each step it makes sure that no other user could redirect it.
class Walk {
 public:
  explicit Walk(const std::string& path) { Push(path); }

  absl::Status Run() {
    MILLRACE_RETURN_IF_ERROR(StandAt("/"));
    while (!todo_.empty()) {
      const std::string part = todo_.front();
      todo_.pop_front();
      if (part == "..") {
        const std::string above = here_.substr(0, here_.rfind('/'));
        MILLRACE_RETURN_IF_ERROR(StandAt(above.empty() ? "/" : above));
      } else if (part != ".") {
        MILLRACE_RETURN_IF_ERROR(Step(JoinPath(here_, part)));
      }
    }
    if (OthersMayWrite(info_)) return MayWrite(here_);
    return absl::OkStatus();
  }

 private:
  void Push(absl::string_view path) {
    const std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
    todo_.insert(todo_.begin(), parts.begin(), parts.end());
  }

  absl::Status StandAt(const std::string& path) {
    here_ = path;
    if (lstat(path.c_str(), &info_) != 0) return Errno("cannot look at", path);
    return CheckOwner(path, info_);
  }

  absl::Status Step(const std::string& next) {
    struct stat info = {};
    if (lstat(next.c_str(), &info) != 0) return Errno("cannot look at", next);
    MILLRACE_RETURN_IF_ERROR(CheckOwner(next, info));
    if (OthersMayWrite(info_) && (info_.st_mode & S_ISVTX) == 0) return MayWrite(here_);
    if (S_ISLNK(info.st_mode)) return Follow(next);
    if (info.st_dev != info_.st_dev) MILLRACE_RETURN_IF_ERROR(CheckFileSystem(next));
    here_ = next;
    info_ = info;
    return absl::OkStatus();
  }

  absl::Status Follow(const std::string& link) {
    if (++links_ > kMaxLinks) {
      return absl::FailedPreconditionError(absl::StrCat(link, ": too many symbolic links"));
    }
    char target[PATH_MAX];
    const ssize_t size = readlink(link.c_str(), target, sizeof(target));
    if (size < 0) return Errno("cannot read the link", link);
    const absl::string_view text(target, static_cast<size_t>(size));
    Push(text);
    return !text.empty() && text.front() == '/' ? StandAt("/") : absl::OkStatus();
  }

  static absl::Status CheckOwner(const std::string& path, const struct stat& info) {
    if (OfOurs(info)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to user ", info.st_uid));
  }

  static absl::Status MayWrite(const std::string& path) {
    return absl::FailedPreconditionError(absl::StrCat("other users may write to ", path));
  }

  static absl::Status CheckFileSystem(const std::string& path) {
    struct statfs system = {};
    if (statfs(path.c_str(), &system) != 0) return Errno("cannot look at the file system of", path);
    if (system.f_type != FUSE_SUPER_MAGIC) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, " is of a FUSE file system"));
  }

  std::deque<std::string> todo_;
  std::string here_;       // a path without links
  struct stat info_ = {};  // of here_
  int links_ = 0;
};

}  // namespace

absl::StatusOr<UniqueFd> OpenForAppend(const std::string& path, mode_t mode) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  for (int opens = 0; opens < kMaxOpens; ++opens) {
    // A file that is made here is ours, even if a network file system gives it another owner.
    UniqueFd made(open(path.c_str(), kFlags | O_CREAT | O_EXCL, mode));
    if (made.valid()) return made;
    if (errno != EEXIST) return Errno("cannot open", path);
    UniqueFd there(open(path.c_str(), kFlags));
    if (there.valid()) {
      MILLRACE_RETURN_IF_ERROR(CheckThere(there.get(), path));
      return there;
    }
    if (errno == ELOOP) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is a symbolic link, which is not followed; remove it"));
    }
    if (errno == ENXIO) return NoRegularFile(path);  // a FIFO that nobody reads, a socket
    if (errno != ENOENT) return Errno("cannot open", path);
  }
  return absl::AbortedError(absl::StrCat(path, " is made and removed again all the time"));
}

absl::StatusOr<UniqueFd> OpenForRead(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENXIO) return NoRegularFile(path);
  if (!fd.valid()) return Errno("cannot open", path);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return Errno("cannot look at", path);
  if (!S_ISREG(info.st_mode)) return NoRegularFile(path);
  return fd;
}

absl::Status CheckOnlyOwnerCanChange(const std::string& path) { return Walk(path).Run(); }

}  // namespace millrace
