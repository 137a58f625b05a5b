// Stands between a launcher and millrace-agent: for one slot it is an agent that goes wrong, for
// the others it becomes the real one, as if it had never been there.
//
//   FLAKY_AGENT="hang:1"        slot 1: does nothing, ever
//               "wait:1"        slot 1: does nothing until its stdin ends
//               "exit:1"        slot 1: complains on stderr and exits with 7
//   FLAKY_AGENT_REAL=/path/of/millrace-agent

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/process/process.h"

namespace {

// The first line of stdin, which stays in the pipe: it is duplicated, not read.
std::string PeekLine() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  std::string line;
  // tee() blocks until there is something; the launcher writes its line in one piece.
  const ssize_t size = ::tee(STDIN_FILENO, ends[1], 1 << 16, 0);
  ::close(ends[1]);
  if (size > 0) {
    line.resize(static_cast<size_t>(size));
    const ssize_t got = ::read(ends[0], line.data(), line.size());
    line.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  ::close(ends[0]);
  return line;
}

[[noreturn]] void Hang() {
  while (true) ::pause();
}

[[noreturn]] void WaitForEndOfStdin() {
  char buffer[4096];
  while (::read(STDIN_FILENO, buffer, sizeof(buffer)) > 0) {
  }
  ::_exit(0);
}

}  // namespace

int main(int, char** argv) {
  const std::pair<std::string, std::string> fault =
      absl::StrSplit(millrace::EnvOr("FLAKY_AGENT", ""), ':');
  if (absl::StrContains(PeekLine(), absl::StrCat("\"executor_id\":", fault.second, ","))) {
    if (fault.first == "hang") Hang();
    if (fault.first == "wait") WaitForEndOfStdin();
    std::fprintf(stderr, "cannot find libcheese.so.4\n");
    return 7;
  }
  const std::string real = millrace::EnvOr("FLAKY_AGENT_REAL", "");
  ::execv(real.c_str(), argv);
  std::perror(real.c_str());
  return 127;
}
