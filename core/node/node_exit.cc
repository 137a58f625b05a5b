#include "core/node/node_exit.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {

void PrintNodeError(absl::string_view who, const absl::Status& status) {
  constexpr size_t kMaxMessageBytes = size_t{16} << 10;
  const std::string line =
      absl::StrCat("millrace: ", EscapeControls(who), ": ", absl::StatusCodeToString(status.code()),
                   ": ", EscapeControls(Ellipsize(status.message(), kMaxMessageBytes)), "\n");
  absl::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody listens
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace millrace
