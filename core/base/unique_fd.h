// File: core/base/unique_fd.h
//
// Owns a file descriptor.
//
//   UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
//   if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
//
// Thread safety: as an int. Moving leaves the source invalid. Closing reports nothing: who must
// know that data reached the disk calls fsync(2) first.

#ifndef CORE_BASE_UNIQUE_FD_H_
#define CORE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace millrace {

class [[nodiscard]] UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

  // Gives the descriptor to the caller, who must close it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // Closes what is held, if anything, and takes `fd`. Keeps errno.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old < 0) return;
    const int saved_errno = errno;
    ::close(old);  // never retried: on Linux the descriptor is gone even after EINTR
    errno = saved_errno;
  }

 private:
  int fd_ = -1;
};

}  // namespace millrace

#endif  // CORE_BASE_UNIQUE_FD_H_
