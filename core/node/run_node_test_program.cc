// A node program for run_node_test: its first argument says what its body does.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/process/process.h"
#include "millrace/data_feed.h"
#include "millrace/node.h"

namespace {

absl::Status WriteToAClosedPipe() {
  int fds[2];
  if (::pipe(fds) != 0) return absl::ErrnoToStatus(errno, "pipe");
  ::close(fds[0]);
  if (::write(fds[1], "x", 1) >= 0 || errno != EPIPE) return absl::InternalError("no EPIPE");
  return absl::OkStatus();
}

// The shell is a child of the node: it must see the variable, and not the descriptors.
absl::Status LookFromAChild(const millrace::NodeContext& node) {
  const std::string command = absl::StrCat(
      "test -n \"$MILLRACE_CONTROL_FD\" && ! test -e /proc/self/fd/$MILLRACE_CONTROL_FD && "
      "! test -e /proc/self/fd/",
      node.port_fd());
  const int result = ::system(command.c_str());
  return result == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("child: ", result));
}

absl::Status RunANodeInside(const std::string& self) {
  const int result = ::system(absl::StrCat("'", self, "' ok").c_str());
  if (WIFEXITED(result) && WEXITSTATUS(result) == 2) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the inner node: ", result));
}

absl::Status Body(const std::string& what, const std::string& self, millrace::NodeContext& node) {
  if (what == "ok") return absl::OkStatus();
  if (what == "fail") return absl::InvalidArgumentError("bad\nweights: \x1b[31m\xff");
  if (what == "wait") {
    node.ReportMetric("waiting", 0, 0);
    node.WaitForStop();
    return absl::OkStatus();
  }
  if (what == "get") return node.kv().Get("key", absl::InfiniteDuration()).status();
  if (what == "sigpipe") return WriteToAClosedPipe();
  if (what == "child") return LookFromAChild(node);
  if (what == "inner") return RunANodeInside(self);
  if (what == "no_feed") {
    ::printf("before\n");  // buffered: stdout is a file
    const auto feed = node.GetDataFeed({.queue = "nope"});
    return absl::InternalError("not reached");
  }
  return absl::UnimplementedError(what);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::string self = millrace::SelfExecutablePath().value_or("");
  return millrace::RunNode(argc, argv,
                           [&](millrace::NodeContext& node) { return Body(what, self, node); });
}
