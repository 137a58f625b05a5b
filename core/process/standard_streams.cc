#include "core/process/standard_streams.h"

#include <fcntl.h>

#include <cerrno>

namespace millrace {

void OpenStandardStreams() {
  for (int fd = 0; fd < 3; ++fd) {
    // open() returns the lowest number that is free: this one.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      (void)!open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
    }
  }
}

}  // namespace millrace
