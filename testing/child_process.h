// File: testing/child_process.h
//
// A child of a test whose stdout is read line by line, with deadlines.
//
// Defines: ChildProcess.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto driver, ChildProcess::Start({RunfilePath("x/driver"),
//   "--phase=feed"})); EXPECT_THAT(driver->WaitForLine("feeding", absl::Seconds(30)), IsOk());
//   driver->Kill(SIGKILL);
//   EXPECT_THAT(driver->Wait(absl::Seconds(5)), IsOk());

#ifndef TESTING_CHILD_PROCESS_H_
#define TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/line_reader.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"

namespace millrace {

// Where a test, or a program that Bazel runs, finds `path` of this repository.
[[nodiscard]] std::string RunfilePath(absl::string_view path);

// Thread safety: single-threaded. Blocking: the Wait functions. Lifetime: the destructor kills a
// child that still runs and reaps it.
class ChildProcess {
 public:
  // argv[0] is the program's path. stdin is /dev/null, stderr the test's own. Returns the system's
  // error, also that of exec.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Reads stdout until a line begins with `prefix`, and returns that line. Returns
  // DEADLINE_EXCEEDED or, at the end of stdout, OUT_OF_RANGE, with the lines that came instead.
  [[nodiscard]] absl::StatusOr<std::string> WaitForLine(absl::string_view prefix,
                                                        absl::Duration timeout);

  void Kill(int signal) const;

  // Waits for the end and reaps. Returns DEADLINE_EXCEEDED.
  [[nodiscard]] absl::StatusOr<ExitStatus> Wait(absl::Duration timeout);

 private:
  ChildProcess(pid_t pid, UniqueFd pid_fd, UniqueFd out);

  const pid_t pid_;
  const UniqueFd pid_fd_;
  const UniqueFd out_;
  bool reaped_ = false;
  LineReader reader_;
  std::vector<std::string> lines_;  // that WaitForLine has passed
};

}  // namespace millrace

#endif  // TESTING_CHILD_PROCESS_H_
