#include "core/process/processor_share.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/unique_fd.h"

namespace millrace {

double ParseProcessorShare(absl::string_view loadavg, int processors) {
  // "20.00 18.34 5.05 3/456 123457": three threads of 456 run or want to.
  const std::vector<absl::string_view> fields = absl::StrSplit(loadavg, ' ');
  int wanting = 0;
  if (fields.size() < 4 || processors < 1 ||
      !absl::SimpleAtoi(fields[3].substr(0, fields[3].find('/')), &wanting)) {
    return 1;
  }
  return std::min(1.0, static_cast<double>(processors) / std::max(1, wanting));
}

double ProcessorShare() {
  const UniqueFd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t size = file.valid() ? ::read(file.get(), text, sizeof(text)) : 0;
  if (size <= 0) return 1;
  return ParseProcessorShare(absl::string_view(text, static_cast<size_t>(size)),
                             static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace millrace
