#include "core/cli/output/answer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "core/base/log.h"
#include "core/cli/output/terminal.h"

namespace millrace::cli {
namespace {

// There is no status code for this: the payload distinguishes it from ABORTED of a peer.
constexpr char kNobodyReads[] = "millrace/nobody-reads";

}  // namespace

absl::Status NobodyReadsError() {
  absl::Status status = absl::AbortedError("nobody reads stdout any more");
  status.SetPayload(kNobodyReads, absl::Cord());
  return status;
}

bool NobodyReads(const absl::Status& status) { return status.GetPayload(kNobodyReads).has_value(); }

absl::Status WriteAnswer(absl::string_view text) {
  if (WriteAll(STDOUT_FILENO, text)) return absl::OkStatus();
  if (errno == EPIPE) return NobodyReadsError();
  return absl::ErrnoToStatus(errno, "cannot write to stdout");
}

ReaderWatch::ReaderWatch(std::function<void()> on_gone) : on_gone_(std::move(on_gone)) {
  end_.reset(eventfd(0, EFD_CLOEXEC));
  MILLRACE_CHECK(end_.valid()) << "no descriptor left";
  thread_ = Thread("cli-reader", [this] { Run(); });
}

ReaderWatch::~ReaderWatch() {
  const uint64_t one = 1;
  MILLRACE_CHECK(write(end_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.Join();
}

void ReaderWatch::Run() {
  pollfd fds[] = {{.fd = end_.get(), .events = POLLIN, .revents = 0},
                  // No events: POLLERR (a pipe) and POLLHUP (a socket) are always told.
                  {.fd = STDOUT_FILENO, .events = 0, .revents = 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    if ((fds[1].revents & (POLLERR | POLLHUP)) != 0) break;
    if (fds[1].revents != 0) return;  // closed by who started us: nothing to watch
  }
  on_gone_();
}

}  // namespace millrace::cli
