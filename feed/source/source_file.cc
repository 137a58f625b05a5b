#include "feed/source/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<SourceFile> SourceFile::Open(std::string path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  }
  return SourceFile(std::move(path), std::move(fd), static_cast<uint64_t>(status.st_size));
}

absl::StatusOr<size_t> SourceFile::ReadAt(uint64_t offset, char* to, size_t size) const {
  while (true) {
    const ssize_t got = pread(fd_.get(), to, size, static_cast<off_t>(offset));
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
  }
}

}  // namespace millrace
